"""Addresses of clusters behind the gateway: the hub's address with a prefix before every path of the cluster.

A `Route` rewrites the target of one request. It works on the raw target, so that the cluster receives byte for byte what the
caller requested. It cannot know whether a target was already rewritten: callers rewrite a copy, and a retry starts from the
original. Looking for the prefix instead would be wrong, since a cluster may be a hub with a gateway of its own. A target that
could resolve to another cluster (`..`) is refused, not resolved.
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
    """This route cannot send the request to a cluster: it is for another server, or its path may resolve to another cluster."""


@dataclass(frozen=True, slots=True)
class GatewayApi:
    """Group and version in which the hub serves the gateway, if the hub was installed with another one."""

    group: str = GROUP
    version: str = VERSION

    def __post_init__(self) -> None:
        for name, flaws in (("group", dns1123_subdomain(self.group)), ("version", dns1123_label(self.version))):
            if flaws:
                raise ValueError(f"{name}: {getattr(self, name)!r} is no API {name}: {flaws[0]}")

    def prefix(self, cluster: str) -> str:
        """The prefix of every path of the cluster, without a slash at the end."""
        return f"/apis/{self.group}/{self.version}/{RESOURCE}/{require_cluster_name(cluster)}/{PROXY}"


GATEWAY_API: Final = GatewayApi()


def gateway_base_url(hub_url: str, cluster: str, api: GatewayApi = GATEWAY_API) -> str:
    """The URL of a cluster's API by way of the hub, without a slash at the end: the `server` of a kubeconfig."""
    _parsed(hub_url)
    return f"{hub_url.rstrip('/')}{api.prefix(cluster)}"


@dataclass(frozen=True, slots=True)
class Route:
    """Routes requests for the hub to one cluster, or to the one of `using_cluster` if none is given. If there is none either, the
    request goes to the hub itself with `fallback_to_hub`, and is an error without it."""

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
        hub, parsed = _parsed(self.hub_url), urlsplit(url)
        if _origin(parsed) != _origin(hub):
            other = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}"
            raise WrongTarget(f"a request for {other} cannot be sent through the hub {self.hub_url}")
        base = hub.path.rstrip("/")
        inner = parsed.path.removeprefix(base)
        if not parsed.path.startswith(base) or not (inner == "" or inner.startswith("/")):
            raise WrongTarget(f"{parsed.path}: not below {base}, the path of the hub {self.hub_url}")
        query = f"?{parsed.query}" if parsed.query or url.partition("#")[0].endswith("?") else ""
        cluster = self.cluster or current_cluster.get()
        if cluster is None:
            if not self.fallback_to_hub:
                raise NoCluster
            return f"{parsed.path or '/'}{query}"
        if any(_DOTS.fullmatch(segment) for segment in inner.split("/")):
            raise WrongTarget(f"{inner}: a path with . or .. may resolve to another cluster")
        return f"{base}{self.api.prefix(cluster)}{inner}{query}"

    def url(self, url: str) -> str:
        """The same as an absolute URL."""
        parsed = urlsplit(url)
        return f"{parsed.scheme}://{parsed.netloc}{self.target(url)}"


@lru_cache(maxsize=64)
def _parsed(hub_url: str) -> SplitResult:
    """Raises ValueError for an invalid address of a hub."""
    try:
        parts = urlsplit(hub_url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"hub_url: {_without_user(hub_url)!r} is not an address of a hub; expected https://host:port, optionally with a path"
        )
    return parts


def _without_user(url: str) -> str:
    """Removes user and password, for error messages."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _origin(parts: SplitResult) -> tuple[bool, str, int | None]:
    return parts.scheme in _TLS, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
