"""The proxy for a hub's gRPC server: the configured one, else the environment's."""

from __future__ import annotations

from muster.http.tunnel import Proxy
from muster.http.upstream import host_port
from muster.machinery import confinement
from muster.runtime.client import proxy_for
from muster.transport.client.config import ProxySettings


def find_proxy(host: str, port: int, settings: ProxySettings) -> Proxy | None:
    """None if there is no proxy. Raises ValueError for invalid CAs, and KubeError for an unsupported proxy of the environment."""
    if settings.url:
        return Proxy(settings.url, settings.ca)
    found = proxy_for(f"https://{host_port(host, port)}", confinement.environ())
    return Proxy(found) if found else None
