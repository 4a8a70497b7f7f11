"""The memory arithmetic against what the engine really makes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from motet.cli import app
from motet.engine.adapters.layout import fresh_weights, make_layout
from motet.engine.adapters.run import Run
from motet.engine.models.base import open_base_model
from motet.engine.types import AdapterShape
from motet.errors import BadConfig
from motet.planner.memory import FLOAT, Load, bytes_of, read_sizes
from tests.tiny import FAMILIES, make_tiny_model


@pytest.mark.parametrize("family", FAMILIES)
def test_as_the_engine_has_it(family: str, tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path, family)
    base, sizes = open_base_model(str(folder), "float32", "cpu"), read_sizes(folder)
    assert sizes.parameters == pytest.approx(base.decoder.parameters(), rel=0.01)  # norms and biases apart
    layout = make_layout(base.decoder.config, AdapterShape(rank=5))
    assert sizes.adapter(5) == layout.size
    device = torch.device("cpu")
    run = Run("r", layout, {"master": fresh_weights(layout, 0)}, 0, torch.bfloat16, device, tmp_path / "r")
    run.set_gradient(torch.ones(layout.size))
    run.take_step(1, run.master, run.master.clone(), run.master.clone())
    assert bytes_of(sizes, Load(1, 5, 1, 1, 1, 2)).runs == run.nbytes()
    kv = 2 * sizes.layers * sizes.kv_heads * sizes.head_width
    assert bytes_of(sizes, Load(1, 5, 3, 100, 1, FLOAT)).keys_and_values == 300 * kv * FLOAT


def test_the_command_refuses_what_does_not_fit(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path, "qwen3")

    def plan(*flags: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["plan", "memory", str(folder), *flags])
        return ended.exit_code, ended.output

    assert plan("--device-gib", "8")[0] == 0
    code, told = plan("--device-gib", "0.01", "--sequences", "4096")
    assert code == 1 and "does not fit" in told and "lower runs, sequences or context" in told
    with pytest.raises(BadConfig, match=r"no config.json"):
        read_sizes(tmp_path / "nowhere")
