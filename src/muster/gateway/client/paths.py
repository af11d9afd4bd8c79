"""Where a cluster is behind the gateway: the hub's address with a path before everything that is asked of the cluster.

A `Route` rewrites one request's target. It works on the raw target, so that what the cluster is asked is byte for byte what the
caller asked, and it does not know whether a target was rewritten before: whoever uses it rewrites a copy, and a retry begins with
the original. Looking for the prefix instead would be wrong, since a cluster may be a hub with a gateway of its own. A target that
could be resolved to another cluster's (`..`) is refused rather than resolved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.gateway.client.context import NoCluster, current_cluster, require_cluster_name
from muster.gateway.names import PROXY, RESOURCE
from muster.kube.names import dns1123_label, dns1123_subdomain

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_TLS: Final = frozenset(("https", "wss"))
_DOTS: Final = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)


class WrongTarget(ValueError):
    """A request that this route cannot lead to a cluster: it is for another server, or its path leads elsewhere."""


@dataclass(frozen=True, slots=True)
class GatewayApi:
    """The API by which the hub serves the gateway; another one where the hub was installed so."""

    group: str = GROUP
    version: str = VERSION

    def __post_init__(self) -> None:
        for name, flaws in (("group", dns1123_subdomain(self.group)), ("version", dns1123_label(self.version))):
            if flaws:
                raise ValueError(f"{name}: {getattr(self, name)!r} is no API {name}: {flaws[0]}")

    def prefix(self, cluster: str) -> str:
        """Before every path of the cluster; without a slash at the end."""
        return f"/apis/{self.group}/{self.version}/{RESOURCE}/{require_cluster_name(cluster)}/{PROXY}"


GATEWAY_API: Final = GatewayApi()


def gateway_base_url(hub_url: str, cluster: str, api: GatewayApi = GATEWAY_API) -> str:
    """The address of a cluster's API by way of the hub, without a slash at the end: what a kubeconfig has as `server`."""
    _parsed(hub_url)
    return f"{hub_url.rstrip('/')}{api.prefix(cluster)}"


@dataclass(frozen=True, slots=True)
class Route:
    """The way of requests that were made for the hub: to one cluster, or to the one of `using_cluster` if none is given. Where
    there is none either, the hub itself is asked with `fallback_to_hub`; without it that is an error."""

    hub_url: str
    cluster: str | None = None
    fallback_to_hub: bool = False
    api: GatewayApi = GATEWAY_API

    def __post_init__(self) -> None:
        _parsed(self.hub_url)
        if self.cluster is not None:
            require_cluster_name(self.cluster)

    def target(self, url: str) -> str:
        """The raw target (path and query) for a request to `url`, which is absolute and raw. Raises WrongTarget and NoCluster."""
        hub, asked = _parsed(self.hub_url), urlsplit(url)
        if _origin(asked) != _origin(hub):
            other = f"{asked.scheme}://{asked.netloc.rpartition('@')[2]}"
            raise WrongTarget(f"a request for {other} cannot be led through the hub {self.hub_url}")
        base = hub.path.rstrip("/")
        inner = asked.path.removeprefix(base)
        if not asked.path.startswith(base) or not (inner == "" or inner.startswith("/")):
            raise WrongTarget(f"{asked.path}: not below {base}, the path of the hub {self.hub_url}")
        query = f"?{asked.query}" if asked.query or url.partition("#")[0].endswith("?") else ""
        cluster = self.cluster or current_cluster.get()
        if cluster is None:
            if not self.fallback_to_hub:
                raise NoCluster
            return f"{asked.path or '/'}{query}"
        if any(_DOTS.fullmatch(segment) for segment in inner.split("/")):
            raise WrongTarget(f"{inner}: a path with . or .. may lead to another cluster")
        return f"{base}{self.api.prefix(cluster)}{inner}{query}"

    def url(self, url: str) -> str:
        """The same as an absolute URL."""
        asked = urlsplit(url)
        return f"{asked.scheme}://{asked.netloc}{self.target(url)}"


@lru_cache(maxsize=64)
def _parsed(hub_url: str) -> SplitResult:
    """Raises ValueError for what is no address of a hub."""
    try:
        parts = urlsplit(hub_url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"hub_url: {_without_user(hub_url)!r} is no address of a hub; write https://host:port, or with a path")
    return parts


def _without_user(url: str) -> str:
    """A password is not repeated."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _origin(parts: SplitResult) -> tuple[bool, str, int | None]:
    return parts.scheme in _TLS, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
