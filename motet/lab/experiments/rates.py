"""A learning rate for LoRA, from the size of the base model.

    rate = 5e-5 * 10 * (2000 / hidden)^p,     p = 0.781 for Llama, 0.0775 for Qwen, their mean for others

LoRA wants about ten times the rate of full fine-tuning, in supervised and in reinforcement learning, and the best one
hardly depends on the rank as long as the adapter's output is scaled by alpha / rank with alpha = 32 (Schulman et al.
2025, "LoRA Without Regret", Thinking Machines, who fitted the formula to models of 1B and more). The Tinker cookbook's
`hyperparam_utils.get_lr` had this formula, and has since put a table of its own sweeps in its place (supervised, 128
examples a step, 780 steps): 1e-4 to 1e-3 over some thirty models, so the formula tells the size and no more than that.

Nothing supports it below a hidden size of 1,024, where it is taken at 1,024; another alpha is made up for by
32 / alpha, which is right at the first steps only, while B is still near 0.
"""

from __future__ import annotations

from dataclasses import dataclass

FULL_FINE_TUNING = 5e-5
LORA_FACTOR = 10.0
EXPONENTS = {"llama": 0.781, "qwen": 0.0775}
OTHERS = sum(EXPONENTS.values()) / len(EXPONENTS)
LEAST_HIDDEN = 1024
ALPHA = 32.0
MOST_RANK = 512
MUCH_TOO_LOW = 8.0  # times below the proposal: the size of rates for full fine-tuning
AROUND = (1 / 3, 1.0, 3.0)  # what is worth a sweep
# What the Tinker cookbook's sweep found best, of base models that Motet's examples name.
SWEPT = {
    "Llama-3.2-1B": 1e-3,
    "NVIDIA-Nemotron-3-Nano-30B-A3B": 4e-4,
    "Qwen3-4B-Instruct-2507": 1e-3,
    "Qwen3-8B": 1e-3,
}


@dataclass(frozen=True)
class Size:
    """Of a base model. family: as in a model's name or type."""

    family: str
    hidden: int


@dataclass(frozen=True)
class Proposal:
    """A rate, the sweep around it, what others found best, and why to doubt it."""

    rate: float
    around: tuple[float, ...]
    swept: float | None
    doubts: list[str]


def proposed_rate(family: str, hidden: int, alpha: float = ALPHA) -> float:
    """The formula alone."""
    exponent = next((value for name, value in EXPONENTS.items() if name in family.lower()), OTHERS)
    return FULL_FINE_TUNING * LORA_FACTOR * (2000 / max(hidden, LEAST_HIDDEN)) ** exponent * ALPHA / alpha


def propose(model: str, size: Size, rank: int, alpha: float = ALPHA) -> Proposal:
    """All that is to be said of a base model's rate at a rank."""
    rate = proposed_rate(size.family, size.hidden, alpha)
    swept = next((best for name, best in SWEPT.items() if name.lower() in model.lower()), None)
    return Proposal(rate, tuple(rate * one for one in AROUND), swept, _doubts(size, rank, alpha))


def _doubts(size: Size, rank: int, alpha: float) -> list[str]:
    found = []
    if size.hidden < LEAST_HIDDEN:
        found.append(f"nothing supports the formula below a hidden size of {LEAST_HIDDEN}: it is taken there")
    if not any(name in size.family.lower() for name in EXPONENTS):
        found.append("neither Llama nor Qwen: the mean of their exponents")
    if alpha != ALPHA:
        found.append(
            f"the formula is for alpha 32; {alpha:g} is made up for by 32 / {alpha:g}, right at the first steps only"
        )
    if rank > MOST_RANK:
        found.append(f"ranks beyond {MOST_RANK} were not looked at")
    return found
