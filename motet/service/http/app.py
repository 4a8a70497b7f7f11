"""The HTTP application: routes, errors and bounds put together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from motet.errors import Busy, EngineFault, MotetError, NotFound, UserError
from motet.service.http.auth import Unauthorized
from motet.service.http.deps import get_operation, get_service
from motet.service.http.draining import DrainLayer
from motet.service.http.gate import Gate
from motet.service.http.limits import BodyLimit, UnfitValue
from motet.service.http.logs import HEADER, RequestLog, current_id
from motet.service.http.operation import Operation
from motet.service.http.routes import (
    absent,
    billing,
    catalog,
    differences,
    downloads,
    feedback,
    files,
    futures,
    metrics,
    names,
    openai,
    operation,
    own,
    records,
    said,
    sampling,
    sessions,
    sharing,
    training,
    trainings,
    weights,
)
from motet.service.http.service import Service

STATUS: dict[type[MotetError], int] = {
    Unauthorized: 401,
    NotFound: 404,
    Busy: 429,
    EngineFault: 503,
    MotetError: 400,
}

ROOMS = {
    "/api/v1": (sessions, training, weights, sampling, futures, catalog, sharing, downloads, billing, absent),
    "/motet/v1": (own, operation, files, names, differences, records, said, trainings),
    "/v1": (openai, feedback),
    "": (metrics,),
}


def create_app(service: Service, watched: Operation) -> FastAPI:
    """The application around a service."""
    app = FastAPI(title="Motet", openapi_url="/motet/v1/openapi.json", docs_url=None, redoc_url=None)
    app.state.service = service
    app.state.operation = watched
    declared: dict[Callable[..., Any], str] = {}
    for prefix, rooms in ROOMS.items():
        for room in rooms:
            app.include_router(room.router, prefix=prefix)
            routes = (one for one in room.router.routes if isinstance(one, APIRoute))
            declared |= {one.endpoint: prefix + one.path_format for one in routes}
    app.add_middleware(BodyLimit, limit=service.settings.max_body_bytes)
    app.add_middleware(Gate, service=service, answer=_answer_error)
    app.add_middleware(DrainLayer, drain=watched.drain)
    app.add_middleware(RequestLog, routes=declared, observe=watched.meters.served)
    app.add_exception_handler(MotetError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(UnfitValue, _answer_unfit)
    app.add_exception_handler(HTTPException, _answer_refusal)
    app.add_exception_handler(Exception, _answer_fault)
    return app


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status in (429, 503) else None
    get_operation(request).meters.refused(error)
    return _told(request, str(error), status, headers)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """A body of the wrong form: which field, and what is wrong with it."""
    assert isinstance(error, RequestValidationError)
    get_operation(request).meters.refused(error)
    await _use_number(request, error.body)
    wrong = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:5])
    return _told(request, f"the request does not fit this route: {wrong}", 400 if _openai(request) else 422)


async def _answer_unfit(request: Request, error: Exception) -> JSONResponse:
    """A body with a value that nothing here can take."""
    assert isinstance(error, UnfitValue)
    get_operation(request).meters.refused(error)
    await _use_number(request, error.content)
    return _told(request, error.detail, error.status_code)


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    """No such route, no such method, a body that is too large: what carries its own status."""
    assert isinstance(error, HTTPException)
    get_operation(request).meters.refused(error)
    return _told(request, str(error.detail), error.status_code, dict(error.headers or {}))


def _openai(request: Request) -> bool:
    return request.url.path.startswith("/v1/")


def _told(request: Request, message: str, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error in the form that the route's clients know."""
    if _openai(request):
        kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
        return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status, headers)
    return JSONResponse({"error": message, "category": "user" if status < 429 else "server"}, status, headers)


async def _use_number(request: Request, body: object) -> None:
    """A training request that is refused has used its number all the same."""
    match body:
        case {"model_id": str(run_id), "seq_id": int(seq_id)}:
            service = get_service(request)
            with contextlib.suppress(UserError):  # no such run or number: then there is nothing to use up
                await service.use_number(request.state.tenant, run_id, seq_id)


async def _answer_fault(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours: its trace is in the log, under the same id."""
    get_operation(request).meters.refused(error)
    return _told(request, f"an internal fault: {type(error).__name__}", 500, {HEADER: current_id.get() or ""})
