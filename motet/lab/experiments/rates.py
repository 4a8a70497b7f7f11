"""A learning rate for LoRA, from the size of the base model.

    rate = 5e-5 * 10 * (2000 / hidden)^p,     p = 0.781 for Llama, 0.0775 for Qwen, their mean for others

LoRA wants about ten times the rate of full fine-tuning, and the best one hardly depends on the rank as long as the
adapter's output is scaled by alpha / rank with alpha = 32 (Schulman et al. 2025, "LoRA Without Regret", Thinking
Machines). The fit over hidden sizes is the Tinker cookbook's (`hyperparam_utils.get_lr`), made on models of 1B and
more: below a hidden size of 1,024 it is taken there, since nothing supports it further down; another alpha is made up
for by 32 / alpha.
"""

from __future__ import annotations

FULL_FINE_TUNING = 5e-5
LORA_FACTOR = 10.0
EXPONENTS = {"llama": 0.781, "qwen": 0.0775}
OTHERS = sum(EXPONENTS.values()) / len(EXPONENTS)
LEAST_HIDDEN = 1024
MUCH_TOO_LOW = 8.0  # times below the proposal: the size of rates for full fine-tuning


def proposed_rate(family: str, hidden: int, alpha: float = 32.0) -> float:
    """For supervised learning; reinforcement learning works from a fifth of it up. family: as in a model's name."""
    exponent = next((value for name, value in EXPONENTS.items() if name in family.lower()), OTHERS)
    return FULL_FINE_TUNING * LORA_FACTOR * (2000 / max(hidden, LEAST_HIDDEN)) ** exponent * 32.0 / alpha
