"""Each check sees what it is for, from the step on that it began, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from motet.lab.algorithms.grpo import Grpo
from motet.lab.experiments.checks import NAMES, stops, with_findings
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import StepMetrics
from motet.lab.experiments.setting import own_tokenizer
from motet.lab.experiments.starting import first_findings, rate_for
from tests.lab.steps import step
from tests.tiny import make_tiny_model

CALM = [step(number, reward=0.1 * number) for number in range(1, 8)]
WRONG: dict[str, StepMetrics] = {
    "not-finite": step(8, loss=math.nan),
    "no-step": step(8, refused="the gradient is not finite"),
    "gradient-leap": step(8, grad_norm=30.0),
    "no-signal": step(8, groups_left_out=2),
    "all-cut": step(8, outcomes={"truncated": 3, "out of turns": 1}),
    "no-calls": step(8, outcomes={"no call": 4}),
    "empty": step(8, empty=3),
    "entropy-collapse": step(8, entropy=0.01),
    "nothing-trained": step(8, trained_tokens=0),
    "mismatch": step(8, mismatch_mean=0.5),
    "stale": step(8, algorithm={"staleness_mean": 0.4}),
}


def found(*steps: StepMetrics) -> list[StepMetrics]:
    """The steps, each with what was found in it."""
    told: list[StepMetrics] = []
    for one in steps:
        told.append(with_findings(told, one))
    return told


def test_a_calm_run_has_no_findings() -> None:
    assert [one.findings for one in found(*CALM)] == [[]] * len(CALM)


@pytest.mark.parametrize("name", WRONG)
def test_a_check_sees_what_it_is_for(name: str) -> None:
    first = found(*CALM, WRONG[name])[-1].findings
    assert [(one.name, one.since) for one in first] == [(name, 8)]
    assert "(since step 8)" in first[0].line and first[0].advice in first[0].line


def test_a_reward_that_stands_still_is_found_once_it_has_for_long() -> None:
    still = found(*(step(number, reward=0.25) for number in range(1, 11)))
    assert [[(one.name, one.since) for one in told.findings] for told in still[6:9]] == [
        [],
        [("reward-still", 8)],
        [("reward-still", 8)],
    ]
    assert found(*(step(number, reward=1.0) for number in range(1, 11)))[-1].findings == []


def test_calls_that_never_parse_are_found_whatever_the_environment_makes_of_them() -> None:
    assert [one.name for one in found(*CALM, step(8, calls=0, torn_calls=3))[-1].findings] == ["no-calls"]
    assert [one.name for one in found(*CALM, step(8, outcomes={"no answer": 8}))[-1].findings] == ["no-calls"]
    assert found(*CALM, step(8, calls=9, torn_calls=3))[-1].findings == []


def test_a_step_that_a_correction_left_nothing_of_is_found_and_one_without_a_signal_only_once() -> None:
    assert [one.name for one in found(*CALM, step(8, trained_tokens=0, loss=None))[-1].findings] == ["nothing-trained"]
    silent = step(8, trained_tokens=0, loss=None, groups_left_out=2)
    assert [one.name for one in found(*CALM, silent)[-1].findings] == ["no-signal"]


def test_every_check_is_tested_here() -> None:
    assert set(NAMES) == {*WRONG, "reward-still"}


def test_since_begins_anew_after_a_break() -> None:
    told = found(*CALM, step(8, empty=3), step(9, empty=3), step(10), step(11, empty=3))
    assert [[one.since for one in one_step.findings] for one_step in told[7:]] == [[8], [8], [], [11]]


def test_stops_on_what_it_was_told_and_once_it_went_on_only_on_what_is_new() -> None:
    (last,) = found(step(1, empty=3))
    assert stops("", last.findings, 0) is None and stops("not-finite", last.findings, 0) is None
    for wanted in ("any", "empty", "mismatch, empty"):
        told = stops(wanted, last.findings, 0)
        assert told is not None and told.name == "empty"
        assert stops(wanted, last.findings, 1) is None


def test_a_finding_that_does_not_exist_is_told() -> None:
    assert Experiment(stop_on="any").stop_on and Experiment(stop_on="rate, not-finite").stop_on
    with pytest.raises(ValueError, match="no finding 'nan'; there are any, not-finite"):
        Experiment(stop_on="nan")


def test_a_rate_for_full_fine_tuning_and_a_template_that_loses_words(
    tmp_path: Path, chatty: PreTrainedTokenizerFast
) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(make_tiny_model(tmp_path, "qwen3"))
    usual, tiny = Experiment(), Experiment(learning_rate=1e-5)
    assert first_findings(usual, "m", tokenizer, 5e-4) == []
    (rate,) = first_findings(tiny, "m", tokenizer, 1e-5)
    assert rate.name == "rate" and "full fine-tuning" in rate.what
    assert rate_for(Experiment(learning_rate=None), "m", tokenizer) == pytest.approx(5e-4 * (2000 / 1024) ** 0.0775)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content | upper }}\n{% endfor %}"
    (lost,) = first_findings(usual, "m", tokenizer, 5e-4)
    assert lost.name == "template" and "apples" in lost.what.lower()


def test_a_temperature_that_nothing_makes_up_for(tmp_path: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(make_tiny_model(tmp_path, "qwen3"))
    (found,) = first_findings(Experiment(temperature=1.2), "m", tokenizer, 5e-4)
    assert found.name == "temperature" and "temperature 1.2" in found.what
    assert first_findings(Experiment(temperature=1.2, algorithm=Grpo(correction="mask")), "m", tokenizer, 5e-4) == []


def test_an_experiment_has_a_tokenizer_of_its_own(chatty: PreTrainedTokenizerFast) -> None:
    """A call that takes control tokens for letters sets so in the tokenizer: nobody else's next call may follow it."""
    own, text = own_tokenizer(lambda: chatty), "<|im_end|>"
    before = chatty.backend_tokenizer.encode_special_tokens
    own.backend_tokenizer.encode_special_tokens = not before
    assert chatty.backend_tokenizer.encode_special_tokens == before
    assert own.encode(text, split_special_tokens=True) != chatty.encode(text) == own.encode(text)
