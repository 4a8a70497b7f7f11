"""Results and errors into futures whose caller may have gone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from motet.errors import MotetError


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
    """What the work gives, or the error of motet.errors that it raises; any other is a fault and goes on."""
    try:
        resolve(future, work())
    except MotetError as error:
        fail(future, error)
