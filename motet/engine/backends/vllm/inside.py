"""vLLM in this process: its engine is stepped by our sampling lane. The one file that knows vLLM's Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from motet.engine.backends.vllm.drawing import Adapter, News, ToDraw, Told
from motet.engine.types import BaseInfo, TopLogprobs
from motet.errors import BadConfig, EngineFault

GIB = 1024**3
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM makes room for
STEP_TOKENS = 2048  # in one step, or one prompt where it is longer
SLOTS = 8  # adapters in one step; samples of more versions take turns
HOW_TO_INSTALL = 'sampler = "vllm" needs vLLM, which is not installed here: see "Sampling by vLLM" in docs/operation.md'


@dataclass(frozen=True)
class VllmSizes:
    """What vLLM may take: bytes of keys and values, samples at work, adapters in host memory, their rank."""

    cache_bytes: int
    sequences: int
    adapters: int
    max_rank: int
    eager: bool  # no CUDA graphs, which a CPU has not


class InsideDrawer:
    """See `drawing.Drawer`. Loads the base model a second time: vLLM has layouts of its own. BadConfig."""

    def __init__(self, info: BaseInfo, sizes: VllmSizes) -> None:
        _prepare(sizes.cache_bytes)
        self._vocabulary = info.vocabulary
        try:
            from vllm import EngineArgs, LLMEngine
        except ImportError as error:
            raise BadConfig(f"{HOW_TO_INSTALL} ({error})") from error
        rank = next((rank for rank in RANKS if rank >= sizes.max_rank), None)
        if rank is None:
            raise BadConfig(f"max_rank is {sizes.max_rank} and vLLM takes up to {RANKS[-1]}: choose less")
        arguments = EngineArgs(
            model=info.folder,
            dtype=info.dtype,
            skip_tokenizer_init=True,
            max_model_len=info.context,
            max_num_seqs=sizes.sequences,
            kv_cache_memory_bytes=sizes.cache_bytes,
            enable_prefix_caching=True,
            enable_lora=True,
            max_loras=SLOTS,
            max_cpu_loras=sizes.adapters,
            max_lora_rank=rank,
            enforce_eager=sizes.eager,
            # vLLM dies on a CPU of a cut prompt whose sample is seeded: it turns back a generator that cannot be.
            enable_chunked_prefill=not sizes.eager,
            max_num_batched_tokens=max(info.context, STEP_TOKENS),
            logprobs_mode="processed_logprobs",  # tempered, as ours
            max_logprobs=-1,
            async_scheduling=False,
        )
        set_num_threads = torch.set_num_threads
        try:
            self._engine: Any = LLMEngine.from_engine_args(arguments)
        except (ValueError, RuntimeError) as error:
            raise BadConfig(f"vLLM does not open {info.name}: {error}") from error
        finally:  # vLLM leaves in its place what does nothing, and our lanes would no longer have their own cores
            torch.set_num_threads = set_num_threads

    def load(self, adapter: Adapter) -> None:
        try:
            self._engine.add_lora(_lora_request(adapter))
        except (ValueError, RuntimeError, KeyError) as error:
            raise EngineFault(f"vLLM does not take the version {adapter.name}: {error}") from error

    def unload(self, adapter: Adapter) -> None:
        self._engine.remove_lora(adapter.number)

    def begin(self, sample: ToDraw) -> None:
        lora = None if sample.adapter is None else _lora_request(sample.adapter)
        self._engine.add_request(
            sample.key, {"prompt_token_ids": sample.prompt}, self._params(sample), lora_request=lora
        )

    def abort(self, keys: list[str]) -> None:
        self._engine.abort_request(keys)

    def step(self) -> list[News]:
        """Steps until there is something to tell: a long prompt takes several that tell nothing."""
        while self._engine.has_unfinished_requests():
            if outputs := self._engine.step():
                return [_news(output) for output in outputs]
        return []

    def sizes(self) -> dict[str, float]:
        """Counters of vLLM's prefix cache: tokens looked up, and found."""
        totals = {metric.name: metric.value for metric in self._engine.get_metrics() if "prefix_cache" in metric.name}
        return {
            "vllm_prefix_queries": totals.get("vllm:prefix_cache_queries", 0),
            "vllm_prefix_hits": totals.get("vllm:prefix_cache_hits", 0),
        }

    def close(self) -> None:
        self._engine.engine_core.shutdown()

    def _params(self, sample: ToDraw) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        told = sample.prompt_likeliest
        return SamplingParams(
            temperature=sample.temperature,
            top_k=sample.top_k,
            top_p=sample.top_p,
            seed=sample.seed,
            max_tokens=sample.max_tokens,
            stop_token_ids=list(sample.stop_tokens),
            ignore_eos=True,  # ours are among the stop tokens, where they are wanted
            logprobs=min(sample.likeliest, self._vocabulary),
            prompt_logprobs=None if told is None else min(told, self._vocabulary),
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )


def _prepare(cache_bytes: int) -> None:
    """What vLLM takes from the environment. Its engine lives in this process, and its threads on our cores."""
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(-(-cache_bytes // GIB))
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


def _lora_request(adapter: Adapter) -> Any:
    from vllm.lora.request import LoRARequest

    return LoRARequest(adapter.name, adapter.number, str(adapter.folder))


def _news(output: Any) -> News:
    """From a vLLM RequestOutput of one sample."""
    sample = output.outputs[0]
    places = [place for place in output.prompt_logprobs or [] if place is not None]
    return News(
        key=output.request_id,
        tokens=[_told(t, at) for t, at in zip(sample.token_ids, sample.logprobs or [], strict=True)],
        prompt=[_told(t, at) for t, at in zip(output.prompt_token_ids[1:], places, strict=False)],
        cached_tokens=output.num_cached_tokens or 0,
        ended=output.finished,
    )


def _told(token: int, at: Mapping[int, Any]) -> Told:
    """vLLM gives the k likeliest and the token itself, which may be one of them: k + 1 of them, likeliest first."""
    ranked = sorted(at, key=lambda one: at[one].rank or 0)
    top = TopLogprobs(np.array([ranked], np.int32), np.array([[at[one].logprob for one in ranked]], np.float32))
    return Told(token, at[token].logprob, top)
