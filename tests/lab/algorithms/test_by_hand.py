"""Every algorithm's numbers, worked out by hand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from motet.lab.algorithms.base import AlgorithmSettings, Batch, Scorers
from motet.lab.algorithms.cispo import Cispo
from motet.lab.algorithms.dapo import Dapo
from motet.lab.algorithms.datums import rl_datum
from motet.lab.algorithms.distillation import Distillation
from motet.lab.algorithms.dpo import Dpo
from motet.lab.algorithms.dr_grpo import DrGrpo
from motet.lab.algorithms.examples import Completion, Judged, Pair
from motet.lab.algorithms.grpo import Grpo
from motet.lab.algorithms.gspo import Gspo
from motet.lab.algorithms.kto import Kto
from motet.lab.algorithms.ppo import Ppo
from motet.lab.algorithms.reinforce import Reinforce
from motet.lab.algorithms.rloo import Rloo
from motet.lab.algorithms.self_distillation import SelfDistillation
from motet.lab.algorithms.sft import Sft
from motet.lab.envs.protocol import End, Group, Trajectory, Turn, Written
from motet.lab.experiments.scoring import PromptedScorer


def episode(reward: float, words: int = 2, version: int = 1, hint: Sequence[int] = ()) -> Trajectory:
    """Reads 10 11, writes `words` tokens, reads 30, writes 40."""
    first = Written(list(range(20, 20 + words)), [-1.0] * words, "", True)
    turns = [Turn([10, 11], first), Turn([30], Written([40], [-2.0], "", True))]
    return Trajectory(turns, End(reward, ""), version, hint)


@dataclass
class Fixed:
    """A model that gives every token the same, and remembers what it was asked."""

    logprob: float = 0.0
    asked: list[list[int]] = field(default_factory=list)

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        self.asked.append(list(tokens))
        return [0.0, *[self.logprob] * (len(tokens) - 1)]


def scorers(base: float = 0.0, current: float = 0.0, trainer: float = 0.0, **more: Any) -> Scorers:
    return Scorers(Fixed(base), Fixed(current), Fixed(trainer), version=1, **more)


def batch_of(algorithm: AlgorithmSettings, material: Sequence[Any], by: Scorers | None = None) -> Batch:
    return asyncio.run(algorithm.batch(material, by or scorers()))


def values(batch: Batch, name: str = "advantages") -> list[list[float]]:
    return [datum.loss_fn_inputs[name].to_numpy().tolist() for datum in batch.data]


def advantage_of_each(batch: Batch) -> list[float]:
    """Of each datum the one number that is not 0."""
    found = [set(np.round([one for one in row if one], 9)) for row in values(batch)]
    assert all(len(one) <= 1 for one in found)
    return [one.pop() if one else 0.0 for one in found]


MIXED = Group(0, [episode(1.0, words=2), episode(0.0, words=4)])  # 3 + 5 tokens written
FLAT = Group(1, [episode(1.0, words=3), episode(1.0, words=3)])  # 8 that differ in nothing


def test_a_datum_has_the_advantage_exactly_where_the_policy_wrote() -> None:
    datum = rl_datum(episode(1.0), 0.25)
    assert datum.model_input.to_ints() == [10, 11, 20, 21, 30]
    inputs = {name: tensor.to_numpy().tolist() for name, tensor in datum.loss_fn_inputs.items()}
    assert inputs == {
        "target_tokens": [11, 20, 21, 30, 40],
        "logprobs": [0.0, -1.0, -1.0, 0.0, -2.0],
        "advantages": [0.0, 0.25, 0.25, 0.0, 0.25],
    }


def test_grpo() -> None:
    assert Grpo(divide_by_std=False).advantages([[1, 0, 0, 1]]) == [[0.5, -0.5, -0.5, 0.5]]
    assert Grpo().advantages([[1, 0, 0, 0]])[0] == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], abs=1e-5)
    batch = batch_of(Grpo(divide_by_std=False, clip=0.1), [MIXED, FLAT])
    assert (batch.left_out, batch.loss) == (1, "ppo")
    assert batch.loss_config == pytest.approx({"clip_low_threshold": 0.9, "clip_high_threshold": 1.1})
    assert advantage_of_each(batch) == pytest.approx([0.5 / 16, -0.5 / 16])
    assert [int(np.count_nonzero(row)) for row in values(batch)] == [3, 5]
    plain = batch_of(Grpo(loss="importance_sampling"), [MIXED])
    assert (plain.loss, plain.loss_config) == ("importance_sampling", {})
    assert batch_of(Grpo(), [FLAT]).data == []


def test_grpo_as_published_takes_the_mean_of_each_episode() -> None:
    batch = batch_of(Grpo(divide_by_std=False, average="episodes"), [MIXED])
    assert advantage_of_each(batch) == pytest.approx([0.5 / (2 * 3), -0.5 / (2 * 5)])


def test_dr_grpo_divides_by_a_constant_and_by_no_deviation() -> None:
    batch = batch_of(DrGrpo(name="dr_grpo", length=50), [MIXED])
    assert advantage_of_each(batch) == pytest.approx([0.5 / 100, -0.5 / 100])


def test_rloo_leaves_one_out() -> None:
    assert Rloo(name="rloo").advantages([[1, 0, 0, 1], [3]]) == [
        pytest.approx([1 - 1 / 3, -2 / 3, -2 / 3, 1 - 1 / 3]),
        [0.0],
    ]
    assert batch_of(Rloo(name="rloo"), [MIXED]).loss == "importance_sampling"


def test_reinforce_has_one_baseline_and_keeps_groups_that_agree() -> None:
    batch = batch_of(Reinforce(name="reinforce"), [MIXED, FLAT])
    assert batch.left_out == 0
    assert advantage_of_each(batch) == pytest.approx([0.25 / 16, -0.75 / 16, 0.25 / 16, 0.25 / 16])
    bare = batch_of(Reinforce(name="reinforce", baseline="none"), [MIXED, FLAT])
    assert advantage_of_each(bare) == pytest.approx([1 / 16] * 3)  # an episode that earned nothing costs no pass


def test_ppo_whitens_over_the_step() -> None:
    deviation = math.sqrt(3) / 4
    assert advantage_of_each(batch_of(Ppo(name="ppo"), [MIXED, FLAT])) == pytest.approx(
        [0.25 / deviation / 16, -0.75 / deviation / 16, *[0.25 / deviation / 16] * 2], rel=1e-4
    )


def test_dapo_clips_higher_and_prices_length() -> None:
    algorithm = Dapo(name="dapo", overlong=6, overlong_buffer=2)
    assert algorithm.api_config == pytest.approx({"clip_low_threshold": 0.8, "clip_high_threshold": 1.28})
    lengths = [Group(0, [episode(1.0, words=n) for n in (2, 4, 5, 9)])]  # one more is written after the result
    assert algorithm.rewards(lengths[0]) == [1.0, 0.5, 0.0, 0.0]
    assert (algorithm.most_groups(8), algorithm.teaches(FLAT), algorithm.teaches(MIXED)) == (16, False, True)
    assert not Dapo(name="dapo", kl=0.1).teaches(FLAT)  # a penalty is no reason to keep a group


def test_dapo_takes_its_mean_over_the_groups_that_stay() -> None:
    dapo = Dapo(name="dapo")
    replaced = advantage_of_each(batch_of(dapo, [FLAT, MIXED, MIXED, FLAT]))  # two were wanted
    assert replaced == pytest.approx([1 / 16, -1 / 16] * 2, rel=1e-4)
    in_vain = advantage_of_each(batch_of(dapo, [FLAT, MIXED, FLAT, FLAT]))  # there was no second one
    assert in_vain == pytest.approx([1 / 16, -1 / 16], rel=1e-4)


def test_cispo_bounds_the_weight() -> None:
    batch = batch_of(Cispo(name="cispo"), [MIXED])
    assert (batch.loss, batch.loss_config) == ("cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0})


def test_gspo_says_which_tokens_the_ratio_is_of() -> None:
    batch = batch_of(Gspo(name="gspo"), [MIXED])
    assert batch.loss == "gspo"
    assert values(batch, "sequence_ratio_mask")[0] == [0.0, 1.0, 1.0, 0.0, 1.0]
    assert batch.loss_config == pytest.approx({"clip_low_threshold": 1 - 3e-4, "clip_high_threshold": 1 + 4e-4})


def test_the_penalty_takes_what_a_token_left_the_base_model_by() -> None:
    batch = batch_of(Grpo(divide_by_std=False, kl=0.1), [MIXED], scorers(base=-1.5))
    # log q - log base is 0.5 for the 6 first words and -0.5 for the 2 last ones, 0.25 on average
    first, last = (0.5 - 0.1 * 0.25) / 8, (0.5 + 0.1 * 0.75) / 8
    assert values(batch)[0] == pytest.approx([0, first, first, 0, last])
    assert batch.metrics["kl_base"] == pytest.approx((6 * 0.5 - 2 * 0.5) / 8)
    k3 = (6 * (math.exp(-0.5) - 1 + 0.5) + 2 * (math.exp(0.5) - 1 - 0.5)) / 8
    assert batch.metrics["kl_base_k3"] == pytest.approx(k3)
    assert batch_of(Grpo(kl=0.1), [FLAT], scorers(base=-1.5)).left_out == 0  # there is something to teach
    same = Group(0, [Trajectory([Turn([10], Written([40], [-1.5], "", True))], End(1.0, ""), 1)] * 2)
    assert batch_of(Grpo(kl=0.1), [same], scorers(base=-1.5)).left_out == 1  # nothing left the base model


@pytest.mark.parametrize("algorithm", [Grpo(), Rloo(name="rloo"), Reinforce(name="reinforce"), Ppo(name="ppo")])
def test_a_step_whose_rewards_are_all_equal_has_nothing_to_teach(algorithm: AlgorithmSettings) -> None:
    """0.1 three times has a mean that is not 0.1: what rounding leaves is no advantage, and would be a whole step of
    AdamW, which knows no size."""
    batch = batch_of(algorithm, [Group(0, [episode(0.1)] * 3), Group(1, [episode(0.1)] * 3)])
    assert (batch.lessons, batch.left_out) == ([], 2)


STALE = Group(0, [episode(1.0, words=1, version=0), episode(0.0, words=1, version=1)])  # writes at -1 and -2


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({"correction": "none"}, (1.0, 1.0)),
        ({"correction": "truncate", "correction_cap": 1.5}, (math.exp(-0.5), 1.5)),  # exp(-1.5 + 1), exp(-1.5 + 2)
        ({"correction": "truncate", "correction_cap": 9.0}, (math.exp(-0.5), math.exp(0.5))),
        ({"correction": "mask", "correction_cap": 1.7}, (math.exp(-0.5), math.exp(0.5))),
        ({"correction": "truncate", "correction_level": "sequence"}, (1.0, 1.0)),  # exp(-0.5 + 0.5)
    ],
)
def test_corrections_of_a_stale_episode(settings: dict[str, Any], weights: tuple[float, float]) -> None:
    by = scorers(current=-1.5)
    batch = batch_of(Grpo(divide_by_std=False, **settings), [STALE], by)
    stale, fresh = values(batch)
    assert stale == pytest.approx([0, 0.5 / 4 * weights[0], 0, 0.5 / 4 * weights[1]])
    assert fresh == pytest.approx([0, -0.5 / 4, 0, -0.5 / 4])  # what is fresh needs nothing
    old = [0, -1.0, 0, -2.0] if settings["correction"] == "none" else [0, -1.5, 0, -1.5]
    assert values(batch, "logprobs") == [pytest.approx(old), [0, -1.0, 0, -2.0]]
    assert batch.metrics["stale_episodes"] == 1 and batch.metrics["staleness_versions"] == 1
    assert batch.metrics["staleness_mean"] == pytest.approx(0.5)
    assert len(by.current.asked) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        # the version that wrote gave -1 (three times) and -2, the newest gives -1.2: together it goes up by 0.2
        ({"correction": "truncate"}, (math.exp(-0.2), 2.0)),
        ({"correction": "mask"}, (math.exp(-0.2), 0.0)),
        ({"correction": "truncate", "correction_level": "sequence"}, (math.exp(0.2), math.exp(0.2))),
        ({"correction": "truncate", "correction_level": "sequence", "correction_cap": 1.1}, (1.1, 1.1)),
        ({"correction": "mask", "correction_level": "sequence", "correction_cap": 1.1}, None),
        ({"correction": "truncate", "correction_level": "geometric"}, (math.exp(0.05), math.exp(0.05))),
        ({"correction": "mask", "correction_level": "geometric", "correction_cap": 1.1}, (math.exp(0.05),) * 2),
    ],
)
def test_truncating_and_masking_by_token_and_by_sequence(
    settings: dict[str, Any], weights: tuple[float, float] | None
) -> None:
    stale = Group(0, [episode(1.0, words=3, version=0), episode(0.0, words=3)])
    batch = batch_of(Grpo(divide_by_std=False, **settings), [stale], scorers(current=-1.2))
    if weights is None:  # what is masked wholly costs no pass
        assert len(batch.lessons) == 1 and batch.metrics["correction_masked"] == 0.5
        return
    first, last = 0.5 / 8 * weights[0], 0.5 / 8 * weights[1]
    assert values(batch)[0] == pytest.approx([0, first, first, first, 0, last])


def test_at_another_temperature_what_is_fresh_is_looked_at_too() -> None:
    """The sampler tells log-probabilities at the temperature, scorers and trainer at 1: one is no mismatch of the
    others, and an importance weight between them takes it out."""
    fresh, by = Group(0, [episode(1.0, words=1), episode(0.0, words=1)]), scorers(current=-1.5, temperature=0.7)
    plain, corrected = (
        batch_of(Grpo(divide_by_std=False, correction=how), [fresh], by) for how in ("none", "truncate")
    )
    for batch in (plain, corrected):
        assert [one.present.tolist() for one in batch.lessons if one.present is not None] == [[0, -1.5, 0, -1.5]] * 2
        assert batch.metrics["stale_episodes"] == 0 and "staleness_mean" not in batch.metrics
    assert values(plain, "logprobs")[0] == [0, -1, 0, -2] and values(plain)[0] == [0, 0.125, 0, 0.125]
    assert values(corrected, "logprobs")[0] == [0, -1.5, 0, -1.5]
    assert values(corrected)[0] == pytest.approx([0, 0.125 * math.exp(-0.5), 0, 0.125 * math.exp(0.5)])


def test_the_penalty_is_on_the_newest_version_not_on_the_one_that_wrote() -> None:
    # what is stale is off the base model by 0.4 twice, what is fresh by 0.7 and -0.3: 0.3 on average
    batch = batch_of(Grpo(divide_by_std=False, kl=0.1), [STALE], scorers(base=-1.7, current=-1.3))
    assert values(batch)[0] == pytest.approx([0, (0.5 - 0.01) / 4, 0, (0.5 - 0.01) / 4])


def test_with_the_trainer_as_reference_the_mismatch_is_corrected_too() -> None:
    by = scorers(current=-1.5, trainer=-1.25)
    settings = {"correction": "truncate", "correction_cap": 9.0, "reference": "trainer"}
    batch = batch_of(Grpo(divide_by_std=False, **settings), [STALE], by)
    first, last = math.exp(-1.25 + 1.0), math.exp(-1.25 + 2.0)
    assert values(batch)[0] == pytest.approx([0, 0.5 / 4 * first, 0, 0.5 / 4 * last])
    assert values(batch)[1] == pytest.approx([0, -0.5 / 4 * first, 0, -0.5 / 4 * last])
    assert values(batch, "logprobs") == [pytest.approx([0, -1.25, 0, -1.25])] * 2
    present = [lesson.present for lesson in batch.lessons]  # what the mismatch is measured against
    assert [one.tolist() for one in present if one is not None] == [[0, -1.5, 0, -1.5], [0, -1.0, 0, -2.0]]


def test_sft_is_the_mean_over_what_is_learned() -> None:
    material = [Completion.of([1, 2], [3, 4, 5]), Completion.of([6], [7]), Completion.of([8, 9], [])]
    batch = batch_of(Sft(name="sft"), material)
    assert (batch.loss, batch.left_out) == ("cross_entropy", 1)
    assert values(batch, "weights") == [pytest.approx([0, 0.25, 0.25, 0.25]), pytest.approx([0.25])]


def torch_loss(batch: Batch, logprobs: list[list[float]]) -> tuple[float, list[list[float]], dict[str, float]]:
    """A custom loss and its gradient at these log-probabilities."""
    assert batch.custom is not None
    wanted = [torch.tensor(one, requires_grad=True) for one in logprobs]
    loss, metrics = batch.custom(batch.data, wanted)
    assert isinstance(loss, torch.Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), [one.grad.tolist() for one in wanted if one.grad is not None], metrics


def test_dpo_by_hand() -> None:
    pair = Pair(Completion.of([1, 2], [3, 4]), Completion.of([1, 2], [5]))
    batch = batch_of(Dpo(name="dpo", beta=0.5), [pair], scorers(base=-1.0))
    loss, gradient, metrics = torch_loss(batch, [[-9.0, -0.5, -0.75], [-9.0, -2.0]])
    margin = 0.5 * (((-0.5 + 1) + (-0.75 + 1)) - (-2.0 + 1))
    assert loss == pytest.approx(math.log(1 + math.exp(-margin)))
    slope = 0.5 / (1 + math.exp(margin))
    assert gradient == [pytest.approx([0, -slope, -slope]), pytest.approx([0, slope])]
    assert metrics["margin"] == pytest.approx(margin) and metrics["ordered"] == 1.0


def test_kto_by_hand() -> None:
    material = [Judged(Completion.of([1, 2], [3, 4]), True), Judged(Completion.of([5], [6]), False)]
    by = scorers(base=-1.0, current=-0.75)
    batch = batch_of(Kto(name="kto", beta=0.5, bad_weight=2.0), material, by)
    assert by.current.asked == [[1, 2, 6], [5, 3, 4]]  # type: ignore[attr-defined]
    reference = (0.25 + 0.5) / 2
    loss, _, metrics = torch_loss(batch, [[-9.0, -0.5, -0.5], [-2.0]])
    good = 1 / (1 + math.exp(-0.5 * (1.0 - reference)))
    bad = 2 / (1 + math.exp(-0.5 * (reference + 1.0)))
    assert loss == pytest.approx(((1 - good) + (2 - bad)) / 2)
    assert metrics["reference"] == pytest.approx(reference)


def test_distillation_follows_the_teacher() -> None:
    by = scorers(teacher=Fixed(-0.5))
    batch = batch_of(Distillation(name="distillation", teacher_prompt="Be brief."), [FLAT], by)
    assert by.teacher.asked[0] == FLAT.trajectories[0].tokens  # type: ignore[union-attr]
    # the teacher likes the first words better by 0.5 and the last by 1.5: 0.75 on average
    assert values(batch)[0] == pytest.approx([0, -0.25 / 8, -0.25 / 8, -0.25 / 8, 0, 0.75 / 8])
    assert batch.metrics["reverse_kl"] == pytest.approx(-(2 * (3 * 0.5 + 1.5)) / 8)
    k3 = (3 * (math.exp(0.5) - 1.5) + math.exp(1.5) - 2.5) / 4
    assert batch.metrics["reverse_kl_k3"] == pytest.approx(k3)


def test_a_teachers_own_prompt_comes_after_the_beginning_of_the_text_and_has_no_part_in_the_answer() -> None:
    for begin, tokens, asked in ((1, [1, 5, 6], [1, 90, 91, 5, 6]), (None, [1, 5, 6], [90, 91, 1, 5, 6])):
        teacher = Fixed(-0.5)
        scored = asyncio.run(PromptedScorer(teacher, [90, 91], begin).logprobs(tokens))
        assert (teacher.asked, scored) == ([asked], [0.0, -0.5, -0.5])


def test_self_distillation_judges_by_itself_with_the_hint_in_place_of_the_prompt() -> None:
    by = scorers(current=-0.5)
    told, untold = Group(0, [episode(0.0, words=1, hint=[70, 71, 72])]), Group(1, [episode(0.0, words=1)])
    batch = batch_of(SelfDistillation(name="self_distillation"), [told, untold], by)
    assert by.current.asked == [[70, 71, 72, 20, 30, 40]]  # type: ignore[attr-defined]
    assert values(batch) == [pytest.approx([0, -0.5 / 4, 0, 0.5 / 4])]
    assert batch.left_out == 1
    assert batch.metrics["reverse_kl"] == pytest.approx(-(0.5 + 1.5) / 2)
