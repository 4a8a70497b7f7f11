"""What the loop says: a line for people, the same as JSON in the folder's loop.jsonl."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

NAME = "loop.jsonl"


class Log:
    """Appends as things happen."""

    def __init__(self, folder: Path, name: str, console: Console) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / NAME
        self._name = name
        self._console = console

    def say(self, stage: str, text: str, **facts: Any) -> None:
        """facts: for programs, beside the text."""
        now = datetime.now(UTC)
        line = {"time": now.isoformat(), "name": self._name, "stage": stage, "text": text, **facts}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._console.print(f"{now:%H:%M:%S}  {self._name}  {stage:<7} {text}", soft_wrap=True)
