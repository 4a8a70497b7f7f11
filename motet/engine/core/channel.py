"""The door between the two processes: frames over one socket, with its two ends.

A frame is a length (8 bytes, big-endian) and a pickle (protocol 5) of one of the messages below. The service's end is
`EngineClient`, for asyncio; the engine's end is `serve_engine`, which blocks a thread. Calls overlap freely; the engine
gets them in the order of `submit`. Errors travel as the name of a class of motet.errors and a message. Both ends belong
to one person on one machine: the socket is a pair made before the fork, and nobody else can reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import pickle
import queue
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from motet.engine.core.requests import Request
from motet.engine.types import BaseInfo, SamplePart
from motet.errors import (
    BadConfig,
    BadRequest,
    Busy,
    Cancelled,
    EngineAway,
    EngineFault,
    EngineGone,
    MotetError,
    NotFinite,
    NotFound,
    UserError,
)

OnPart = Callable[[SamplePart], None]
HEADER = struct.Struct("!Q")
KINDS = (NotFinite, BadRequest, NotFound, BadConfig, UserError, Busy, Cancelled, EngineFault, EngineGone)
ERRORS = {kind.__name__: kind for kind in KINDS}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """The engine is warm. The first message of its end, unless a Refusal of call 0 says why it is not."""

    info: BaseInfo


@dataclass(frozen=True)
class Call:
    """One request; ids begin at 1."""

    id: int
    request: Request
    streams: bool = False  # a Sample: its tokens come as Parts too


@dataclass(frozen=True)
class Part:
    """Some of what a call that streams will give; its Answer comes at the end."""

    id: int
    part: SamplePart


@dataclass(frozen=True)
class TakeBack:
    """Cancel a call. It is answered all the same: with Cancelled, or with its result if that was faster."""

    id: int


@dataclass(frozen=True)
class Answer:
    """What the call gives."""

    id: int
    result: Any


@dataclass(frozen=True)
class Refusal:
    """The call failed."""

    id: int
    kind: str  # a class of motet.errors
    message: str


class ServedEngine(Protocol):
    """What `serve_engine` needs of an engine."""

    info: BaseInfo

    @property
    def stopped(self) -> bool:
        """A fault has ended it: nothing will be answered any more."""
        ...

    def submit(self, request: Request, on_part: OnPart | None = None) -> Future[Any]: ...

    def cancel(self, future: Future[Any]) -> None: ...

    def close(self) -> None: ...


def refusal(call_id: int, error: BaseException) -> Refusal:
    """An error as it travels. What is not of motet.errors is a fault of ours, and is logged here."""
    if isinstance(error, FutureCancelled):
        return Refusal(call_id, Cancelled.__name__, "the request was cancelled")
    if isinstance(error, MotetError):
        kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in ERRORS)
        return Refusal(call_id, kind, str(error))
    log.error("an engine fault in call %d", call_id, exc_info=error)
    return Refusal(call_id, EngineFault.__name__, f"an internal fault of the engine: {type(error).__name__}: {error}")


def encode_frame(message: object) -> bytes:
    payload = pickle.dumps(message, protocol=5)
    return HEADER.pack(len(payload)) + payload


# -- the service's end -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenCall:
    """A call on its way, and the future that it resolves."""

    id: int
    answer: asyncio.Future[Any]
    on_part: OnPart | None = None


class EngineClient:
    """The asyncio end. Everything here belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, info: BaseInfo) -> None:
        self.info = info
        self.closed = asyncio.Event()  # the other end has gone; every open call has failed
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._open: dict[int, OpenCall] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, connection: socket.socket) -> EngineClient:
        """Wait until the engine is warm. Raises what kept it from it; EngineFault where the process died."""
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        with contextlib.ExitStack() as undo:
            undo.callback(writer.close)
            try:
                first = await _read_frame(reader)
            except EOFError:
                raise EngineFault("the engine's process ended before it was ready; its own output says why") from None
            if isinstance(first, Refusal):
                raise ERRORS[first.kind](first.message)
            assert isinstance(first, Opened)
            undo.pop_all()
        return cls(reader, writer, first.info)

    def submit(self, request: Request, on_part: OnPart | None = None) -> OpenCall:
        """Send a request at once: calls reach the engine in the order of `submit`. `on_part`: a Sample's tokens."""
        call = OpenCall(next(self._ids), asyncio.get_running_loop().create_future(), on_part)
        if self.closed.is_set():
            call.answer.set_exception(EngineAway("the engine is not running; it is being started again"))
            return call
        self._open[call.id] = call
        self._writer.write(encode_frame(Call(call.id, request, on_part is not None)))
        return call

    async def call(self, request: Request) -> Any:
        """Submit and wait. Cancelling the waiting task takes the call back."""
        call = self.submit(request)
        try:
            return await call.answer
        except asyncio.CancelledError:
            self.cancel(call.id)
            raise

    def cancel(self, call_id: int) -> None:
        """Take a call back; one that is done or unknown is left alone."""
        if call_id in self._open:
            self._writer.write(encode_frame(TakeBack(call_id)))

    async def close(self) -> None:
        """Hang up, whatever is still to be sent: the engine's end then closes the engine. Open calls fail."""
        self._writer.transport.abort()
        await self._reading

    async def _read(self) -> None:
        try:
            while True:
                self._deliver(await _read_frame(self._reader))
        except EOFError:
            self.closed.set()
            for call in self._open.values():
                if not call.answer.done():
                    call.answer.set_exception(EngineGone("the engine's process ended while this request was with it"))
            self._open.clear()

    def _deliver(self, message: Any) -> None:
        if isinstance(message, Part):
            call = self._open.get(message.id)  # None: its answer came first, as where one lane fails beside the other
            if call is not None and call.on_part is not None and not call.answer.done():
                call.on_part(message.part)
            return
        answer = self._open.pop(message.id).answer
        if answer.done():  # its caller has gone
            return
        if isinstance(message, Refusal):
            answer.set_exception(ERRORS[message.kind](message.message))
        else:
            answer.set_result(message.result)


