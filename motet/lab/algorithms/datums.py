"""From a trajectory to the datum that the trainer takes."""

from __future__ import annotations

import numpy as np
import tinker
from tinker import TensorData

from motet.lab.envs.protocol import Trajectory


def rl_datum(trajectory: Trajectory, advantage: float) -> tinker.Datum:
    """Position t holds token t and is asked for token t+1, with the advantage of that next token:
    `advantage` where the policy wrote it, 0 where it was read. All arrays have T-1 entries."""
    tokens = trajectory.tokens
    mask = np.asarray(trajectory.mask[1:], np.float32)
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(np.asarray(tokens[1:], np.int64)),
            "logprobs": TensorData.from_numpy(np.asarray(trajectory.logprobs[1:], np.float32)),
            "advantages": TensorData.from_numpy(mask * np.float32(advantage)),
        },
    )
