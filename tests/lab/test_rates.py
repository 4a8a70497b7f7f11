"""Proposed learning rates, against values by hand and the sweep that others made."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.cli import app
from motet.lab.experiments.rates import SWEPT, Size, propose, proposed_rate


def test_by_hand() -> None:
    assert proposed_rate("llama", 2000) == pytest.approx(5e-4)
    assert proposed_rate("llama", 4096) == pytest.approx(5e-4 * (2000 / 4096) ** 0.781)
    assert proposed_rate("Qwen3", 2560) == pytest.approx(4.905e-4, rel=1e-3)
    assert proposed_rate("llama", 576) == proposed_rate("llama", 1024) == pytest.approx(8.435e-4, rel=1e-3)
    assert proposed_rate("llama", 2000, alpha=16) == pytest.approx(1e-3)


def test_the_formula_tells_the_size() -> None:
    """Within a factor of three of what the cookbook's sweep found."""
    sizes = {
        "Llama-3.2-1B": Size("llama", 2048),
        "NVIDIA-Nemotron-3-Nano-30B-A3B": Size("nemotron_h", 2688),
        "Qwen3-4B-Instruct-2507": Size("qwen3", 2560),
        "Qwen3-8B": Size("qwen3", 4096),
    }
    assert sizes.keys() == SWEPT.keys()
    for name, size in sizes.items():
        found = propose(f"somebody/{name}", size, 32)
        assert found.swept == SWEPT[name] and 1 / 3 < found.rate / found.swept < 3


def test_doubts_are_told() -> None:
    assert propose("m", Size("qwen3", 2560), 16).doubts == []
    assert propose("m", Size("qwen3", 2560), 1).rate == propose("m", Size("qwen3", 2560), 512).rate
    several = propose("m", Size("nemotron_h", 576), 1024, alpha=64).doubts
    assert [next(w for w in ("1024:", "mean", "alpha", "512") if w in one) for one in several] == [
        "1024:",
        "mean",
        "alpha",
        "512",
    ]


def test_the_command(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["rates", "pocket", "--rank", "8"])
    assert told.exit_code == 0 and "learning_rate = 0.00053" in told.output
    assert "nothing supports the formula below a hidden size of 1024" in told.output
    wrong = CliRunner().invoke(app, ["rates", str(tmp_path / "none")])
    assert wrong.exit_code == 2 and "give a model's folder" in wrong.output
