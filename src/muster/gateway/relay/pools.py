"""Connection pools for clusters: each cluster has one pool as long as its route and certificates stay the same.

A token is not part of a connection, so a new token does not change the pool. With other endpoints, authorities, client
certificates or another proxy a new pool is created; the old one closes idle connections at once and the others when their
exchange ends: no stream is aborted.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypedDict
from urllib.parse import urlsplit

from muster.gateway.konnectivity.cluster_proxy import ClusterProxy, ClusterProxyPool
from muster.gateway.relay.errors import ClusterError
from muster.gateway.relay.tls_contexts import TlsContexts
from muster.gateway.target import ENDPOINT_UNUSABLE, TUNNEL_MISSING, ClientCertificate, Endpoint, Problem, Target, Trust
from muster.gateway.tunnel.tunnels import TunnelledPool, Tunnels
from muster.http import UpstreamPool
from muster.http.pool import UpstreamKey
from muster.http.socks import SocksPool
from muster.http.tunnel import ProxiedPool

MAX_IDLE: Final = 128
"""Idle connections kept for one cluster: with fewer than are used concurrently, each burst would end in handshakes."""
IDLE_TIMEOUT: Final = 90.0
"""As in Go's http.Transport."""
_PROXIES: Final[dict[str, type[ProxiedPool] | type[SocksPool]]] = {
    "http": ProxiedPool,
    "https": ProxiedPool,
    "socks5": SocksPool,
    "socks5h": SocksPool,
}

Material = tuple[Trust, ClientCertificate | None]


class ClusterPool:
    """The connections of one route to a cluster, and their TLS context."""

    __slots__ = ("_context", "connections", "target", "tls_material")

    def __init__(
        self, target: Target, tls_material: Material, context: asyncio.Task[ssl.SSLContext], connections: UpstreamPool
    ) -> None:
        self.target = target
        self.tls_material = tls_material
        self.connections = connections
        self._context = context

    def matches(self, target: Target) -> bool:
        if target is self.target:
            return True
        same = (
            target.endpoints == self.target.endpoints
            and target.proxy_url == self.target.proxy_url
            and target.tunnel == self.target.tunnel
            and target.cluster_proxy == self.target.cluster_proxy
        )
        if same and material(target) == self.tls_material:
            self.target = target
            return True
        return False

    @property
    def context_task(self) -> asyncio.Task[ssl.SSLContext]:
        return self._context

    async def context(self) -> ssl.SSLContext:
        """Raises ClusterError."""
        making = self._context
        return making.result() if making.done() else await asyncio.shield(making)

    def key(self, endpoint: Endpoint, context: ssl.SSLContext) -> UpstreamKey:
        return endpoint.host, endpoint.port, context, self.tls_material[0].server_name or None


class ClusterPools:
    """The pools of all clusters, and what they share: a read buffer, and the context with the system's CAs."""

    def __init__(
        self,
        tunnels: Tunnels | None = None,
        cluster_proxy: ClusterProxy | None = None,
        *,
        max_idle: int = MAX_IDLE,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._contexts = TlsContexts()
        self._tunnels = tunnels
        self._cluster_proxy = cluster_proxy
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout

    def pool_for(self, earlier: ClusterPool | None, target: Target) -> ClusterPool:
        """`earlier` if it still matches `target`, else a new pool; `earlier` then ends with its requests in flight. Raises
        ClusterError."""
        if earlier is not None and earlier.matches(target):
            return earlier
        tls_material = material(target)
        connections = self._connections(target)
        if earlier is not None and earlier.tls_material == tls_material:
            context = earlier.context_task
        else:
            context = asyncio.create_task(self._contexts.make(*tls_material))
            context.add_done_callback(_retrieve_exception)
        if earlier is not None:
            earlier.connections.close()
        return ClusterPool(target, tls_material, context, connections)

    def _connections(self, target: Target) -> UpstreamPool:
        options = _PoolOptions(max_idle=self._max_idle, idle_timeout=self._idle_timeout)
        if target.tunnel:
            if self._tunnels is None:
                raise ClusterError(Problem(TUNNEL_MISSING, "this gateway does not accept tunnels"))
            return TunnelledPool(self._tunnels, target.cluster, **options)
        if target.cluster_proxy:
            if self._cluster_proxy is None:
                raise ClusterError(Problem(ENDPOINT_UNUSABLE, "this gateway has no address of cluster-proxy"))
            return ClusterProxyPool(self._cluster_proxy, target.cluster, **options)
        if not target.proxy_url:
            return UpstreamPool(**options)
        try:
            parts = urlsplit(target.proxy_url)
            kind = _PROXIES.get(parts.scheme) if parts.hostname and parts.port != 0 else None
        except ValueError:
            kind = None
        if kind is None:
            # The address may contain a password, and is not quoted.
            text = f"proxy-url must be the address of a proxy: {', '.join(_PROXIES)} are supported"
            raise ClusterError(Problem(ENDPOINT_UNUSABLE, text))
        return kind(target.proxy_url, **options)


class _PoolOptions(TypedDict):
    max_idle: int
    idle_timeout: float


def material(target: Target) -> Material:
    credential = target.credential
    return target.trust, credential if isinstance(credential, ClientCertificate) else None


def _retrieve_exception(making: asyncio.Task[ssl.SSLContext]) -> None:
    """The error is raised to whoever awaits the context; if nobody does, asyncio must not log it."""
    if not making.cancelled():
        making.exception()
