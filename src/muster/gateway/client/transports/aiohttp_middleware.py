"""Client middlewares for aiohttp: routing of requests for the hub to a cluster, and the hub's credentials.

aiohttp itself is not imported; the caller's session provides it.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from muster.gateway.client.identity import HubIdentity
from muster.gateway.client.libraries import library
from muster.gateway.client.paths import Route

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientResponse

Handler = Callable[["ClientRequest"], Awaitable["ClientResponse"]]
Middleware = Callable[["ClientRequest", Handler], Awaitable["ClientResponse"]]


def gateway_middleware(route: Route) -> Middleware:
    """Use it as the last middleware: those before it see, and retry, the original address."""
    url = library("yarl").URL

    async def route_request(request: ClientRequest, handler: Handler) -> ClientResponse:
        routed = copy.copy(request)
        routed.url = url(route.url(str(request.url)), encoded=True)
        return await handler(routed)

    return route_request


def identity_middleware(identity: HubIdentity) -> Middleware:
    """Adds the hub's credentials, read again for each request."""

    async def identify(request: ClientRequest, handler: Handler) -> ClientResponse:
        known = copy.copy(request)
        known.headers = request.headers.copy()
        for name, value in await identity.headers():
            known.headers.add(name, value)
        known.server_hostname = identity.tls_server_name or request.server_hostname
        return await handler(known)

    return identify
