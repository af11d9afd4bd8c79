"""The tunnels that agents have opened to this replica of the gateway, by cluster.

A cluster may have several: an agent that lost its network opens a new one before the old one is known to be dead, and there may
be two agents. The newest one that accepts streams is used; with more than `MAX_TUNNELS` the oldest is closed. A tunnel that its
agent is about to close (GOAWAY) accepts no new streams and ends with its open ones.

`on_change` is called with every cluster whose first tunnel was opened or whose last one has ended.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Final

from muster.gateway.tunnel import wire
from muster.http import RawConnection
from muster.http.http2 import fields as http2
from muster.http.http2.client import ClientConnection, ConnectionGoing
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.joint import READ_BUFFER, Joint
from muster.http.paired_pool import PairedPool
from muster.http.websocket import WebSocketCodec
from muster.http.websocket_transport import WebSocketTransport
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger

log = get_logger("muster.gateway.tunnel")

MAX_TUNNELS: Final = 8
"""Per cluster."""
_CONNECT: Final = http2.encode([(b":method", b"CONNECT"), (b":authority", wire.AUTHORITY.encode())])
_REFUSALS: Final = {
    wire.REFUSED: "the cluster's agent does not accept this name for its API server",
    wire.UNREACHABLE: "the cluster's agent cannot reach its API server",
    wire.TIMED_OUT: "the cluster's agent cannot reach its API server in time",
}


class TunnelRefused(ConnectionError):
    """A stream to the cluster's API server was refused; the message may be shown to users."""


class Tunnel(ClientConnection):
    """The gateway's end of one tunnel. `base_path` is the base path of the cluster's API."""

    def __init__(self, name: str, base_path: str, clock: Clock, on_leaving: Callable[[Tunnel], None]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop, name, keepalive=wire.KEEPALIVE, limits=wire.GATEWAY_LIMITS, clock=clock, on_end=self._left)
        self.base_path = base_path
        self._on_leaving = on_leaving

    def goaway_received(self, last: int, code: int, reason: bytes) -> None:
        super().goaway_received(last, code, reason)
        self._on_leaving(self)

    def _left(self, _: ClientConnection) -> None:
        self._on_leaving(self)


class Tunnels:
    """The tunnels of one replica."""

    def __init__(self, on_change: Callable[[str], None], *, clock: Clock = SYSTEM) -> None:
        self.replica = secrets.token_hex(8)
        self._on_change = on_change
        self._clock = clock
        self._tunnels: dict[str, list[Tunnel]] = {}
        self._read_buffer = memoryview(bytearray(READ_BUFFER))
        self._closing = False

    def base_path(self, cluster: str) -> str | None:
        """The base path of the cluster's API; None without a tunnel."""
        tunnels = self._tunnels.get(cluster)
        return tunnels[-1].base_path if tunnels else None

    def count(self, cluster: str) -> int:
        return len(self._tunnels.get(cluster, ()))

    async def serve(self, cluster: str, base_path: str, opened: RawConnection) -> None:
        """Serve a connection that an agent has opened and that was upgraded to WebSocket, until it ends."""
        tunnel = Tunnel(f"the tunnel of {cluster}", base_path, self._clock, lambda gone: self._remove(cluster, gone))
        transport = WebSocketTransport(opened, WebSocketCodec(client=False), tunnel)
        if self._closing:
            opened.close()
            return
        transport.begin()
        running = asyncio.create_task(transport.run(opened.initial))
        try:
            ready = asyncio.create_task(tunnel.wait_ready())
            await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if tunnel.usable:
                self._add(cluster, tunnel)
            await asyncio.shield(running)
        finally:
            self._remove(cluster, tunnel)
            if not running.done():
                transport.abort()
                running.cancel()

    def _add(self, cluster: str, tunnel: Tunnel) -> None:
        tunnels = self._tunnels.setdefault(cluster, [])
        tunnels.append(tunnel)
        log.info("tunnel opened", cluster=cluster, tunnels=len(tunnels))
        if len(tunnels) > MAX_TUNNELS:
            tunnels[0].fail(ErrorCode.ENHANCE_YOUR_CALM, "the cluster has too many tunnels")
        self._on_change(cluster)

    def _remove(self, cluster: str, tunnel: Tunnel) -> None:
        tunnels = self._tunnels.get(cluster, [])
        if tunnel not in tunnels:
            return
        tunnels.remove(tunnel)
        log.info("tunnel closed", cluster=cluster, tunnels=len(tunnels))
        if not tunnels:
            del self._tunnels[cluster]
        if not self._closing:
            self._on_change(cluster)

    async def stream(self, cluster: str) -> Joint:
        """A stream to the cluster's API server, to be joined to a socket. Raises TunnelRefused."""
        tunnel = next((one for one in reversed(self._tunnels.get(cluster, ())) if one.usable), None)
        if tunnel is None:
            raise TunnelRefused("the cluster's agent has no tunnel to this gateway")
        joint = _PendingStream(tunnel.loop, self._read_buffer)
        try:
            joint.stream = await tunnel.open(_CONNECT, joint)
            status = await joint.answer
        except ConnectionGoing:
            raise TunnelRefused("the cluster's agent is closing its tunnel") from None
        except asyncio.CancelledError:
            joint.give_up()
            raise
        if status != 200:
            joint.give_up()
            raise TunnelRefused(_REFUSALS.get(status, "the cluster's agent closed the stream"))
        return joint

    def forget(self, cluster: str) -> None:
        """The hub no longer has this cluster."""
        for tunnel in list(self._tunnels.get(cluster, ())):
            tunnel.fail(ErrorCode.NO_ERROR, "the hub has no such cluster")

    def close(self) -> None:
        """Open no more streams, and close each tunnel when its streams have ended."""
        self._closing = True
        for tunnels in list(self._tunnels.values()):
            for tunnel in list(tunnels):
                tunnel.retire()


class _PendingStream(Joint):
    """A stream that the agent has not answered yet; `answer` is its status, 0 if it was lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview) -> None:
        super().__init__(loop, read_buffer)
        self.answer: asyncio.Future[int] = loop.create_future()

    def head_received(self, fields: Fields) -> None:
        self._answered(int(dict(fields).get(b":status", b"0")))

    def ended(self, trailers: Fields) -> None:
        super().ended(trailers)
        self._answered(0)

    def lost(self, code: int | None) -> None:
        super().lost(code)
        self._answered(0)

    def _answered(self, status: int) -> None:
        if not self.answer.done():
            self.answer.set_result(status)

    def give_up(self) -> None:
        if hasattr(self, "stream"):
            self.stream.reset(ErrorCode.CANCEL)


class TunnelledPool(PairedPool):
    """Connections to one cluster's API server through its tunnels."""

    def __init__(
        self,
        tunnels: Tunnels,
        cluster: str,
        *,
        max_idle: int = 32,
        idle_timeout: float = 30.0,
    ) -> None:
        super().__init__(max_idle=max_idle, idle_timeout=idle_timeout)
        self._tunnels = tunnels
        self._cluster = cluster

    async def lead(self, end: socket.socket) -> None:
        try:
            joint = await self._tunnels.stream(self._cluster)
            try:
                await asyncio.get_running_loop().create_connection(lambda: joint, sock=end)
            except BaseException:
                joint.stream.reset(ErrorCode.CANCEL)
                raise
        except BaseException:
            end.close()
            raise
