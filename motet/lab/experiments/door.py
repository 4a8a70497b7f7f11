"""The way to a server: its address, its model, and a session for each experiment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import httpx
import tinker

from motet.errors import BadConfig
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.server import is_gone

CLOSE_SECONDS = 10.0
ASK_SECONDS = 30.0


@dataclass(frozen=True)
class Door:
    """Where the server is and which base model it serves."""

    base_url: str
    api_key: str
    model: str

    @asynccontextmanager
    async def session(self, name: str) -> AsyncIterator[tinker.ServiceClient]:
        """A session of its own; closing it lets the server free what the experiment held."""
        service = tinker.ServiceClient(base_url=self.base_url, api_key=self.api_key, display_name=name)
        status: Literal["success", "errored", "interrupted"] = "errored"
        try:
            yield service
            status = "success"
        except asyncio.CancelledError:
            status = "interrupted"
            raise
        finally:
            if not await is_gone(self.base_url):  # the SDK would go on trying to tell it
                closing = asyncio.ensure_future(service.close(status).coroutine())
                await asyncio.wait([closing], timeout=CLOSE_SECONDS)

    async def clear_up(self, session: str, keep: str) -> None:
        """Free what a client that was killed has left: its session, and its checkpoints but the one to keep."""
        rest = await self._rest()
        with suppress(tinker.NotFoundError):
            for run in (await rest.get_session(session)).training_run_ids:
                for checkpoint in (await rest.list_checkpoints(run)).checkpoints:
                    if checkpoint.tinker_path != keep:
                        await self.forget_checkpoint(checkpoint.tinker_path)
        async with httpx.AsyncClient(headers={"X-API-Key": self.api_key}, timeout=ASK_SECONDS) as client:
            address = f"{self.base_url.rstrip('/')}/api/v1/sessions/{session}/finish"
            with suppress(httpx.HTTPError):  # then it is finished when it was silent for long enough
                await client.post(address, json={"reason": {"type": "interrupted"}, "detail": "its client was killed"})

    async def forget_checkpoint(self, path: str) -> None:
        """Let a checkpoint go; one that is not there any more is let go already."""
        rest = await self._rest()
        with suppress(tinker.NotFoundError):
            await rest.delete_checkpoint_from_tinker_path(path)

    async def context(self) -> int | None:
        """How many tokens the base model reads at most; None: the server does not say."""
        answer = await (await self._rest()).get_server_capabilities()
        return next((one.max_context_length for one in answer.supported_models if one.model_name == self.model), None)

    async def sampler(self) -> str | None:
        """What draws there: "local" is also what trains; None: the server does not say."""
        async with httpx.AsyncClient(headers={"X-API-Key": self.api_key}, timeout=ASK_SECONDS) as client:
            answer = await client.get(f"{self.base_url.rstrip('/')}/api/v1/get_server_capabilities")
        told: str | None = answer.json().get("motet.sampler") if answer.is_success else None
        return told

    async def _rest(self) -> tinker.RestClient:
        """The SDK shares its connections; the first one blocks for a moment."""
        return await asyncio.to_thread(tinker.RestClient, base_url=self.base_url, api_key=self.api_key)


async def resume_run(service: tinker.ServiceClient, path: str) -> tinker.TrainingClient:
    """The run of a checkpoint, optimizer and all."""
    resuming = await asyncio.to_thread(service.create_training_client_from_state_with_optimizer, path)
    training: tinker.TrainingClient = await resuming
    return training


async def create_run(service: tinker.ServiceClient, model: str, experiment: Experiment) -> tinker.TrainingClient:
    """A fresh adapter of the experiment's shape."""
    creating = await asyncio.to_thread(  # the first call opens the session, and blocks
        service.create_lora_training_client,
        model,
        rank=experiment.rank,
        seed=experiment.seed,
        train_mlp=experiment.mlp,
        train_attn=experiment.attention,
        train_unembed=experiment.unembed,
        user_metadata={"motet.alpha": str(experiment.alpha), "motet.name": experiment.name},
    )
    training: tinker.TrainingClient = await creating
    return training


def choose_model(base_url: str, api_key: str, wanted: str | None) -> str:
    """The model to ask for: `wanted` if the server has it; for None its first. Raises BadConfig."""
    try:
        rest = tinker.RestClient(base_url=base_url, api_key=api_key)
        answer = rest.get_server_capabilities().result(timeout=ASK_SECONDS)
    except (tinker.TinkerError, TimeoutError) as error:
        raise BadConfig(f"the server at {base_url} does not let us in ({error}): look at TINKER_API_KEY") from None
    served = [one.model_name for one in answer.supported_models if one.model_name]
    if not served or wanted not in (None, *served):
        raise BadConfig(f"{wanted or 'a model'} is not served at {base_url}; there: {', '.join(served) or 'nothing'}")
    return wanted or served[0]
