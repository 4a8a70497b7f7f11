"""Motet: many LoRA experiments learning at once on one warm base model."""

__version__ = "0.1.0"
