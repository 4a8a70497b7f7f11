"""Every algorithm learns: all of them side by side on one server, on problems whose optimum is known."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tinker
from rich.console import Console
from transformers import PreTrainedTokenizerBase

from motet.lab.algorithms.datums import weighted_datum
from motet.lab.experiments.server import background_server
from motet.lab.experiments.sweep import ANY_KEY, run_file
from tests.tiny import make_tiny_model

LETTERS = Path(__file__).with_name("letters.py")
ON_POLICY = ("grpo", "dr_grpo", "rloo", "reinforce", "ppo", "dapo", "cispo", "gspo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The records of one sweep of everything."""
    root = tmp_path_factory.mktemp("learning")
    answers = [("Word 0:", "aaa", "bcd"), ("Word 1:", "aaa", "xyz"), ("Word 2:", "aaa", "qqq"), ("Word 3:", "aaa", "b")]
    pairs = [{"prompt": p, "chosen": good, "rejected": bad} for p, good, bad in answers]
    judged = [{"prompt": p, "completion": text, "good": text == "aaa"} for p, *both in answers for text in both]
    (root / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (root / "judged.jsonl").write_text("\n".join(map(json.dumps, judged)))
    (root / "talks.jsonl").write_text("\n".join(json.dumps({"prompt": p, "completion": t}) for p, t, _ in answers))
    file, out = root / "all.toml", root / "out"
    model = make_tiny_model(root / "model", "qwen3")
    with background_server(str(model), root, Console(quiet=True), ["--dtype", "float32"]) as address:
        key = os.environ.get("TINKER_API_KEY", ANY_KEY)
        service = tinker.ServiceClient(base_url=address, api_key=key)
        file.write_text(experiments(root, taught_teacher(service, str(model))))
        code = run_file(file, address, out, Console(quiet=True))
        assert code == 0, [path.read_text() for path in out.glob("*/error.txt")]
        yield out


def taught_teacher(service: tinker.ServiceClient, model: str) -> str:
    """The path of sampler weights that write the letter a."""
    run = service.create_lora_training_client(model, rank=8, seed=0)
    tokenizer: PreTrainedTokenizerBase = run.get_tokenizer()
    weights = np.asarray([0.0] * len("Word 0:") + [1 / 12] * 3)
    lessons = [weighted_datum(tokenizer.encode(f"Word {index}:aaa"), weights) for index in range(4)]
    for _ in range(5):
        run.forward_backward(lessons, "cross_entropy")
        run.optim_step(tinker.AdamParams(learning_rate=1e-2))
    return str(run.save_weights_for_sampler("teacher").result().path)


def experiments(root: Path, teacher: str) -> str:
    common = f"""
steps = 7
problems = 3
samples = 16
rank = 8
learning_rate = 3e-2
eval_problems = 4
checkpoint_every = 0
environment = {{ name = "file", path = "{LETTERS}" }}
"""
    told = [f'[[experiment]]\nname = "{name}"\nalgorithm = {{ name = "{name}" }}' for name in ON_POLICY]
    told.append('[[experiment]]\nname = "held"\nsamples = 8\nalgorithm = { name = "grpo", kl = 2.0 }')
    told.append(f'[[experiment]]\nname = "taught"\nalgorithm = {{ name = "distillation", teacher = "{teacher}" }}')
    told.append('[[experiment]]\nname = "async"\nsamples = 8\nmode = "async"\nmax_staleness = 2\nsteps = 10\n')
    told.append(told.pop() + 'algorithm = { name = "grpo", correction = "truncate", reference = "trainer" }')
    told.append('[[experiment]]\nname = "self"\nsamples = 8\n')
    told.append(told.pop() + 'algorithm = { name = "self_distillation", judge = "base" }')
    for name, data in (("sft", "talks"), ("dpo", "pairs"), ("kto", "judged")):
        told.append(
            f'[[experiment]]\nname = "{name}"\nalgorithm = {{ name = "{name}" }}\nlearning_rate = 2e-2\n'
            f'data = {{ path = "{root / data}.jsonl", held_out = 0.25 }}'
        )
    return common + "\n".join(told)


def held_out(folder: Path) -> dict[str, float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["when"]: line["mean"] for line in lines if line["kind"] == "held_out"}


def own_numbers(folder: Path, name: str) -> list[float]:
    """What an algorithm says of itself, step by step."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["algorithm"][name] for line in lines if line["kind"] == "step"]


@pytest.mark.parametrize("name", [*ON_POLICY, "async"])
def test_rewards_climb_to_the_optimum(folder: Path, name: str) -> None:
    measured = held_out(folder / name)
    assert measured["start"] < 0.15
    assert measured["end"] > 0.8


def test_a_penalty_keeps_the_policy_near_the_base_model(folder: Path) -> None:
    assert held_out(folder / "held")["end"] < 0.5
    assert all(told < 1.5 for told in own_numbers(folder / "held", "kl_base_k3"))


def test_a_student_comes_to_write_what_its_teacher_writes_without_any_reward(folder: Path) -> None:
    measured, apart = held_out(folder / "taught"), own_numbers(folder / "taught", "reverse_kl")
    assert measured["start"] < 0.15 and measured["end"] > 0.8
    assert apart[0] > 5 and apart[-1] < 0.5


def test_self_distillation_moves_to_what_the_hint_suggests(folder: Path) -> None:
    apart = own_numbers(folder / "self", "reverse_kl")
    assert sum(apart[-2:]) < 0.5 * sum(apart[:2])


def test_supervised_learning_raises_the_likelihood_of_what_was_never_seen(folder: Path) -> None:
    measured = held_out(folder / "sft")
    assert measured["start"] < -3 and measured["end"] > -1.5


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_preferences_are_followed_where_they_were_never_told(folder: Path, name: str) -> None:
    measured = held_out(folder / name)
    assert measured["start"] == 0.0 and measured["end"] == 1.0
    steps = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    (first, *_, last) = [step for step in steps if step["kind"] == "step"]
    known = {"dpo": {"margin", "ordered"}, "kto": {"reference", "liking_good", "liking_bad"}}[name]
    assert known == set(last["algorithm"]) and last["loss"] < first["loss"]


def test_the_stream_was_stale_and_said_so(folder: Path) -> None:
    steps = [json.loads(line) for line in (folder / "async" / "metrics.jsonl").read_text().splitlines()]
    told = [step["algorithm"] for step in steps if step["kind"] == "step"]
    assert any(one["stale_episodes"] > 0 and one["staleness_mean"] > 0 for one in told)
    assert max(one.get("staleness_versions", 0) for one in told) <= 2
    assert all(step["mismatch_max"] is None or step["mismatch_max"] < 1e-4 for step in steps if step["kind"] == "step")
