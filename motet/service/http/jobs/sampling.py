"""Draw samples."""

from __future__ import annotations

from motet.engine.types import SampleResult
from motet.errors import NotFound
from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.futures import PROTOBUF, Reply
from motet.service.http.registry import Sampler
from motet.service.http.service import Service
from motet.service.wire import sampling as wire
from motet.service.wire import schemas


async def asample(service: Service, accepted: Accepted) -> Outcome:
    """Sample from what the sampler stands for when the work begins."""
    sampler, body = accepted.owner, accepted.message
    assert isinstance(sampler, Sampler) and isinstance(body, schemas.Sample)
    name = sampler.current_version
    if name is not None:
        version = service.registry.versions.get(name)
        if version is None:
            raise NotFound(f"the version {name} has been let go: publish again")
        await service.present(version)
    result = await service.engine.call(wire.read_sample(body, name, sampler.tenant))
    reply = Reply(wire.encode_sample_result(result, body.target_prompt_logprobs), PROTOBUF)
    return Outcome(reply, then=lambda: _count(service, sampler, body, result))


def _count(service: Service, sampler: Sampler, body: schemas.Sample, result: SampleResult) -> None:
    session, hit = sampler.id.partition(":sample:")[0], result.prompt_cache_hit_tokens
    prompt = sum(len(chunk.tokens) for chunk in body.prompt.chunks)
    service.usage.note(sampler.tenant, session, "prompted", prompt - hit)
    service.usage.note(sampler.tenant, session, "prompted_cached", hit)
    service.usage.note(sampler.tenant, session, "sampled", sum(len(one.tokens) for one in result.sequences))


KINDS = (Kind("asample", schemas.Sample.model_validate_json, asample, wire.count_tokens),)
(ASAMPLE,) = KINDS
