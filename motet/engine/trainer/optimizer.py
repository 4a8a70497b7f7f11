"""AdamW on one run's flat tensors: torch's semantics, its own numbers, its own clipping."""

from __future__ import annotations

import math

import torch

from motet.engine.adapters.run import Run
from motet.engine.types import AdamW
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
    """One step (Loshchilov & Hutter 2019, algorithm 2), in place; the gradient is cleared.

    The norm is clipped first, then the moments are updated; without a gradient the step is one with gradient zero.
    NotFinite: the gradient has NaN or infinite values: the weights stay, the gradient is cleared.
    """
    norm = gradient_norm(run)
    gradient = run.gradient if run.gradient is not None else torch.zeros_like(run.master)
    if adam.grad_clip_norm > 0 and norm > adam.grad_clip_norm:
        gradient = gradient * (adam.grad_clip_norm / (norm + 1e-6))
    if run.first_moment is None or run.second_moment is None:
        run.first_moment, run.second_moment = torch.zeros_like(run.master), torch.zeros_like(run.master)
    run.step += 1
    run.first_moment.lerp_(gradient, 1 - adam.beta1)
    run.second_moment.mul_(adam.beta2).addcmul_(gradient, gradient, value=1 - adam.beta2)
    run.master.mul_(1 - adam.learning_rate * adam.weight_decay)
    size = adam.learning_rate / (1 - adam.beta1**run.step)
    spread = run.second_moment.sqrt().div_(math.sqrt(1 - adam.beta2**run.step)).add_(adam.eps)
    run.master.addcdiv_(run.first_moment, spread, value=-size)
    run.refresh_compute()
    run.clear_gradient()
    return {"grad_norm:mean": norm, "step:max": float(run.step), "learning_rate:mean": adam.learning_rate}
