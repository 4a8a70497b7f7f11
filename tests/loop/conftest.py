"""A real server for the loops of many tenants, and people who use a name and say what they think."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from motet.client.connection import Connection
from motet.client.feedback import Feedback
from motet.client.names import Names
from motet.client.records import Records
from tests.service.running import serving
from tests.tiny import make_tiny_model


@dataclass(frozen=True)
class Tenant:
    """One key's view, with what people say through it."""

    address: str
    key: str

    @property
    def names(self) -> Names:
        return Names(Connection(self.address, self.key))

    @property
    def records(self) -> Records:
        return Records(Connection(self.address, self.key))

    @property
    def model(self) -> str:
        """The base model that the server has."""
        return str(Connection(self.address, self.key).send("GET", "/v1/models")["data"][0]["id"])

    def ask(self, model: str, question: str, user: str = "u", seed: int = 1) -> dict[str, Any]:
        messages = [{"role": "user", "content": question}]
        body = {"model": model, "messages": messages, "max_tokens": 6, "seed": seed, "user": user}
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = httpx.post(f"{self.address}/v1/chat/completions", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def correct(self, name: str, questions: Sequence[str], better: str = "Yes.", user: str = "u") -> list[int]:
        """Each question is asked, and its answer corrected; the items' numbers."""
        feedback = Feedback(Connection(self.address, self.key))
        answers = [self.ask(name, one, user) for one in questions]
        return [feedback.give(one["id"], correction=better)["number"] for one in answers]

    def say(self, answer: dict[str, Any], **said: Any) -> int:
        """Of an answer; the item's number."""
        return int(Feedback(Connection(self.address, self.key)).give(answer["id"], **said)["number"])


@pytest.fixture(scope="session")
def loop_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = make_tiny_model(tmp_path_factory.mktemp("loop-model"), "qwen3")
    with serving(model, tmp_path_factory.mktemp("loop-server")) as server:
        yield server.address
