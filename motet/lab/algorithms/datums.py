"""From tokens to the datum that the trainer takes.

Position t of a datum holds token t and is asked for token t+1: all arrays have T-1 entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tinker
from tinker import TensorData

from motet.lab.algorithms.base import Array
from motet.lab.envs.protocol import Trajectory


def targets_of(tokens: Sequence[int]) -> tinker.Datum:
    """A datum of tokens and targets alone."""
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(list(tokens[:-1])),
        loss_fn_inputs={"target_tokens": TensorData.from_numpy(np.asarray(tokens[1:], np.int64))},
    )


def weighted_datum(tokens: Sequence[int], weights: Array) -> tinker.Datum:
    """For cross_entropy and custom losses: each token with its weight; the first token's is of no use."""
    datum = targets_of(tokens)
    datum.loss_fn_inputs["weights"] = TensorData.from_numpy(np.asarray(weights[1:], np.float32))
    return datum


def policy_datum(tokens: Sequence[int], logprobs: Array, advantages: Array) -> tinker.Datum:
    """For the policy losses: of each token, what the old policy gave it and its advantage (0: not trained on)."""
    datum = targets_of(tokens)
    datum.loss_fn_inputs["logprobs"] = TensorData.from_numpy(np.asarray(logprobs[1:], np.float32))
    datum.loss_fn_inputs["advantages"] = TensorData.from_numpy(np.asarray(advantages[1:], np.float32))
    return datum


def rl_datum(trajectory: Trajectory, advantage: float) -> tinker.Datum:
    """One advantage for all that the policy wrote, 0 where it read."""
    mask = np.asarray(trajectory.mask, np.float64)
    return policy_datum(trajectory.tokens, np.asarray(trajectory.logprobs), mask * advantage)
