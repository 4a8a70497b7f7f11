"""Every algorithm learns: all of them side by side on one server, on problems whose optimum is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from motet.lab.experiments.server import background_server
from motet.lab.experiments.sweep import run_file
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
    file.write_text(experiments(root))
    model = make_tiny_model(root / "model", "qwen3")
    with background_server(str(model), root, Console(quiet=True), ["--dtype", "float32"]) as address:
        code = run_file(file, address, out, Console(quiet=True))
        assert code == 0, [path.read_text() for path in out.glob("*/error.txt")]
        yield out


def experiments(root: Path) -> str:
    common = f"""
steps = 15
problems = 3
samples = 16
rank = 8
learning_rate = 3e-2
eval_problems = 8
checkpoint_every = 0
environment = {{ name = "file", path = "{LETTERS}" }}
"""
    told = [f'[[experiment]]\nname = "{name}"\nalgorithm = {{ name = "{name}" }}' for name in ON_POLICY]
    told.append('[[experiment]]\nname = "async"\nmode = "async"\nmax_staleness = 2\n')
    told.append(told.pop() + 'algorithm = { name = "grpo", correction = "truncate" }')
    told.append('[[experiment]]\nname = "self"\nalgorithm = { name = "self_distillation", judge = "base" }')
    for name, data in (("sft", "talks"), ("dpo", "pairs"), ("kto", "judged")):
        told.append(
            f'[[experiment]]\nname = "{name}"\nalgorithm = {{ name = "{name}" }}\nlearning_rate = 1e-2\n'
            f'data = {{ path = "{root / data}.jsonl", held_out = 0.25 }}'
        )
    return common + "\n".join(told)


def held_out(folder: Path) -> dict[str, float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["when"]: line["mean"] for line in lines if line["kind"] == "held_out"}


@pytest.mark.parametrize("name", [*ON_POLICY, "async"])
def test_rewards_climb_to_the_optimum(folder: Path, name: str) -> None:
    measured = held_out(folder / name)
    assert measured["start"] < 0.15
    assert measured["end"] > 0.8


def test_self_distillation_moves_to_what_the_hint_suggests(folder: Path) -> None:
    steps = [json.loads(line) for line in (folder / "self" / "metrics.jsonl").read_text().splitlines()]
    apart = [step["algorithm"]["reverse_kl"] for step in steps if step["kind"] == "step"]
    assert sum(apart[-3:]) < 0.5 * sum(apart[:3])


def test_supervised_learning_raises_the_likelihood_of_what_was_never_seen(folder: Path) -> None:
    measured = held_out(folder / "sft")
    assert measured["start"] < -3 and measured["end"] > -1


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
