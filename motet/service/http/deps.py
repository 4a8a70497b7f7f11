"""What routes ask for: the service, who is asking, and what the operator looks at."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from motet.service.http.operation import Operation
from motet.service.http.service import Service


def get_service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


Svc = Annotated[Service, Depends(get_service)]


def get_operation(request: Request) -> Operation:
    return cast(Operation, request.app.state.operation)


Watched = Annotated[Operation, Depends(get_operation)]


def get_tenant(request: Request) -> str:
    """The tenant of the request's key, as the gate has found it."""
    return cast(str, request.state.tenant)


Tenant = Annotated[str, Depends(get_tenant)]
