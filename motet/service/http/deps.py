"""What routes ask for: the service, and who is asking."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Header, Request

from motet.service.http.service import Service


def get_service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


Svc = Annotated[Service, Depends(get_service)]


def get_tenant(service: Svc, x_api_key: Annotated[str | None, Header()] = None) -> str:
    """The tenant of the request's key. Unauthorized: 401."""
    return service.keys.tenant(x_api_key)


Tenant = Annotated[str, Depends(get_tenant)]
