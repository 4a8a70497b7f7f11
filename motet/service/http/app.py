"""The HTTP application: routes, errors and bounds put together."""

from __future__ import annotations

import contextlib

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from motet.errors import Busy, EngineFault, MotetError, NotFound, UserError
from motet.service.http.auth import Unauthorized
from motet.service.http.deps import get_service
from motet.service.http.limits import BodyLimit
from motet.service.http.routes import catalog, futures, own, sampling, sessions, training, weights
from motet.service.http.service import Service

STATUS: dict[type[MotetError], int] = {
    Unauthorized: 401,
    NotFound: 404,
    Busy: 429,
    EngineFault: 503,
    MotetError: 400,
}


def create_app(service: Service) -> FastAPI:
    """The application around a service."""
    app = FastAPI(title="Motet", openapi_url="/motet/v1/openapi.json", docs_url=None, redoc_url=None)
    app.state.service = service
    for room in (sessions, training, weights, sampling, futures, catalog):
        app.include_router(room.router, prefix="/api/v1")
    app.include_router(own.router, prefix="/motet/v1")
    app.add_middleware(BodyLimit, limit=service.settings.max_body_bytes)
    app.add_exception_handler(MotetError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    return app


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status in (429, 503) else None
    category = "user" if status < 429 else "server"
    return JSONResponse({"error": str(error), "category": category}, status, headers)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """A body of the wrong form: which field, and what is wrong with it."""
    assert isinstance(error, RequestValidationError)
    match error.body:
        case {"model_id": str(run_id), "seq_id": int(seq_id)}:
            service = get_service(request)
            with contextlib.suppress(UserError):  # no such key, run or number: then there is nothing to use up
                service.use_number(service.keys.tenant(request.headers.get("x-api-key")), run_id, seq_id)
    wrong = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:5])
    return JSONResponse({"error": f"the request does not fit this route: {wrong}", "category": "user"}, 422)
