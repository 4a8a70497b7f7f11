"""What a model thinks before it speaks, told apart from what it says."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"  # Qwen3, SmolLM3, Nemotron 3, DeepSeek; some templates write the first themselves


def spoken(text: str) -> str:
    """A turn without its thoughts: what follows the last of them. One that was never closed is thought to the end."""
    if OPEN not in text and CLOSE not in text:
        return text
    before, _, _ = text.rpartition(CLOSE)[2].partition(OPEN)
    return before.strip()
