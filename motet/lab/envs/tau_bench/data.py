"""The published files: the shop's database, the policy, the tasks and their splits (Sierra Research, MIT licence).

They are read where they lie and never changed: `tau2_db.json`, `tau2_policy.md`, `tau2_tasks.json`,
`tau2_split_tasks.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from motet.chat.calls import ToolCall
from motet.errors import BadConfig

Table = Literal["users", "products", "orders"]
Record = dict[str, Any]
SplitName = Literal["train", "test"]
TABLES: tuple[Table, ...] = ("users", "products", "orders")
SPLITS: tuple[SplitName, ...] = ("train", "test")


@dataclass(frozen=True)
class Task:
    """What a customer wants, and how it would be done. told: what the customer must be told for it."""

    id: str
    scenario: str
    actions: tuple[ToolCall, ...]
    told: tuple[str, ...]


@dataclass(frozen=True)
class Shop:
    """Everything that was published for retail. Records are shared by all episodes: nobody changes them."""

    tables: dict[Table, dict[str, Record]]
    policy: str
    tasks: dict[SplitName, list[Task]]


# -- the published form; fields that are not named here are not used ---------------------------------------------


class _Instructions(BaseModel):
    reason_for_call: str
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str | None = None


class _Scenario(BaseModel):
    instructions: _Instructions


class _Action(BaseModel):
    name: str
    arguments: dict[str, Any]


class _Wanted(BaseModel):
    actions: list[_Action] | None
    communicate_info: list[str] | None = None


class _Task(BaseModel):
    id: str
    user_scenario: _Scenario
    evaluation_criteria: _Wanted

    def read(self) -> Task:
        told, wanted = self.user_scenario.instructions, self.evaluation_criteria
        lines = (told.reason_for_call, told.known_info, told.unknown_info, told.task_instructions)
        actions = tuple(ToolCall(one.name, one.arguments) for one in wanted.actions or ())
        return Task(self.id, "\n".join(line for line in lines if line), actions, tuple(wanted.communicate_info or ()))


@lru_cache(maxsize=4)
def read_shop(folder: Path) -> Shop:
    """Read once a process. BadConfig: a file is missing or not of the published form, and where."""
    tasks = {task.id: task for task in _tasks(folder / "tau2_tasks.json")}
    return Shop(
        _tables(folder / "tau2_db.json"),
        _text(folder / "tau2_policy.md"),
        _splits(folder / "tau2_split_tasks.json", tasks),
    )


def _tasks(file: Path) -> list[Task]:
    records = _json(file)
    if not isinstance(records, list):
        raise BadConfig(f"{file} is no list of tasks: fetch it again")
    return [_task(file, number, record) for number, record in enumerate(records, start=1)]


def _task(file: Path, number: int, record: Any) -> Task:
    try:
        return _Task.model_validate(record).read()
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise BadConfig(f"{file}, task number {number}: {where or 'all of it'}: {wrong['msg']}") from None


def _tables(file: Path) -> dict[Table, dict[str, Record]]:
    database = _json(file)
    for name in TABLES:
        if not isinstance(database, dict) or not isinstance(database.get(name), dict) or not database[name]:
            raise BadConfig(f"{file} has no table {name}: fetch it again")
    return {name: database[name] for name in TABLES}


def _splits(file: Path, tasks: dict[str, Task]) -> dict[SplitName, list[Task]]:
    named = _json(file)
    splits = dict[SplitName, list[Task]]()
    for name in SPLITS:
        ids: Sequence[str] = named.get(name, ()) if isinstance(named, dict) else ()
        unknown = [one for one in ids if one not in tasks]
        if unknown or not ids:
            wrong = f"names tasks that there are not ({', '.join(map(str, unknown[:3]))})" if unknown else "is empty"
            raise BadConfig(f"{file}: the split {name} {wrong}: fetch it again, with tau2_tasks.json")
        splits[name] = [tasks[one] for one in ids]
    return splits


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wrong = f"{file} cannot be read ({error.__class__.__name__})"
        raise BadConfig(f"{wrong}; set environment.path to the folder with tau-bench retail's files") from None


def _json(file: Path) -> Any:
    text = _text(file)
    try:
        return json.loads(text)
    except ValueError as error:  # it tells the line
        raise BadConfig(f"{file} is damaged ({error}): fetch it again") from None
