"""A request's place among its tenant's others, and what it has used: as for samples of the Tinker API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from motet.engine.types import SampleResult
from motet.service.http.openai.asking import Question
from motet.service.http.service import Service


@contextmanager
def admitted(service: Service, tenant: str, question: Question) -> Iterator[None]:
    """In the tenant's line for as long as the answer takes. Busy: the queue is full, come again."""
    body = question.body
    most = body.most_tokens or max(service.engine.info.context - len(question.prompt), 0)
    place = service.holdings.enter(tenant, len(question.prompt) + body.n * most, 0)
    place.begin()
    try:
        yield
    finally:
        place.leave()


def count(service: Service, tenant: str, question: Question, result: SampleResult) -> None:
    """Note what an answer has used."""
    hit = result.prompt_cache_hit_tokens
    service.usage.note(tenant, None, "prompted", len(question.prompt) - hit)
    service.usage.note(tenant, None, "prompted_cached", hit)
    service.usage.note(tenant, None, "sampled", sum(len(one.tokens) for one in result.sequences))
