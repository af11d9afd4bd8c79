"""Connections to clusters: for every cluster one pool, as long as it is reached in the same way with the same certificates.

A token is no part of a connection, so a new one changes nothing here. With other endpoints, authorities, client certificates or
another proxy a new pool begins; the old one closes what is idle, and what is in use when that ends: no stream is cut.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypedDict
from urllib.parse import urlsplit

from muster.gateway.konnectivity.cluster_proxy import ClusterProxy, ClusterProxyPool
from muster.gateway.relay.contexts import Contexts
from muster.gateway.relay.problems import ClusterProblem
from muster.gateway.target import ENDPOINT_UNUSABLE, TUNNEL_MISSING, ClientCertificate, Endpoint, Problem, Target, Trust
from muster.gateway.tunnel.tunnels import TunnelledPool, Tunnels
from muster.http import UpstreamPool
from muster.http.pool import UpstreamKey
from muster.http.socks import SocksPool
from muster.http.tunnel import ProxiedPool

MAX_IDLE: Final = 128
"""Connections kept for one cluster: with fewer than are busy at once, each burst would end in handshakes."""
IDLE_TIMEOUT: Final = 90.0
"""As Go's clients have it."""
_PROXIES: Final[dict[str, type[ProxiedPool] | type[SocksPool]]] = {
    "http": ProxiedPool,
    "https": ProxiedPool,
    "socks5": SocksPool,
    "socks5h": SocksPool,
}

Material = tuple[Trust, ClientCertificate | None]


class ClusterPool:
    """What one way to a cluster has: its connections, and the TLS context they are made with."""

    __slots__ = ("_context", "connections", "made_of", "target")

    def __init__(self, target: Target, made_of: Material, context: asyncio.Task[ssl.SSLContext], connections: UpstreamPool) -> None:
        self.target = target
        self.made_of = made_of
        self.connections = connections
        self._context = context

    def leads_to(self, target: Target) -> bool:
        if target is self.target:
            return True
        same = (
            target.endpoints == self.target.endpoints
            and target.proxy_url == self.target.proxy_url
            and target.tunnel == self.target.tunnel
            and target.cluster_proxy == self.target.cluster_proxy
        )
        if same and material(target) == self.made_of:
            self.target = target
            return True
        return False

    @property
    def making(self) -> asyncio.Task[ssl.SSLContext]:
        return self._context

    async def context(self) -> ssl.SSLContext:
        """Raises ClusterProblem."""
        making = self._context
        return making.result() if making.done() else await asyncio.shield(making)

    def key(self, endpoint: Endpoint, context: ssl.SSLContext) -> UpstreamKey:
        return endpoint.host, endpoint.port, context, self.made_of[0].server_name or None


class ClusterPools:
    """The pools of all clusters, and what they share: a buffer for reading, and the context with the system's authorities."""

    def __init__(
        self,
        tunnels: Tunnels | None = None,
        cluster_proxy: ClusterProxy | None = None,
        *,
        max_idle: int = MAX_IDLE,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._contexts = Contexts()
        self._tunnels = tunnels
        self._cluster_proxy = cluster_proxy
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout

    def following(self, earlier: ClusterPool | None, target: Target) -> ClusterPool:
        """`earlier` if it still leads to `target`, else a new pool; `earlier` then ends with what it has under way. Raises
        ClusterProblem."""
        if earlier is not None and earlier.leads_to(target):
            return earlier
        made_of = material(target)
        connections = self._connections(target)
        if earlier is not None and earlier.made_of == made_of:
            context = earlier.making
        else:
            context = asyncio.create_task(self._contexts.make(*made_of))
            context.add_done_callback(_heard)
        if earlier is not None:
            earlier.connections.close()
        return ClusterPool(target, made_of, context, connections)

    def _connections(self, target: Target) -> UpstreamPool:
        options = _PoolOptions(max_idle=self._max_idle, idle_timeout=self._idle_timeout)
        if target.tunnel:
            if self._tunnels is None:
                raise ClusterProblem(Problem(TUNNEL_MISSING, "this gateway takes no tunnels"))
            return TunnelledPool(self._tunnels, target.cluster, **options)
        if target.cluster_proxy:
            if self._cluster_proxy is None:
                raise ClusterProblem(Problem(ENDPOINT_UNUSABLE, "this gateway has no way to cluster-proxy"))
            return ClusterProxyPool(self._cluster_proxy, target.cluster, **options)
        if not target.proxy_url:
            return UpstreamPool(**options)
        try:
            parts = urlsplit(target.proxy_url)
            kind = _PROXIES.get(parts.scheme) if parts.hostname and parts.port != 0 else None
        except ValueError:
            kind = None
        if kind is None:
            # The address may have a password in it, and is not repeated.
            text = f"proxy-url must be the address of a proxy: {', '.join(_PROXIES)} are understood"
            raise ClusterProblem(Problem(ENDPOINT_UNUSABLE, text))
        return kind(target.proxy_url, **options)


class _PoolOptions(TypedDict):
    max_idle: int
    idle_timeout: float


def material(target: Target) -> Material:
    credential = target.credential
    return target.trust, credential if isinstance(credential, ClientCertificate) else None


def _heard(making: asyncio.Task[ssl.SSLContext]) -> None:
    """A failure is told to whoever asks for the context, and nobody may."""
    if not making.cancelled():
        making.exception()
