"""Names in service: `support` stands for a version that its owner chose, `support@v12` and `support@candidate` for
others.

A name's versions are numbered as they are brought; a version is a sampler checkpoint, so it is on disk and stays what
it is. Which one serves is one number that is turned at once: a request reads it when it begins, and nobody's answer
changes version in the middle. A share of traffic may go to the candidate, sticky by conversation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from motet.errors import BadRequest, NotFound
from motet.service.catalog.changes import Add, Set, Statement
from motet.service.http.registry import now

Event = Literal["candidate", "promote", "rollback", "pin", "unpin", "canary"]
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
CANDIDATE = "candidate"


@dataclass(frozen=True)
class NamedVersion:
    """One version of a name."""

    number: int  # 1, 2, ...
    path: str  # tinker://RUN/sampler_weights/NAME
    time: datetime
    about: str  # why it was brought, for people


@dataclass(frozen=True)
class Turn:
    """Something that was done to a name."""

    event: Event
    number: int | None  # of the version that it was about
    time: datetime
    reason: str
    by: str = ""  # who says so


@dataclass(frozen=True)
class Word:
    """Why something is done to a name, and who does it."""

    reason: str = ""
    by: str = ""


@dataclass(eq=False)
class Name:
    """A name and what it stands for."""

    tenant: str
    name: str
    versions: list[NamedVersion] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    serving: int | None = None
    before: int | None = None  # what a rollback goes back to
    candidate: int | None = None
    canary: float = 0.0  # the candidate's share of traffic
    pinned: bool = False  # nothing turns it but a pin

    def version(self, number: int) -> NamedVersion:
        """NotFound where there is none."""
        if not 1 <= number <= len(self.versions):
            raise NotFound(f"{self.name} has no version {number}: it has {len(self.versions)}")
        return self.versions[number - 1]


@dataclass(frozen=True)
class Chosen:
    """What a request gets."""

    label: str  # support@v12
    path: str
    name: str | None = None  # in service
    number: int | None = None
    canary: bool = False  # the candidate, by its share of traffic


class Names:
    """Everybody's names. Changes give the statements that write them down; `apply` them once that is done."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], Name] = {}

    @property
    def any(self) -> bool:
        """Is there one?"""
        return bool(self._names)

    def of(self, tenant: str) -> list[Name]:
        return [name for name in self._names.values() if name.tenant == tenant]

    def find(self, tenant: str, name: str) -> Name:
        """NotFound says what may be named."""
        found = self._names.get((tenant, name))
        if found is None:
            raise NotFound(f"there is no model {name!r}: name the base model, a tinker:// path or a name in service")
        return found

    def open(self, tenant: str, name: str) -> Name:
        """The name, a new one where there is none yet. BadRequest: it is no name."""
        if not NAME.fullmatch(name):
            raise BadRequest(f"{name!r} is no name: lower-case letters, digits and . _ - , 64 at most")
        return self._names.get((tenant, name)) or Name(tenant, name)

    def keep(self, name: Name) -> None:
        self._names[name.tenant, name.name] = name

    def choose(self, tenant: str, asked: str, conversation: str | None) -> Chosen:
        """`support`, `support@v12` or `support@candidate`, as it stands now. NotFound, BadRequest."""
        plain, _, wanted = asked.partition("@")
        canary = False
        name = self.find(tenant, plain)
        if wanted == CANDIDATE:
            number = name.candidate
        elif wanted:
            number = int(wanted[1:]) if re.fullmatch(r"v[0-9]{1,9}", wanted) else None
        elif name.candidate is not None and (canary := _falls(asked, conversation, name.canary)):
            number = name.candidate
        else:
            number = name.serving
        if number is None:
            raise NotFound(f"{asked} stands for no version: {plain}@v1 to @v{len(name.versions)} are there")
        return Chosen(f"{plain}@v{number}", name.version(number).path, plain, number, canary)

    def check_free(self, tenant: str, path: str) -> None:
        """BadRequest where a checkpoint is in service: it must stay."""
        for name in self.of(tenant):
            for number in (name.serving, name.candidate, name.before):
                if number is not None and name.version(number).path == path:
                    raise BadRequest(f"{path} is in service as {name.name}@v{number}: promote other versions first")

    def load(self, names: Iterable[Mapping[str, Any]], versions: Iterable[Mapping[str, Any]]) -> None:
        """What an earlier server wrote down."""
        for row in names:
            turns = [
                Turn(one["event"], one["number"], datetime.fromisoformat(one["time"]), one["reason"], one.get("by", ""))
                for one in row["turns"]
            ]
            name = Name(row["tenant"], row["name"], [], turns)
            name.serving, name.before, name.candidate = row["serving"], row["before"], row["candidate"]
            name.canary, name.pinned = row["canary"], row["pinned"]
            self.keep(name)
        for row in sorted(versions, key=lambda row: int(row["number"])):
            time = row["time"].replace(tzinfo=UTC)
            version = NamedVersion(row["number"], row["path"], time, row["about"])
            self._names[row["tenant"], row["name"]].versions.append(version)


