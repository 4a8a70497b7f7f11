"""Sessions whose client has gone quiet: they rest, out of the engine, and stand up when they are asked for again.

Nothing is lost by resting: the journal has everything. A session that rests for very long is finished.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from motet.engine.core.requests import DropRun, DropVersion
from motet.errors import EngineFault
from motet.service.http.registry import Session, now
from motet.service.http.service import Service

log = logging.getLogger(__name__)


async def watch_sessions(service: Service) -> None:
    """Look for quiet sessions, for as long as the server stands."""
    rest = timedelta(seconds=service.settings.rest_seconds)
    forget = timedelta(days=service.settings.forget_days)
    while True:
        await asyncio.sleep(service.settings.rest_seconds / 10)
        working = {request_id.partition(":")[0] for request_id in service.desk.open}
        for session in list(service.registry.sessions.values()):
            quiet = now() - session.seen
            if session.finished or session.id in working or quiet < rest:
                continue
            if quiet < forget:
                lay_down(service, session)
                continue
            try:
                await service.finish(session)
            except EngineFault as error:
                log.warning("the session %s could not be finished: %s", session.id, error)


def lay_down(service: Service, session: Session) -> None:
    """Take a session's runs and versions out of the engine's memory."""
    for run in (service.registry.runs[run_id] for run_id in session.runs):
        if run.resting or run.lost is not None:
            continue
        run.resting, run.generation = True, 0
        service.let_go(DropRun(run.id))
        for version in run.versions:
            if version.generation == service.engine.generation:
                version.generation = 0
                service.let_go(DropVersion(version.result.version))
