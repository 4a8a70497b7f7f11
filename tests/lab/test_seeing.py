"""What a person sees: the table, the findings, the record on disk, the picture and the closing numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from transformers import PreTrainedTokenizerFast

from motet.lab.envs.protocol import End, Group, Trajectory, Turn, Written
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Accuracy, Finding, Progress, StepMetrics
from motet.lab.experiments.record import Record
from motet.lab.experiments.report import Times, write_report
from motet.lab.experiments.table import render, sparkline
from tests.lab.steps import step


def metrics(number: int, reward: float) -> StepMetrics:
    findings = [Finding("look", "look here", 2, "then there")] if number == 2 else []
    return step(number, reward=reward, findings=findings)


@pytest.fixture
def rows() -> list[Progress]:
    done = Progress("a", 2, "done", [metrics(1, 0.25), metrics(2, 0.75)], began=10.0, ended=20.0)
    done.start, done.end = Accuracy.of([0.0, 1.0, 0.0, 0.0]), Accuracy.of([1.0, 1.0, 1.0, 0.0])
    late = Progress("b", 2, "done", [metrics(1, 0.5)], began=12.0, ended=30.0)
    return [done, late, Progress("c", 2, "failed", error="it broke"), Progress("d", 2)]


def test_accuracy_by_hand() -> None:
    one = Accuracy.of([1.0, 0.0, 0.0, 0.0])
    assert (one.mean, one.error, one.problems) == (0.25, pytest.approx(0.2), 4)
    assert str(one) == "25.0 ± 20.0 %"  # sqrt(0.25 0.75 / 4 + 1 / 64) / (1 + 1 / 4)
    assert str(Accuracy.of([1.0] * 9)) == "100.0 ± 5.0 %"  # all of a few is not all of all
    assert Accuracy.of([0.5, 1.0]).error == pytest.approx(0.25 / 2**0.5)
    assert str(Accuracy.of([-2.0, -3.0])) == "-2.500 ± 0.354"


def test_sparkline() -> None:
    assert sparkline([0.0, 0.5, 1.0, 2.0]) == "▁▅██"
    assert sparkline([0.0] * 40, width=5) == "▁" * 5


def test_table_shows_every_row(rows: list[Progress]) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render(rows))
    shown = console.export_text()
    for piece in ("2/2", "0.75", "▃▆", "1.0e-03", "a: look here (since step 2): then there", "c: it broke", "fail"):
        assert piece in shown


def test_examples_of_a_file_have_no_reward_to_show() -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render([Progress("talks", 2, "running", [step(1, reward=0.0, groups=0, outcomes={}, tokens=0)])]))
    shown = console.export_text().splitlines()[1]
    assert "1/2" in shown and "0.00" not in shown


def test_times_by_hand(rows: list[Progress]) -> None:
    assert Times.of(rows) == Times(makespan=20.0, mean_experiment=14.0, first_experiment=10.0, mean_step=3.75)
    assert Times.of([Progress("x", 1)]) == Times(None, None, None, None)


def test_report_is_written(rows: list[Progress], tmp_path: Path) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    write_report(rows, tmp_path, console)
    shown = console.export_text()
    assert "25.0 ± 20.0 %" in shown and "75.0 ± 20.0 %" in shown and "makespan 20.0 s" in shown
    assert (tmp_path / "rewards.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["experiments"][0]["rewards"] == [0.25, 0.75]
    assert summary["experiments"][2]["error"] == "it broke"


def test_record(tmp_path: Path, bare: PreTrainedTokenizerFast) -> None:
    record = Record(tmp_path / "one", Experiment(rank=4))
    turn = Turn(bare.encode("question\n"), Written(bare.encode("FinalAnswer[1]"), [], "FinalAnswer[1]", True))
    record.rollouts(1, [Group(7, [Trajectory([turn], End(1.0, "right"))])], bare)
    record.metrics(metrics(1, 0.5))
    record.accuracy("start", Accuracy.of([1.0]))
    record.error(ValueError("it broke"))
    assert json.loads((tmp_path / "one" / "held_out.jsonl").read_text()) == {"when": "start", "rewards": [1.0]}
    folder = tmp_path / "one"
    assert json.loads((folder / "config.json").read_text())["rank"] == 4
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["step", "held_out"]
    assert lines[0]["seconds"] == {"sampling": 2.0, "training": 1.0, "publishing": 0.25, "waiting": 0.5}
    rollout = json.loads((folder / "rollouts.jsonl").read_text())
    assert (rollout["problem"], rollout["turns"][0]["written"]) == (7, "FinalAnswer[1]")
    readable = (folder / "rollouts.txt").read_text()
    assert readable == "== step 1, problem 7\nquestion\n\n-- right, reward 1\nFinalAnswer[1]\n\n"
    assert "it broke" in (folder / "error.txt").read_text()
