"""Conversations as tokens and back: used by whoever plays episodes and by whoever serves answers."""
