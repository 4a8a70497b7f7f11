"""`motet loop` as a user runs it, its gate included, on a real server: what is better is promoted, nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from motet.cli import app
from tests.loop.conftest import Tenant

QUESTIONS = [f"Is it {number} o'clock?" for number in range(24)]


def looped(tenant: Tenant, folder: Path, **changes: Any) -> dict[str, Any]:
    """A round of `motet loop --once`; the name afterwards."""
    folder.mkdir(exist_ok=True)
    learn = {"corrections": "sft", "epochs": 12, "batch": 8, "rank": 8, "learning_rate": 5e-3, **changes}
    told = "\n".join(f"{key} = {json.dumps(value)}" for key, value in learn.items())
    file = folder / "desk.toml"
    file.write_text(
        'name = "desk"\nwhen = {items = 8, minutes = 0, held_out = 0.4}\ncanary = {share = 0.0}\n'
        f"gate = {{safety = false, max_tokens = 8}}\n[learn]\n{told}\n"
    )
    command = ["loop", str(file), "--once", "--out", str(folder), "--base-url", tenant.address, "--api-key", tenant.key]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return tenant.names.show("desk")


def test_what_is_better_serves(loop_address: str, tmp_path: Path) -> None:
    tenant = Tenant(loop_address, "tml-better")
    assert looped(tenant, tmp_path)["serving"] == 1
    tenant.correct("desk", QUESTIONS, better="Yes.")
    name = looped(tenant, tmp_path)
    assert name["serving"] == 2 and name["history"][-1]["reason"].startswith("better: 0.")
    assert tenant.ask("desk", "Is it 99 o'clock?")["choices"][0]["message"]["content"].startswith("Yes")
    gate = [one for one in map(json.loads, (tmp_path / "loop.jsonl").open()) if one["stage"] == "gate"]
    assert gate[0]["promote"] and gate[0]["figures"]["held-out feedback after"] > 0.5


def test_what_changes_nothing_is_refused(loop_address: str, tmp_path: Path) -> None:
    tenant = Tenant(loop_address, "tml-null")
    looped(tenant, tmp_path)
    tenant.correct("desk", QUESTIONS, better="Yes.")
    name = looped(tenant, tmp_path, learning_rate=1e-9)
    last = name["history"][-1]
    assert name["serving"] == 1 and last["event"] == "canary" and name["canary"] == 0
    assert last["reason"].startswith("refused: not surely better")
    assert looped(tenant, tmp_path)["versions"] == name["versions"]  # its items are not learned from again


def test_a_poisoned_batch_is_refused(loop_address: str, tmp_path: Path) -> None:
    """The trained items say one thing and the held-out ones another: what was learned is worse for whoever asks."""
    tenant = Tenant(loop_address, "tml-poison")
    looped(tenant, tmp_path)
    tenant.correct("desk", QUESTIONS, better="Yes.")
    assert looped(tenant, tmp_path)["serving"] == 2
    tenant.correct("desk", [f"Is it {number} o'clock now?" for number in range(12)], better="zzzz qqqq", user="mallory")
    name = looped(tenant, tmp_path)
    assert name["serving"] == 2 and name["history"][-1]["reason"].startswith("refused: ")
