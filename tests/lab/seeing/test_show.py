"""`motet show`: what a person reads of a real run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from motet.cli import app
from motet.errors import BadConfig
from motet.lab.experiments.seeing.folder import Rollout, SeenTurn, read_sweep
from motet.lab.experiments.seeing.show import Choice, show_rollouts
from motet.lab.experiments.seeing.text import shortened, visible


def rollout(step: int, problem: int, member: int, reward: float) -> Rollout:
    return Rollout(step, problem, member, reward, "right" if reward else "wrong", 1, [SeenTurn("2+3?", "5", 0.0)])


ALL = [rollout(step, problem, member, member / 2) for step in (1, 2) for problem in (0, 1) for member in (0, 1, 2)]


@pytest.mark.parametrize(
    ("choice", "members"),
    [
        (Choice(), [(2, 0, 0), (2, 0, 1), (2, 0, 2), (2, 1, 0)]),
        (Choice(step=1, count=2), [(1, 0, 0), (1, 0, 1)]),
        (Choice(problem=1, order="best", count=1), [(2, 1, 2)]),
        (Choice(order="worst", count=2), [(2, 0, 0), (2, 1, 0)]),
        (Choice(failures=True), [(2, 0, 0), (2, 1, 0)]),
        (Choice(step=3), []),
    ],
)
def test_choices(choice: Choice, members: list[tuple[int, int, int]]) -> None:
    assert [(one.step, one.problem, one.member) for one in choice.of(ALL)] == members


def test_a_real_run_reads_as_it_was_recorded(folder: Path) -> None:
    one = read_sweep(folder).experiments[0]
    first = next(one.rollouts())
    console = Console(file=io.StringIO(), width=200)
    show_rollouts(one.folder, Choice(step=1, count=1), True, console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"member 0: {first.outcome}, reward {first.reward:g}" in told
    for turn in first.turns:
        assert all(f"┃ {line}" in told for line in turn.written.strip("\n").split("\n"))
        assert all(f"┊ {line}" in told for line in turn.inserted.strip("\n").split("\n"))


def test_the_command(folder: Path) -> None:
    refused = CliRunner().invoke(app, ["show", str(folder)])
    assert refused.exit_code == 2 and "holds 4 experiments; choose one" in refused.output
    experiment = str(read_sweep(folder).experiments[0].folder)
    shown = CliRunner().invoke(app, ["show", experiment, "--best", "--count", "1"])
    assert shown.exit_code == 0 and "step 3, problem" in shown.output
    assert CliRunner().invoke(app, ["show", experiment, "--best", "--worst"]).exit_code == 2
    nothing = CliRunner().invoke(app, ["show", experiment, "--step", "9"])
    assert nothing.exit_code == 2 and "steps 1 to 3" in nothing.output


def test_a_policy_steers_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"name": "a"}))
    evil = {"step": 1, "problem": 0, "member": 0, "reward": 0.0, "outcome": "x\x1b[31m", "version": 1}
    turn = {"read": "[bold]q\x07", "written": "\x1b]0;title\x07[red]a[/red]\r\n", "reward": 0.0}
    (tmp_path / "rollouts.jsonl").write_text(json.dumps({**evil, "turns": [turn]}) + "\n")
    console = Console(file=io.StringIO(), width=200, markup=False, force_terminal=True, color_system=None)
    show_rollouts(tmp_path, Choice(), False, console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in told and "\x07" not in told and "[red]a[/red]" in told
    with pytest.raises(BadConfig, match="no such episode"):
        show_rollouts(tmp_path, Choice(step=2), False, console)


def test_text() -> None:
    assert visible("a\tb\né…") == "a\tb\né…" and visible("\x00\x7f\x9b\u202d") == "␀���"
    assert shortened("abcdef", 3) == "…def" and shortened("abc", 3) == "abc"