async def _read_frame(reader: asyncio.StreamReader) -> Any:
    """The next message. EOFError at the end, a torn frame included."""
    try:
        (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error


# -- the engine's end ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Finished:
    """A call whose future has resolved."""

    call_id: int
    future: Future[Any]


Answers = queue.SimpleQueue[Opened | Part | Finished | None]  # None: there are no more


def serve_engine(engine: ServedEngine, connection: socket.socket) -> None:
    """Serve calls until the other end hangs up, or the engine stops; then close the engine. Blocks."""
    answers: Answers = queue.SimpleQueue()
    writer = threading.Thread(target=_write_answers, args=(engine, connection, answers), name="answers", daemon=True)
    writer.start()
    answers.put(Opened(engine.info))
    open_calls: dict[int, Future[Any]] = {}
    with connection, connection.makefile("rb") as stream:
        while (message := _read_message(stream)) is not None:
            if isinstance(message, Call):
                _begin(engine, message, open_calls, answers)
            elif (future := open_calls.get(message.id)) is not None:
                engine.cancel(future)
        engine.close()
        answers.put(None)
        writer.join()


def _begin(engine: ServedEngine, call: Call, open_calls: dict[int, Future[Any]], answers: Answers) -> None:
    def done(future: Future[Any]) -> None:
        open_calls.pop(call.id, None)
        answers.put(Finished(call.id, future))

    on_part = (lambda part: answers.put(Part(call.id, part))) if call.streams else None
    future = engine.submit(call.request, on_part)
    open_calls[call.id] = future
    future.add_done_callback(done)


def _write_answers(engine: ServedEngine, connection: socket.socket, answers: Answers) -> None:
    """Pickling and sending have a thread of their own: no lane of the engine waits for the other process."""
    while (item := answers.get()) is not None:
        message = _answer(item) if isinstance(item, Finished) else item
        try:
            connection.sendall(encode_frame(message))
        except OSError:  # the other end has gone; the reading side ends the engine
            return
        if engine.stopped and answers.empty():
            connection.shutdown(socket.SHUT_RDWR)  # hang up: whoever owns this process starts another
            return


def _answer(finished: Finished) -> Answer | Refusal:
    if finished.future.cancelled():
        return refusal(finished.call_id, FutureCancelled())
    error = finished.future.exception()
    if error is not None:
        return refusal(finished.call_id, error)
    return Answer(finished.call_id, finished.future.result())


def _read_message(stream: BinaryIO) -> Call | TakeBack | None:
    """The next message; None at the end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    payload = stream.read(length)
    if len(payload) < length:
        return None
    message: Call | TakeBack = pickle.loads(payload)
    return message
