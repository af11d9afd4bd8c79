"""Connections through cluster-proxy's konnectivity server to clusters.

All connections to clusters are calls on one HTTP/2 connection, which is opened on demand. The server and the gateway authenticate
each other by certificates, whose files are checked before each dial: a new certificate is used for new connections, and existing
ones continue. The server chooses the agent by the dialled name, which is the cluster's; the agent resolves that name
(cluster-proxy has a Service of that name beside it, for its own API server).
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster.gateway.konnectivity.link import STALL_TIMEOUT, Link, LinkBroken
from muster.gateway.konnectivity.packets import PROXY, PacketType, dial_request, read_packet
from muster.gateway.names import COMPONENT
from muster.http.http2.client import CLIENT_LIMITS, KeepAlive
from muster.http.paired_pool import PairedPool
from muster.http.upstream import UpstreamError, host_port
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.printable import one_line
from muster.machinery.protobuf import MalformedMessage
from muster.runtime.client import CredentialError
from muster.transport.client.tls_files import TlsFiles
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.interfaces import BidirectionalStream
from muster.transport.rpc.status import Code, RpcError

log = get_logger("muster.gateway.konnectivity")

CLUSTER_PORT: Final = 443
DIAL_TIMEOUT: Final = 30.0
"""Default timeout."""
KEEPALIVE: Final = KeepAlive(time=330.0, timeout=20.0)
"""gRPC servers in Go close connections of clients that ping more often than every five minutes, by default."""
MAX_UNSENT: Final = 64 * 1024 * 1024
"""For all connections; one connection has at most what is read from its socket at once."""
_MAX_ERROR_LENGTH: Final = 300


@dataclass(frozen=True)
class ClusterProxyOptions:
    """`ca` verifies the server; `cert` and `key` are the gateway's. All are paths of PEM files."""

    host: str
    port: int
    ca: Path
    cert: Path
    key: Path


class ProxyRefused(ConnectionError):
    """The proxy refused to dial the cluster; the message may be shown to users."""


class ClusterProxy:
    def __init__(self, options: ClusterProxyOptions, *, stall_timeout: float = STALL_TIMEOUT, clock: Clock = SYSTEM) -> None:
        self.name = host_port(options.host, options.port)
        self._options = options
        self._stall_timeout = stall_timeout
        self._clock = clock
        self._files = TlsFiles(self.name, options.ca, options.cert, options.key)
        self._context: ssl.SSLContext | None = None
        self._channel: RpcChannel | None = None
        self._links: set[asyncio.Task[None]] = set()

    @property
    def links(self) -> int:
        """Number of open connections to clusters."""
        return len(self._links)

    async def lead(self, cluster: str, end: socket.socket) -> None:
        """Connect `end`, which is always taken over, to a new connection to the cluster's API server. Raises ProxyRefused and
        TimeoutError."""
        try:
            async with AsyncExitStack() as stack:
                link = await self._dial(cluster, end, stack)
                opened = stack.pop_all()
        except BaseException as error:
            end.close()
            if isinstance(error, RpcError) and error.code is Code.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            if isinstance(error, RpcError | MalformedMessage | CredentialError):
                raise ProxyRefused(f"cluster-proxy at {self.name}: {_error_text(error)}") from error
            raise
        task = asyncio.create_task(self._run_link(cluster, link, opened), name=f"link to {cluster}")
        self._links.add(task)
        task.add_done_callback(self._links.discard)

    async def _dial(self, cluster: str, end: socket.socket, stack: AsyncExitStack) -> Link:
        random = secrets.randbits(63)
        request = dial_request(f"{cluster}:{CLUSTER_PORT}", random)
        call = await stack.enter_async_context(self._connected().bidirectional(PROXY, request, timeout=DIAL_TIMEOUT))
        connect_id = await self._answer(call, random)
        reader, writer = await asyncio.open_connection(sock=end)
        return Link(call, connect_id, reader, writer, self._stall_timeout)

    async def _answer(self, call: BidirectionalStream, random: int) -> int:
        """The proxy's id of the connection. Raises ProxyRefused, RpcError and MalformedMessage."""
        async for message in call:
            packet = read_packet(message)
            if packet.type is PacketType.DRAIN:
                continue
            if packet.type is PacketType.DIAL_RSP and packet.random == random:
                if packet.error:
                    raise ProxyRefused(f"cluster-proxy at {self.name} refused: {_truncated(packet.error)}")
                if packet.connect_id:
                    return packet.connect_id
            elif packet.type is PacketType.DIAL_CLS and packet.random == random:
                raise ProxyRefused(f"cluster-proxy at {self.name} aborted the dial; the cluster's agent may be gone")
            raise ProxyRefused(f"cluster-proxy at {self.name} answers a dial with an unexpected packet ({packet.type.name})")
        raise ProxyRefused(f"cluster-proxy at {self.name} does not answer a dial")

    async def _run_link(self, cluster: str, link: Link, opened: AsyncExitStack) -> None:
        async with opened:
            try:
                await link.run()
            except LinkBroken as broken:
                log.info("connection through cluster-proxy lost", cluster=cluster, problem=_error_text(broken))

    def _connected(self) -> RpcChannel:
        """The connection, opened with the current certificates. Raises CredentialError."""
        context = self._files.context()
        if self._channel is None:
            options = self._options
            self._channel = RpcChannel(
                options.host,
                options.port,
                tls=context,
                keepalive=KEEPALIVE,
                limits=replace(CLIENT_LIMITS, max_unsent=MAX_UNSENT),
                user_agent=COMPONENT,
                clock=self._clock,
            )
        elif context is not self._context:
            log.info("certificates of cluster-proxy changed", proxy=self.name)
            self._channel.replace_tls(context)
        self._context = context
        return self._channel

    async def close(self) -> None:
        """End every connection."""
        if self._channel is not None:
            await self._channel.close()
        # A connection whose reader takes no data is not notified.
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)


class ClusterProxyPool(PairedPool):
    """Connections to one cluster's API server through cluster-proxy."""

    def __init__(
        self,
        proxy: ClusterProxy,
        cluster: str,
        *,
        max_idle: int = 32,
        idle_timeout: float = 30.0,
    ) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        self._proxy = proxy
        self._cluster = cluster

    async def lead(self, end: socket.socket) -> None:
        await self._proxy.lead(self._cluster, end)


def _error_text(error: Exception) -> str:
    if isinstance(error.__cause__, UpstreamError):
        return _truncated(error.__cause__.reason)
    return _truncated(error.message if isinstance(error, RpcError) and error.message else str(error))


def _truncated(text: str) -> str:
    return one_line(text[:_MAX_ERROR_LENGTH])
