"""Results and errors into futures whose caller may have gone; what nobody foresaw ends one request, not the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from motet.errors import EngineFault, MotetError

log = logging.getLogger(__name__)


def resolve(future: Future[Any], result: object) -> None:
    """Give a result to a future that its caller may have cancelled."""
    try:
        future.set_result(result)
    except InvalidStateError:
        assert future.done()


def fail(future: Future[Any], error: BaseException) -> None:
    """Give an error to a future that its caller may have cancelled."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        assert future.done()


def answer(future: Future[Any], work: Callable[[], object]) -> None:
    """What the work gives, or its error, see `told`.

    For work that touches what others share only once nothing of it can fail any more. Everything else (passes, steps,
    queues) is not guarded: a fault there ends the engine, since nobody could say what it left.
    """
    try:
        result = work()
    except Exception as error:
        fail(future, told(error))
    else:
        resolve(future, result)


def told(error: Exception) -> MotetError:
    """An error as its request hears of it. One that is not of motet.errors is a fault of ours, and is logged here."""
    if isinstance(error, MotetError):
        return error
    log.error("a request failed alone on a fault of ours", exc_info=error)
    return EngineFault(f"an internal fault of the engine: {type(error).__name__}: {error}")
