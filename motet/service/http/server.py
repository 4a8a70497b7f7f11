"""Serving: the socket, the supervisor, the application, and an orderly end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from motet.errors import BadConfig
from motet.service.http.app import create_app
from motet.service.http.auth import LOOPBACK
from motet.service.http.service import Service
from motet.service.http.settings import ServiceSettings
from motet.service.http.supervisor import Supervisor

DRAIN_SECONDS = 5  # for answers on their way once the server is asked to stop


class _Server(uvicorn.Server):
    """Says when it takes requests; when it stops, it lets waiting polls go and closes the engine.

    All of that within uvicorn's own stop: once `serve` is over, uvicorn raises the signal again, which may end us.
    """

    def __init__(
        self, config: uvicorn.Config, service: Service, supervisor: Supervisor, say: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._supervisor = supervisor
        self._say = say

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        self._say(f"ready http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.promises.close()
        await super().shutdown(sockets)
        await self._supervisor.stop()


async def serve(settings: ServiceSettings, entry: Callable[[socket.socket], None], say: Callable[[str], None]) -> None:
    """Serve until a signal. `entry` is what the engine's process runs, `say` prints the one line for others to read.

    Raises BadConfig where the address cannot be had, and whatever keeps the engine from opening.
    """
    listener = _bind(settings)
    supervisor = Supervisor(entry)
    try:
        await supervisor.start()
        service = Service(supervisor, settings)
        config = uvicorn.Config(
            create_app(service),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        await _Server(config, service, supervisor, say).serve([listener])
    finally:
        listener.close()
        await supervisor.stop()


def _bind(settings: ServiceSettings) -> socket.socket:
    """The listening address, held from now on."""
    if not settings.api_keys and settings.host not in LOOPBACK:
        raise BadConfig(f"without an --api-key the server listens on 127.0.0.1 only, not on {settings.host}: give one")
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
