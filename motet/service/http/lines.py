"""A tenant's requests on their way, as its quotas see them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Line:
    """One tenant's requests on their way."""

    tokens: int = 0
    requests: int = 0
    begun: int = 0  # of them: those that will end without anything more from the client


@dataclass(eq=False)
class Place:
    """One request in its tenant's line."""

    line: Line
    tokens: int
    begun: bool = False

    def begin(self) -> None:
        """Its turn has come. Calling it again is nothing."""
        if not self.begun:
            self.begun = True
            self.line.begun += 1

    def leave(self) -> None:
        """It is done, or has never been. Once."""
        self.line.tokens -= self.tokens
        self.line.requests -= 1
        self.line.begun -= self.begun
