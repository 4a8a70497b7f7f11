"""Requests whose gradients await the next step, and what becomes of their rows once it is taken."""

from __future__ import annotations

from motet.service.catalog.changes import Remove, Set, Statement
from motet.service.http.journal import body_file
from motet.service.http.registry import Run
from motet.service.http.service import Service


def clear_gradient(service: Service, run: Run) -> tuple[Statement, ...]:
    """The accumulating requests are needed for their results only."""
    read = [one for one in run.accumulating if service.promises.find(run.tenant, one) is not None]
    gone = [one for one in run.accumulating if one not in read]
    return (
        Set("requests", {"id": read}, {"accumulates": None, "body": None}),
        Remove("requests", {"id": gone}),
    )


def bodies(run: Run) -> tuple[str, ...]:
    """Their files."""
    return tuple(body_file(one) for one in run.accumulating)
