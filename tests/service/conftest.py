"""One real server for all tests that drive it with the SDK, and two people who do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import tinker

from tests.service.running import serving
from tests.tiny import make_tiny_model


@dataclass(frozen=True)
class Person:
    """A tenant with the SDK's clients."""

    key: str
    address: str
    service: tinker.ServiceClient
    rest: tinker.RestClient
    model: str

    def train(self, rank: int = 4, **more: object) -> tinker.TrainingClient:
        return self.service.create_lora_training_client(self.model, rank=rank, seed=1, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def sdk_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("sdk-model"), "qwen3")


@pytest.fixture(scope="session")
def sdk_address(sdk_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(sdk_model, tmp_path_factory.mktemp("sdk-server")) as server:
        yield server.address


def person(address: str, key: str, **about: object) -> Person:
    service = tinker.ServiceClient(base_url=address, api_key=key, **about)  # type: ignore[arg-type]
    rest = tinker.RestClient(base_url=address, api_key=key)
    model = service.get_server_capabilities().supported_models[0].model_name
    assert model is not None
    return Person(key, address, service, rest, model)


@pytest.fixture(scope="session")
def ann(sdk_address: str) -> Iterator[Person]:
    one = person(sdk_address, "tml-ann", user_metadata={"team": "blue"}, project_id="alto")
    yield one
    one.service.close("success").result()


@pytest.fixture(scope="session")
def bob(sdk_address: str) -> Iterator[Person]:
    one = person(sdk_address, "tml-bob")
    yield one
    one.service.close("success").result()
