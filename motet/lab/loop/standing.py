"""Where a name's loop stands, from the server's records and the folder: the same whoever looks, after whatever end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from motet.client.names import Names
from motet.client.records import Records
from motet.errors import NotFound
from motet.lab.loop.lineage import Training
from motet.lab.loop.state import Learning

Stage = Literal["open", "gather", "learn", "bring", "gate", "canary"]


@dataclass(frozen=True)
class InService:
    """A name as the server tells it."""

    serving: int | None
    candidate: int | None
    share: float  # of the candidate's traffic
    pinned: bool
    paths: Mapping[int, str]  # by version
    history: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> InService:
        paths = {one["version"]: one["path"] for one in told["versions"]}
        return cls(told["serving"], told["candidate"], told["canary"], told["pinned"], paths, told["history"])

    @property
    def path(self) -> str | None:
        """Of what serves."""
        return None if self.serving is None else self.paths[self.serving]

    def last_of(self, version: int) -> Mapping[str, Any]:
        """The last thing that was done to a version."""
        return [one for one in self.history if one["version"] == version][-1]


@dataclass(frozen=True)
class Standing:
    """All that decides what comes next."""

    name: InService | None  # None: nobody has brought a version yet
    trainings: list[Training]  # of the loop's own rounds, oldest first
    learning: Learning | None

    @property
    def newest(self) -> Training | None:
        return self.trainings[-1] if self.trainings else None

    @property
    def stage(self) -> Stage:
        """What is to be done next."""
        newest, name = self.newest, self.name
        if name is None:
            return "open"
        if newest is None or newest.state == "abandoned":
            return "gather"
        if newest.state == "open":
            learned = self.learning is not None and self.learning.training == newest.id and self.learning.path
            return "bring" if learned else "learn"
        if newest.version is None or newest.version != name.candidate:
            return "gather"  # it serves, or somebody has decided otherwise
        if name.share > 0:
            return "canary"
        return "gate" if name.last_of(newest.version)["event"] == "candidate" else "gather"


def look(name: str, names: Names, records: Records, learning: Learning | None) -> Standing:
    """Ask the server."""
    own = re.compile(rf"{re.escape(name)}-[0-9]+")
    trainings = [Training.of(one) for one in records.trainings(name) if own.fullmatch(one["key"])]
    try:
        told = names.show(name)
    except NotFound:
        return Standing(None, trainings, learning)
    return Standing(InService.of(told), trainings, learning)