def _falls(name: str, conversation: str | None, share: float) -> bool:
    """Does this conversation belong to the candidate's share? One without a name of its own is everybody's luck."""
    if share <= 0:
        return False
    chance = conversation if conversation is not None else str(now().timestamp())
    digest = hashlib.sha256(f"{name}\0{chance}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


# -- what may be done to a name: each gives it as it is afterwards -------------------------------------------------


def brought(name: Name, path: str, word: Word) -> Name:
    """A new version, the candidate from now on; the first one serves at once, one that is there stays as it is."""
    if any(one.path == path for one in name.versions):
        return name
    version = NamedVersion(len(name.versions) + 1, path, now(), word.reason)
    after = _copy(name, [*name.versions, version])
    after.candidate = version.number
    turned = _turned(after, "candidate", version.number, word)
    return promoted(turned, version.number, Word("the first version", word.by)) if name.serving is None else turned


def promoted(name: Name, number: int, word: Word) -> Name:
    """A version serves from the next request on; said again it is nothing. BadRequest: the name is pinned."""
    if name.pinned:
        raise BadRequest(f"{name.name} is pinned to v{name.serving}: unpin it first")
    name.version(number)
    if name.serving == number:
        return name
    after = _copy(name)
    after.before, after.serving = name.serving, number
    after.candidate = None if name.candidate == number else name.candidate
    after.canary = 0.0 if after.candidate is None else name.canary
    return _turned(after, "promote", number, word)


def rolled_back(name: Name, word: Word) -> Name:
    """The version before serves again, and no candidate takes traffic. BadRequest: there is none, or it is pinned."""
    if name.pinned:
        raise BadRequest(f"{name.name} is pinned to v{name.serving}: unpin it first")
    if name.before is None:
        raise BadRequest(f"{name.name} has served no version before this one")
    after = _copy(name)
    after.serving, after.before, after.candidate, after.canary = name.before, None, None, 0.0
    return _turned(after, "rollback", name.before, word)


def pinned(name: Name, number: int | None, word: Word) -> Name:
    """A version serves whatever is promoted, until the pin is taken away (None)."""
    after = _copy(name)
    if number is None:
        after.pinned = False
        return _turned(after, "unpin", name.serving, word)
    name.version(number)
    if number != name.serving:
        after.before, after.serving = name.serving, number
    after.pinned = True
    return _turned(after, "pin", number, word)


def canaried(name: Name, share: float, word: Word) -> Name:
    """The candidate takes a share of the traffic. BadRequest: there is none."""
    if not 0 <= share <= 1:
        raise BadRequest(f"share is {share}: choose 0 to 1")
    if name.candidate is None:
        raise BadRequest(f"{name.name} has no candidate: bring a version first")
    after = _copy(name)
    after.canary = share
    return _turned(after, "canary", name.candidate, word)


def _copy(name: Name, versions: list[NamedVersion] | None = None) -> Name:
    after = Name(name.tenant, name.name, versions or name.versions, list(name.turns))
    after.serving, after.before, after.candidate = name.serving, name.before, name.candidate
    after.canary, after.pinned = name.canary, name.pinned
    return after


def _turned(name: Name, event: Event, number: int | None, word: Word) -> Name:
    name.turns.append(Turn(event, number, now(), word.reason, word.by))
    return name


def statements(before: Name, after: Name) -> list[Statement]:
    """What must be written so that a name is as it is afterwards."""
    key = {"tenant": after.tenant, "name": after.name}
    turns = [{**vars(one), "time": one.time.isoformat()} for one in after.turns]
    values: dict[str, Any] = {"serving": after.serving, "before": after.before, "candidate": after.candidate}
    values |= {"canary": after.canary, "pinned": after.pinned, "turns": turns}
    written: list[Statement] = [Set("names", key, values) if before.versions else Add("names", {**key, **values})]
    for one in after.versions[len(before.versions) :]:
        row = {**key, "number": one.number, "path": one.path, "time": one.time.replace(tzinfo=None), "about": one.about}
        written.append(Add("name_versions", row))
    return written
