"""Logs of both processes: lines on stderr, for people or as JSON, and never an API key in one."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

API_KEY = re.compile(r"\btml-[\w.-]+")
Fields = dict[str, Any]


@dataclass(frozen=True)
class LogSettings:
    """How the server logs."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"  # of Motet; libraries speak from warning on


class _LineFormatter(logging.Formatter):
    """One record, one line of text or of JSON, with the fields of `extra={"fields": {...}}` and of the context."""

    def __init__(self, process: str, settings: LogSettings, context: Callable[[], Fields]) -> None:
        super().__init__()
        self._process = process
        self._json = settings.format == "json"
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        fields: Fields = {**getattr(record, "fields", {}), **self._context()}
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage()
        trace = self.formatException(record.exc_info) if record.exc_info else None
        if self._json:
            told = {"time": time, "process": self._process, "level": record.levelname.lower(), "logger": record.name}
            line = json.dumps(
                {**fields, **told, "message": message, **({"trace": trace} if trace else {})}, default=str
            )
        else:
            pairs = [f"{name}={value}" for name, value in fields.items()]
            line = " ".join([time, self._process, record.levelname, message, *pairs])
            line = f"{line}\n{trace}" if trace else line
        return API_KEY.sub("tml-***", line)


def start_logging(process: str, settings: LogSettings, context: Callable[[], Fields] = dict) -> None:
    """Log this process to stderr from now on. `context` gives fields of whatever is being worked on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter(process, settings, context))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("motet").setLevel(settings.level.upper())
