"""What the sections of all environments of messages share."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from motet.lab.envs.any_settings import EnvironmentSettings
from motet.lab.envs.conversation import Limits


class ChatSettings(EnvironmentSettings):
    """How much an episode may take."""

    turns: int = Field(default=16, ge=1)
    turn_tokens: int = Field(default=256, ge=1)
    episode_tokens: int = Field(default=32_768, ge=1)
    episode_seconds: float = Field(default=600.0, gt=0)

    @property
    def limits(self) -> Limits:
        return Limits(self.turns, self.turn_tokens, self.episode_tokens, self.episode_seconds)

    def within(self, context: int) -> Self:
        """An episode ends, out of tokens, where the base model's context does."""
        return self.model_copy(update={"episode_tokens": min(self.episode_tokens, context)})
