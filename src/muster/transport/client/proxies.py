"""Which proxy leads to a hub's gRPC server: the one that the configuration names, else the one of the environment."""

from __future__ import annotations

from muster.http.tunnel import Proxy
from muster.http.upstream import host_port
from muster.machinery import confinement
from muster.runtime.client import proxy_for
from muster.transport.client.config import ProxySettings


def find_proxy(host: str, port: int, settings: ProxySettings) -> Proxy | None:
    """None where there is to be none. Raises ValueError for authorities that are none, and KubeError for an environment's proxy
    that cannot be spoken to."""
    if settings.url:
        return Proxy(settings.url, settings.ca)
    found = proxy_for(f"https://{host_port(host, port)}", confinement.environ())
    return Proxy(found) if found else None
