"""tinker-cookbook 0.6.1's own `math_rl` recipe, unmodified, against our server.

Its wheel asks for a `tml-renderers` that Python 3.11 cannot have and this recipe does not use, so it has an environment
of its own that borrows everything else from ours:

    python3.11 -m venv cookbook
    echo "$PWD/.venv/lib/python3.11/site-packages" > cookbook/lib/python3.11/site-packages/motet.pth
    cookbook/bin/pip install --no-deps tinker-cookbook==0.6.1
    cookbook/bin/pip install chz cloudpickle blobfile datasets termcolor tiktoken aiohttp pyrage pillow math-verify \\
        pylatexenc sympy
    MOTET_COOKBOOK=cookbook/bin/python make test-long
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tinker

from tests.service.running import serving

PYTHON = os.environ.get("MOTET_COOKBOOK")
KEY = "tml-cook"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="MOTET_COOKBOOK names no python that has tinker-cookbook: see this file"),
]


@pytest.fixture(scope="module")
def model() -> Path:
    return Path(__file__).parents[2] / "motet" / "pocket"


@pytest.fixture(scope="module")
def address(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(model, tmp_path_factory.mktemp("server")) as server:
        yield server.address


class Kitchen:
    """Runs the recipe on a server, in a folder of its own."""

    def __init__(self, address: str, model: Path, folder: Path) -> None:
        self.address = address
        self.log = folder / "log"
        self._model = model

    def cook(self, **changes: object) -> list[dict[str, float]]:
        """The metrics of every step that its log has in the end."""
        assert PYTHON is not None
        arguments = {
            "model_name": self._model,
            "renderer_name": "role_colon",
            "env": "arithmetic",
            "loss_fn": "importance_sampling",
            "group_size": 4,
            "groups_per_batch": 4,
            "max_tokens": 5,
            "lora_rank": 8,
            "eval_every": 0,
            "save_every": 1,
            "log_path": self.log,
            "behavior_if_log_dir_exists": "delete",
            **changes,
        }
        environment = {"TINKER_BASE_URL": self.address, "TINKER_API_KEY": KEY, "TINKER_TELEMETRY": "0"}
        told = subprocess.run(
            [PYTHON, "-m", "tinker_cookbook.recipes.math_rl.train", *(f"{k}={v}" for k, v in arguments.items())],
            env={**os.environ, **environment, "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert told.returncode == 0, told.stdout[-6000:]
        assert "Training completed successfully" in told.stdout, told.stdout[-6000:]
        return [json.loads(line) for line in (self.log / "metrics.jsonl").read_text().splitlines()]

    def checkpoints(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.log / "checkpoints.jsonl").read_text().splitlines()]


@pytest.fixture
def kitchen(address: str, model: Path, tmp_path: Path) -> Kitchen:
    return Kitchen(address, model, tmp_path)


def check(steps: list[dict[str, float]], expected: range) -> None:
    """Every step trained, and its samples had the log-probabilities that the trainer finds."""
    trained = [step for step in steps if "optim/kl_sample_train_v1" in step]
    assert [step["step"] for step in trained] == list(expected), [sorted(step) for step in steps]
    for step in trained:
        assert abs(step["optim/kl_sample_train_v1"]) < 1e-4


def test_synchronous_then_resumed(kitchen: Kitchen) -> None:
    check(kitchen.cook(max_steps=2), range(2))
    paths = [str(one["state_path"]) for one in kitchen.checkpoints()]
    rest = tinker.RestClient(base_url=kitchen.address, api_key=KEY)
    saved = {one.tinker_path for one in rest.list_user_checkpoints().result().checkpoints}
    assert paths and set(paths) <= saved
    check(kitchen.cook(max_steps=4, behavior_if_log_dir_exists="resume"), range(4))
    runs = {str(one["state_path"]).removeprefix("tinker://").partition("/")[0] for one in kitchen.checkpoints()}
    assert len(runs) == 2  # the second half ran on a run made from the first one's state


def test_stream_minibatch(kitchen: Kitchen) -> None:
    stream = {"stream_minibatch_config.groups_per_batch": 4, "stream_minibatch_config.num_minibatches": 2}
    check(kitchen.cook(max_steps=2, **stream), range(2))


def test_asynchronous(kitchen: Kitchen) -> None:
    check(kitchen.cook(max_steps=3, max_steps_off_policy=1), range(3))
