"""Adapters for requests: routing of requests for the hub to a cluster, and authentication with the hub's kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from muster.gateway.client.identity import HubIdentity
from muster.gateway.client.libraries import library
from muster.gateway.client.paths import Route


@dataclass(frozen=True)
class Adapters:
    """Classes for requests: `gateway(route, inner)`, `tls(identity)`, `auth(identity)`."""

    gateway: Callable[..., Any]
    tls: Callable[..., Any]
    auth: Callable[..., Any]


@cache
def adapters() -> Adapters:
    base: Any = library("requests.adapters")
    auth: Any = library("requests.auth")

    class GatewayAdapter(base.BaseAdapter):  # type: ignore[misc]
        """Sends requests for the hub along a `Route`."""

        def __init__(self, route: Route, inner: Any = None) -> None:
            super().__init__()
            self._route = route
            self._inner = base.HTTPAdapter() if inner is None else inner

        def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
            routed = request.copy()
            routed.url = self._route.url(request.url)
            response = self._inner.send(routed, *arguments, **options)
            # A retry of an answered request starts from the original request.
            response.request = request
            return response

        def close(self) -> None:
            self._inner.close()

    class TlsAdapter(base.HTTPAdapter):  # type: ignore[misc]
        """Uses CAs and client certificate of the kubeconfig, whatever `verify` and `cert` of the session are."""

        def __init__(self, identity: HubIdentity, **options: Any) -> None:
            tls, name = identity.tls_blocking(), identity.tls_server_name
            self._secured: dict[str, Any] = {"ssl_context": tls} if tls is not None else {}
            self._secured |= {"server_hostname": name, "assert_hostname": name} if name else {}
            super().__init__(**options)

        def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
            host, _ = super().build_connection_pool_key_attributes(request, True, None)
            return host, dict(self._secured)

        def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
            """Nothing to do: the TLS context verifies."""

    class KubeconfigAuth(auth.AuthBase):  # type: ignore[misc]
        """Adds the hub's credentials: token files are read again, exec plugins are run again."""

        def __init__(self, identity: HubIdentity) -> None:
            self._identity = identity

        def __call__(self, request: Any) -> Any:
            given = self._identity.headers_blocking()
            if len({name for name, _ in given}) < len(given):
                raise ValueError("as-groups, as-user-extra: requests sends a header once only; use httpx for several values")
            request.headers.update(given)
            return request

    return Adapters(GatewayAdapter, TlsAdapter, KubeconfigAuth)
