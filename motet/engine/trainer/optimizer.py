"""AdamW on one run's flat tensors: torch's semantics, its own numbers, its own clipping."""

from __future__ import annotations

import math

import torch

from motet.engine.adapters.run import Run
from motet.engine.ops.finite import all_finite
from motet.engine.types import AdamW, as_float32
from motet.errors import NotFinite


def gradient_norm(run: Run) -> float:
    """In float64. NotFinite where the gradient has NaN or infinite values: it is cleared."""
    norm = 0.0 if run.gradient is None else float(torch.linalg.vector_norm(run.gradient, dtype=torch.float64))
    if not math.isfinite(norm):
        run.clear_gradient()
        raise NotFinite(
            f"the gradient of {run.name} is not finite: the step was not taken and the gradient is cleared; "
            "look for huge advantages or log-probabilities in the data since the last step"
        )
    return norm


@torch.no_grad()
def adamw_step(run: Run, adam: AdamW) -> dict[str, float]:
    """One step (Loshchilov & Hutter 2019, algorithm 2); the gradient is cleared.

    The norm is clipped first, then the moments are updated; without a gradient the step is one with gradient zero.
    NotFinite: the gradient, or what the step would make of the run, is beyond float32 (or the base model's dtype): then
    the run is as it was, but for its gradient, which is cleared. Whatever else is raised leaves the run as it was.
    """
    norm = gradient_norm(run)
    gradient = run.gradient if run.gradient is not None else torch.zeros_like(run.master)
    if adam.grad_clip_norm > 0 and norm > adam.grad_clip_norm:
        gradient = gradient * (adam.grad_clip_norm / (norm + 1e-6))
    step, first, second = run.step + 1, run.first_moment, run.second_moment
    if first is None or second is None:
        first = second = torch.zeros_like(run.master)
    first = torch.lerp(first, gradient, 1 - adam.beta1)
    second = (second * adam.beta2).addcmul_(gradient, gradient, value=1 - adam.beta2)
    size = adam.learning_rate / (1 - adam.beta1**step)
    if math.isinf(as_float32(size)):
        raise _overflow(run)
    spread = second.sqrt().div_(math.sqrt(1 - adam.beta2**step)).add_(adam.eps)
    master = (run.master * (1 - adam.learning_rate * adam.weight_decay)).addcdiv_(first, spread, value=-size)
    if not (all_finite(second) and all_finite(master.to(run.compute.dtype))):
        raise _overflow(run)
    run.take_step(step, master, first, second)
    return {"grad_norm:mean": norm, "step:max": float(step), "learning_rate:mean": adam.learning_rate}


def _overflow(run: Run) -> NotFinite:
    run.clear_gradient()
    return NotFinite(
        f"the step would make numbers of {run.name} that are not finite: it was not taken and the gradient is cleared; "
        "lower learning_rate or weight_decay, or look for huge advantages in the data"
    )
