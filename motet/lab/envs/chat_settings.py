"""What the sections of all environments of messages share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from motet.lab.envs.conversation import Limits


class ChatSettings(BaseModel):
    """How much an episode may take."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    turns: int = Field(default=16, ge=1)
    turn_tokens: int = Field(default=256, ge=1)
    episode_tokens: int = Field(default=32_768, ge=1)
    episode_seconds: float = Field(default=600.0, gt=0)

    @property
    def limits(self) -> Limits:
        return Limits(self.turns, self.turn_tokens, self.episode_tokens, self.episode_seconds)

    @property
    def gives_hints(self) -> bool:
        """Do its episodes show a teacher something?"""
        return False

    @property
    def speaker(self) -> str | None:
        """Who else speaks in an episode: `base`, or the tinker:// path of a version; None: nobody of this server."""
        return None
