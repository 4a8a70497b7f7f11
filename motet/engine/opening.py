"""Put an engine together: base model, cache, store, sampler, trainer, lanes. Knows every room, and no request."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from motet.engine.adapters.spill import own_folder
from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.base import Backend
from motet.engine.backends.groups import GroupSampler, GroupSampling
from motet.engine.backends.local.training import LocalTraining
from motet.engine.backends.local.versions import StoredVersions
from motet.engine.backends.vllm.adapters import KEPT, Adapters
from motet.engine.backends.vllm.inside import InsideDrawer, VllmSizes
from motet.engine.backends.vllm.sampler import MOST_LIVE, VllmSampler
from motet.engine.core.engine import Engine
from motet.engine.core.floor import Floor
from motet.engine.core.queues import Queues
from motet.engine.models.base import BaseModel, open_base_model
from motet.engine.models.config import ModelConfig
from motet.engine.models.fingerprint import fingerprint
from motet.engine.sampler.blocks import BLOCK, BlockTable
from motet.engine.sampler.sampler import Sampler
from motet.engine.sampler.scheduler import Scheduler
from motet.engine.sampler.stops import StopFinder
from motet.engine.settings import EngineSettings
from motet.engine.trainer.trainer import Trainer
from motet.engine.turns.ledger import Ledger
from motet.engine.turns.policies import POLICIES
from motet.engine.types import BaseInfo, Lane
from motet.errors import BadConfig


def lane_cores(threads: int, lanes: Literal["shared", "split"]) -> dict[str, list[int]]:
    """The cores of each lane. The settings were found to be good for this machine."""
    cores = sorted(os.sched_getaffinity(0))
    cores = cores[: threads or len(cores)]
    if lanes == "shared":
        return {"sampling": cores, "training": cores}
    half = len(cores) // 2
    return {"sampling": cores[:half], "training": cores[half:]}


def take_cores(cores: list[int]) -> None:
    """The calling thread, and torch's work in it, stays on these cores."""
    torch.set_num_threads(len(cores))
    os.sched_setaffinity(0, cores)


def cache_blocks(config: ModelConfig, cache_bytes: int, item_bytes: int) -> int:
    """How many blocks of keys and values fit into the cache. BadConfig where they are too few to work with."""
    block_bytes = 2 * config.layers * config.kv_heads * config.head_width * BLOCK * item_bytes
    blocks = cache_bytes // block_bytes
    if blocks < 4:
        raise BadConfig(f"kv_cache_bytes is {cache_bytes}: a block of {BLOCK} tokens takes {block_bytes}, choose more")
    return blocks


def open_backend(settings: EngineSettings, ledger: Ledger, breathe: Callable[[Lane], None]) -> Backend:
    """Load the base model and make everything around it. NotFound, BadConfig, EngineFault."""
    base = open_base_model(settings.model, settings.dtype, settings.device)
    decoder, config = base.decoder, base.decoder.config
    spill = own_folder(settings.data_dir / "spill")
    store = AdapterStore(config, decoder.dtype, decoder.device, spill, settings.host_bytes, settings.max_rank)
    info = BaseInfo(
        name=settings.model,
        folder=str(base.folder),
        vocabulary=config.vocabulary,
        context=config.context,
        dtype=str(decoder.dtype).removeprefix("torch."),
        parameters=decoder.parameters(),
        end_tokens=config.end_tokens,
        max_rank=settings.max_rank,
        base_hash=base.hash,
        fingerprint=fingerprint(base.hash, decoder.dtype, decoder.device),
        sampler=settings.sampler,
    )
    sampler: GroupSampler
    if settings.sampler == "vllm":
        sampler = _vllm_sampler(settings, base, info, store, ledger)
    else:
        sampler = _local_sampler(settings, base, store, ledger, partial(breathe, "sampling"))
    return Backend(
        info,
        LocalTraining(info, store, Trainer(decoder, partial(breathe, "training")), settings.pass_rows),
        GroupSampling(info, store, sampler),
        StoredVersions(store, info.name, decoder.dtype),
        store.residency.attach,
        lambda lane: take_cores(lane_cores(settings.threads, settings.lanes)[lane]),
    )


def _local_sampler(
    settings: EngineSettings, base: BaseModel, store: AdapterStore, ledger: Ledger, breathe: Callable[[], None]
) -> Sampler:
    """Our own, over the very weights that are trained on."""
    decoder, stops = base.decoder, StopFinder(base.token_bytes)
    blocks = cache_blocks(decoder.config, settings.kv_cache_bytes, decoder.embed.element_size())
    mixed = "sampling" not in settings.apart
    scheduler = Scheduler(BlockTable(blocks), store, ledger, settings.prompt_rows, settings.max_waiting, mixed)
    return Sampler(decoder, stops, scheduler, blocks, breathe)


def _vllm_sampler(
    settings: EngineSettings, base: BaseModel, info: BaseInfo, store: AdapterStore, ledger: Ledger
) -> VllmSampler:
    """vLLM's, over weights of its own. BadConfig where it is not installed, or does not take the base model."""
    sizes = VllmSizes(settings.kv_cache_bytes, MOST_LIVE, KEPT, settings.max_rank, eager=settings.device == "cpu")
    drawer = InsideDrawer(info, sizes)
    adapters = Adapters(store, drawer, info.name, settings.data_dir / "adapters")
    return VllmSampler(drawer, adapters, StopFinder(base.token_bytes), store, ledger, settings.max_waiting)


def open_engine(settings: EngineSettings) -> Engine:
    """A warm engine with a local backend. NotFound, BadConfig, EngineFault where it cannot be."""
    ledger = Ledger(POLICIES[settings.policy](), settings.longest_turn_wait, serving_part=settings.serving_part)
    floor = Floor(settings.lanes == "shared", ledger.budget, ledger.policy.patient, ledger.serving_first)
    breathe: Callable[[Lane], None] = (lambda lane: None) if "cores" in settings.apart else floor.breathe
    backend = open_backend(settings, ledger, breathe)
    queues = Queues(settings.pass_rows, backend.training.run_ready, ledger, mixed="training" not in settings.apart)
    return Engine(backend, floor, queues, ledger)
