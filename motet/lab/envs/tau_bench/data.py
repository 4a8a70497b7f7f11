"""The published files: the shop's database, the policy, the tasks and their splits (Sierra Research, MIT licence).

They are read where they lie and never changed: `tau2_db.json`, `tau2_policy.md`, `tau2_tasks.json`,
`tau2_split_tasks.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from motet.chat.calls import ToolCall
from motet.errors import BadConfig

Table = Literal["users", "products", "orders"]
Record = dict[str, Any]
SplitName = Literal["train", "test"]
TABLES: tuple[Table, ...] = ("users", "products", "orders")
SCENARIO = ("reason_for_call", "known_info", "unknown_info", "task_instructions")


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


@lru_cache(maxsize=4)
def read_shop(folder: Path) -> Shop:
    """Read once a process. BadConfig: a file is missing or not of the published form."""
    tasks = {task.id: task for task in map(_task, _json(folder / "tau2_tasks.json"))}
    splits = _json(folder / "tau2_split_tasks.json")
    database = _json(folder / "tau2_db.json")
    try:
        return Shop(
            {name: database[name] for name in TABLES},
            (folder / "tau2_policy.md").read_text(encoding="utf-8"),
            {"train": [tasks[one] for one in splits["train"]], "test": [tasks[one] for one in splits["test"]]},
        )
    except (OSError, KeyError) as error:
        raise BadConfig(f"{folder} has not all of tau-bench retail's files ({error!r}): fetch them again") from None


def _json(file: Path) -> Any:
    if not file.is_file():
        raise BadConfig(f"there is no {file}; set environment.path to the folder with tau-bench retail's files")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadConfig(f"{file} is damaged ({error}): fetch it again") from None


def _task(record: Record) -> Task:
    instructions, wanted = record["user_scenario"]["instructions"], record["evaluation_criteria"]
    lines = [instructions[key] for key in SCENARIO if instructions.get(key)]
    actions = tuple(ToolCall(one["name"], one["arguments"]) for one in wanted["actions"] or ())
    return Task(str(record["id"]), "\n".join(lines), actions, tuple(map(str, wanted["communicate_info"] or ())))
