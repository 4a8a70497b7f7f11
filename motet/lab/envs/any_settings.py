"""What the sections of all environments share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Speaker:
    """A model of the same server that speaks in the episodes. who: `base`, or the tinker:// path of a version."""

    who: str
    temperature: float


class EnvironmentSettings(BaseModel):
    """How an environment is asked for, and what it says of itself before anything is played."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @property
    def gives_hints(self) -> bool:
        """Do its episodes show a teacher something?"""
        return False

    @property
    def speaker(self) -> Speaker | None:
        """Who else speaks in an episode; None: nobody of this server."""
        return None

    @property
    def notice(self) -> str | None:
        """What a person should know before it is played. BadConfig: it cannot be."""
        return None

    def within(self, context: int) -> Self:
        """The same, for a base model that reads so many tokens at most."""
        return self
