"""Experiment files: sweeps, mistakes told with the near name, and a page that documents every field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet.errors import BadConfig
from motet.lab.algorithms.settings import ALGORITHMS
from motet.lab.envs.settings import Gsm8kSettings
from motet.lab.experiments.checks import NAMES
from motet.lab.experiments.config import SECTIONS, Experiment, load, parse

ROOT = Path(__file__).parents[2]
WORDS = {"name": "word_problems"}


def test_one_experiment_with_defaults() -> None:
    sweep = parse({}, "file")
    assert (sweep.name, sweep.model, sweep.experiments) == ("file", None, [Experiment()])


def test_lists_are_a_grid() -> None:
    table = {"seed": [0, 1], "rank": 4, "environment": {**WORDS, "operations": [1, 2]}}
    experiments = parse(table, "file").experiments
    assert [(one.seed, one.environment.operations, one.rank) for one in experiments] == [
        (0, 1, 4),
        (0, 2, 4),
        (1, 1, 4),
        (1, 2, 4),
    ]
    assert experiments[3].name == "seed=1 operations=2"


def test_tables_override_what_is_common() -> None:
    table = {
        "rank": 4,
        "environment": {**WORDS, "examples": 0},
        "experiment": [
            {"name": "a"},
            {"rank": 8, "environment": {"operations": 2}},
            {"name": "c", "seed": [1, 2]},
        ],
    }
    experiments = parse(table, "file").experiments
    assert [(one.name, one.rank, one.seed) for one in experiments] == [
        ("a", 4, 0),
        ("rank=8", 8, 0),
        ("c seed=1", 4, 1),
        ("c seed=2", 4, 2),
    ]
    assert [one.environment.operations for one in experiments] == [1, 2, 1, 1]
    assert {one.environment.examples for one in experiments} == {0}


def test_another_environment_replaces_the_common_one() -> None:
    table = {"environment": {**WORDS, "operators": "+"}, "experiment": [{"environment": {"name": "gsm8k"}}]}
    assert parse(table, "file").experiments[0].environment == Gsm8kSettings(name="gsm8k")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"learning_rat": 1}, "unknown key 'learning_rat'; did you mean 'learning_rate'?"),
        ({"mdel": "x"}, "did you mean 'model'?"),
        ({"qqq": 1}, "known are algorithm, alpha"),
        (
            {"environment": {**WORDS, "operaters": ""}},
            r"'operaters' in \[environment\]; did you mean 'operators'",
        ),
        ({"algorithm": {"los": "ppo"}}, r"'los' in \[algorithm\]; did you mean 'loss'"),
        ({"environment": {"name": "gsm8k", "operators": "+"}}, "known are examples, format, hints, name, path, turn"),
        ({"experiment": [{"rnk": 4}]}, "did you mean 'rank'?"),
        ({"environment": {"operators": "+"}}, "needs a name"),
        ({"environment": {"name": "wordproblems"}}, "'word_problems', 'gsm8k'"),
        ({"environment": 3}, "environment"),
        ({"rank": 0}, "rank: Input should be greater"),
        ({"rank": "many"}, "rank: Input should be a valid integer"),
        ({"seed": []}, "empty"),
        ({"experiment": 3}, r"\[\[experiment\]\]"),
        ({"experiment": []}, r"\[\[experiment\]\]"),
        ({"experiment": [{}, {}]}, "two experiments are called"),
        ({"name": ""}, "name"),
        ({"model": 3}, "model must be a string"),
        ({"experiment": [{"model": "x"}]}, r"model is of the whole file: write it above every \[\[experiment\]\]"),
        ({"environment": {**WORDS, "model": "x"}}, "model is of the whole file"),
        ({"steps": True}, "steps: Input should be a valid integer"),
        ({"attention": 1}, "attention: Input should be a valid boolean"),
        ({"environment": {**WORDS, "examples": True}}, "examples: Input should be a valid integer"),
        ({"temperature": float("inf")}, "temperature: Input should be a finite number"),
        ({"learning_rate": float("inf")}, "learning_rate: Input should be a finite number"),
        ({"learning_rate": 10**400}, "learning_rate: Input should be a"),
        ({"algorithm": {"clip": float("inf")}}, "clip: Input should be a finite number"),
        ({"seed": 2**63}, "seed: Input should be less than"),
        ({"samples": 1}, "grpo compares the episodes of a problem: set samples to 2 or more, or choose reinforce"),
        ({"algorithm": {"name": "dapo", "kl": 0.1}, "samples": 1}, "dapo compares"),
        ({"algorithm": {"name": "sft"}}, r"sft learns from conversations of a file: add a section \[data\]"),
        ({"data": {"path": "x"}}, r"grpo learns from episodes: leave \[data\] out, or choose sft, dpo or kto"),
        ({"data": {"path": "x"}, "algorithm": {"name": "dpo"}, "mode": "async"}, "leave mode out"),
        ({"algorithm": {"name": "self_distillation"}}, "set environment.hints = true for word_problems or gsm8k"),
        ({"algorithm": {"name": "distillation"}}, "distillation: the base model teaches a fresh adapter nothing: set"),
        ({"algorithm": {"name": "distillation", "teacher": "base"}}, "teacher: String should match pattern"),
        ({"algorithm": {"name": "cispo", "weight_low": 5.0}}, "weight_low = 5.0 is above weight_high = 4.0"),
        ({"algorithm": {"name": "dapo", "overlong": 8}}, "set overlong_buffer lower"),
    ],
)
def test_mistakes_are_told(table: dict[str, Any], told: str) -> None:
    with pytest.raises(BadConfig, match=told):
        parse(table, "file")


def test_what_needs_no_company_is_taken() -> None:
    for name in ("ppo", "reinforce", "distillation"):
        more = {"teacher_prompt": "Be brief."} if name == "distillation" else {}
        (one,) = parse({"samples": 1, "algorithm": {"name": name, **more}}, "file").experiments
        assert one.samples == 1
    parse({"samples": 1, "algorithm": {"kl": 0.1}}, "file")  # a penalty is something to learn


def test_a_path_and_whole_numbers_are_taken() -> None:
    table = {"learning_rate": 1, "environment": {"name": "gsm8k", "path": "/data"}}
    (one,) = parse(table, "file").experiments
    assert one.learning_rate == 1.0 and one.environment == Gsm8kSettings(name="gsm8k", path=Path("/data"))


def test_a_name_never_leads_out_of_the_folder() -> None:
    names = ["../../etc", "..", "a/b", "rate 2e-4", "operators=+-*/"]
    assert [Experiment(name=name).folder for name in names] == [
        "_.._etc",
        "_",
        "a_b",
        "rate_2e-4",
        "operators=+-_",
    ]


def test_a_long_name_is_a_folder_that_can_be_made(tmp_path: Path) -> None:
    (tmp_path / Experiment(name="大" * 300).folder).mkdir()
    with pytest.raises(BadConfig, match="two experiments are called"):
        parse({"experiment": [{"name": "a" * 300 + end} for end in "bc"]}, "file")


def test_files_that_are_missing_or_torn(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="no experiment file"):
        load(tmp_path / "none.toml")
    torn = tmp_path / "torn.toml"
    torn.write_text("rank = = 4")
    with pytest.raises(BadConfig, match="not TOML"):
        load(torn)
    torn.write_bytes(b"name = '\xff'")
    with pytest.raises(BadConfig, match="cannot be read"):
        load(torn)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.stem)
def test_examples_are_valid(file: Path) -> None:
    assert load(file).experiments


def test_every_field_is_documented() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    fields = {*Experiment.model_fields, "model", "experiment"}
    fields |= {name for models in SECTIONS.values() for model in models.values() for name in model.model_fields}
    documented = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert fields - documented == set()
    assert {name for name in documented - fields if "/" not in name} == set()  # those are files


def test_every_finding_and_algorithm_is_documented() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    told = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert {*NAMES, *ALGORITHMS} <= told
