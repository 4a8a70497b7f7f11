"""Serving: the socket, the supervisor, the application, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import uvicorn
from prometheus_client import disable_created_metrics

from motet.errors import BadConfig
from motet.service.catalog.catalog import Catalog
from motet.service.catalog.changes import StorageFault
from motet.service.catalog.keys import KeyStore
from motet.service.http.app import create_app
from motet.service.http.auth import LOOPBACK, KeyRing
from motet.service.http.draining import Drain
from motet.service.http.metered import MeteredSupervisor
from motet.service.http.metrics import Meters
from motet.service.http.operation import Operation
from motet.service.http.pinned import pin_dtype
from motet.service.http.reloading import reload
from motet.service.http.resting import watch_sessions
from motet.service.http.service import Service
from motet.service.http.settings import ServiceSettings
from motet.service.http.supervisor import Entry, Launched, Supervisor

ANSWER_SECONDS = 5  # for answers on their way once all work is done
log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """Says when it takes requests. When it stops, it finishes what is in hand, lets polls go and closes the engine.

    All of that within uvicorn's own stop: once `serve` is over, uvicorn raises the signal again, which may end us.
    """

    def __init__(
        self, config: uvicorn.Config, service: Service, supervisor: Supervisor, drain: Drain, say: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._supervisor = supervisor
        self._drain = drain
        self._say = say
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._drain.hurry)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        self._say(f"ready {scheme}://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping: no new work is taken", extra={"fields": {"in_hand": self._drain.in_hand}})
        if left := await self._drain.run(self._service.settings.drain_seconds):
            log.warning("stopping with work undone", extra={"fields": {"in_hand": left}})
        self._service.promises.close()
        self._service.completions.close()
        await super().shutdown(sockets)
        await self._supervisor.stop()
        await self._service.records.recorder.flush()
        with contextlib.suppress(StorageFault):
            await self._service.usage.save(self._service.journal.write)


async def serve(settings: ServiceSettings, entry: Entry, first: Launched, say: Callable[[str], None]) -> None:
    """Serve until a signal. `entry` is what an engine's process runs, `first` is one that warms up already, `say`
    prints the one line for others to read.

    Raises BadConfig where the address or the certificate cannot be had, and whatever keeps the engine from opening.
    """
    disable_created_metrics()  # a counter is one series, not two
    meters = Meters()
    supervisor = MeteredSupervisor(entry, meters, first)
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(supervisor.stop)
        _check_certificate(settings)
        catalog = Catalog(settings.data_dir, settings.database)
        undo.callback(catalog.close)
        store = KeyStore(settings.data_dir, settings.database)
        undo.callback(store.close)
        keys = KeyRing(settings.api_keys, store)
        listener = _bind(settings, keys)
        undo.callback(listener.close)
        await supervisor.start()
        pin_dtype(settings.data_dir, supervisor.info.dtype)
        service = Service(supervisor, settings, catalog, keys)
        reload(service)
        service.engine_opened()
        supervisor.on_open = service.engine_opened
        service.warm_words()
        service.errand(watch_sessions(service))
        service.errand(service.keep_accounts())
        service.errand(service.records.recorder.work())
        service.errand(service.records.keep_tidy())
        watched = Operation.of(service, meters, supervisor.memory_bytes)
        config = uvicorn.Config(
            create_app(service, watched),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=ANSWER_SECONDS,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        await _Server(config, service, supervisor, watched.drain, say).serve([listener])


def _check_certificate(settings: ServiceSettings) -> None:
    """BadConfig where the TLS files are not there or do not fit each other."""
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except OSError as error:  # SSLError is one
        raise BadConfig(
            f"{settings.tls_cert} and {settings.tls_key} cannot be used ({error}): "
            "give a certificate chain and its unlocked key, both in PEM"
        ) from None


def _bind(settings: ServiceSettings, keys: KeyRing) -> socket.socket:
    """The listening address, held from now on. Where every key is let in it is on this machine only."""
    if keys.open and settings.host not in LOOPBACK:
        raise BadConfig(
            f"without keys the server listens on 127.0.0.1 only, not on {settings.host}: "
            "make one with `motet keys create`, or give an --api-key"
        )
    if keys.open:
        log.warning("open on this machine only: without keys, every key is a tenant of its own")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on connections: without it an answer waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise BadConfig(f"cannot listen on {settings.host}:{settings.port} ({error}): choose another --port") from None
    return listener
