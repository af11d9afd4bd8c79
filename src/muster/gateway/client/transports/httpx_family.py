"""Transports and authentication for httpx and httpx2, which have the same classes.

`family` defines them for whichever of the two modules it is given.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from functools import cache
from typing import Any

from muster.gateway.client.identity import HubIdentity
from muster.gateway.client.paths import Route


@dataclass(frozen=True)
class Family:
    """Classes for one of the libraries: `transport(route, inner)`, `async_transport(route, inner)` and `auth(identity)`."""

    transport: Callable[..., Any]
    async_transport: Callable[..., Any]
    auth: Callable[..., Any]


@cache
def family(module: Any) -> Family:
    def routed(route: Route, request: Any) -> Any:
        url = request.url.copy_with(raw_path=route.target(str(request.url)).encode("ascii"))
        return module.Request(
            request.method, url, headers=request.headers.raw, stream=request.stream, extensions=dict(request.extensions)
        )

    class GatewayTransport(module.BaseTransport):  # type: ignore[misc]
        """Sends requests for the hub along a `Route`."""

        def __init__(self, route: Route, inner: Any = None) -> None:
            self._route = route
            self._inner = module.HTTPTransport() if inner is None else inner

        def handle_request(self, request: Any) -> Any:
            return self._inner.handle_request(routed(self._route, request))

        def close(self) -> None:
            self._inner.close()

    class AsyncGatewayTransport(module.AsyncBaseTransport):  # type: ignore[misc]
        """Sends requests for the hub along a `Route`."""

        def __init__(self, route: Route, inner: Any = None) -> None:
            self._route = route
            self._inner = module.AsyncHTTPTransport() if inner is None else inner

        async def handle_async_request(self, request: Any) -> Any:
            return await self._inner.handle_async_request(routed(self._route, request))

        async def aclose(self) -> None:
            await self._inner.aclose()

    class KubeconfigAuth(module.Auth):  # type: ignore[misc]
        """Adds the hub's credentials: token files are read again, exec plugins are run again."""

        def __init__(self, identity: HubIdentity) -> None:
            self._identity = identity

        def _prepare(self, request: Any, headers: list[tuple[str, str]]) -> None:
            # A multi-dict: impersonated groups are several fields of one name.
            request.headers = module.Headers([*request.headers.multi_items(), *headers])
            if self._identity.tls_server_name:
                request.extensions = {**request.extensions, "sni_hostname": self._identity.tls_server_name}

        def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
            self._prepare(request, self._identity.headers_blocking())
            yield request

        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            self._prepare(request, await self._identity.headers())
            yield request

    return Family(GatewayTransport, AsyncGatewayTransport, KubeconfigAuth)
