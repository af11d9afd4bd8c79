"""The agent's end of the tunnels: it opens one to every replica of the gateway, keeps them open, and joins streams to its own API
server.

The agent cannot address a replica: each connection reaches any of them. So it dials repeatedly, and sends the replicas to which
it already has a tunnel. A new replica accepts (101, with its id), a known one refuses (409). The agent dials again at once after
the first answer, and with backoff after the second, so that it finds all replicas soon, and new ones within `MAX_DIAL_INTERVAL`
seconds. A tunnel that ends is replaced. The approach is that of the agents of apiserver-network-proxy.

Every stream of a tunnel is connected to the one API server that the agent was configured with, and to nothing else.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.gateway.names import ATTACH, RESOURCE
from muster.gateway.tunnel import wire
from muster.http.http2 import fields as http2
from muster.http.http2.fields import Fields
from muster.http.http2.joint import READ_BUFFER, Joint
from muster.http.http2.server import Http2Server
from muster.http.http2.stream import Stream
from muster.http.message import Connection
from muster.http.pool import open_connection
from muster.http.websocket import VERSION, WebSocketCodec, accept_value, new_key
from muster.http.websocket_transport import WebSocketTransport
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.runtime.client import Conflict, HttpClient, KubeError, Unreachable, Upgraded
from muster.runtime.controller import Manager, RunnableFunc

log = get_logger("muster.gateway.agent")

CONNECT_TIMEOUT: Final = 8.0
"""For connecting to the cluster's own API server: shorter than the gateway's timeout."""
INITIAL_DIAL_INTERVAL: Final = 1.0
MAX_DIAL_INTERVAL: Final = 60.0
MAX_RETRY_DELAY: Final = 30.0
"""Maximum seconds between attempts while there is no tunnel, or a failing one."""
STABLE_AFTER: Final = 10.0
"""Seconds after which the end of a tunnel does not count as a failure."""
DRAIN_GRACE: Final = 5.0
_JOINED: Final = http2.encode([(b":status", b"200")])
_AUTHORITY: Final = wire.AUTHORITY.encode()


@dataclass(frozen=True)
class AgentOptions:
    cluster: str
    """Name of the cluster on the hub."""
    api: str
    """The path of the gateway's API on the hub: /apis/<group>/<version>."""
    host: str
    port: int
    """Port of the cluster's own API server."""
    base_path: str = ""


class TunnelAgent(Manager):
    """`run` until cancelled, then `stop`."""

    def __init__(
        self,
        hub: HttpClient,
        options: AgentOptions,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        super().__init__()
        self._hub = hub
        self._options = options
        self._clock = clock
        self._path = f"{options.api}/{RESOURCE}/{options.cluster}/{ATTACH}"
        self._server = Http2Server(self._request, limits=wire.AGENT_LIMITS, clock=clock)
        self._read_buffer = memoryview(bytearray(READ_BUFFER))
        self._tunnels: dict[str, asyncio.Task[None]] = {}
        """Tunnels by replica of the gateway."""
        self._wake_up = asyncio.Event()
        self._outage = "no tunnel is open yet"
        self._dial_backoff = Backoff(INITIAL_DIAL_INTERVAL, MAX_DIAL_INTERVAL, random=random)
        self._failure_backoff = Backoff(INITIAL_DIAL_INTERVAL, MAX_RETRY_DELAY, random=random)
        counted = metrics or Metrics()
        counted.gauge("gateway_agent_tunnels", "Tunnels to replicas of the gateway", lambda: len(self._tunnels))
        counted.gauge("gateway_agent_streams", "Connections through tunnels to the API server", lambda: self._server.streams)
        self.add("tunnels", RunnableFunc(self._maintain_tunnels), needs_leader_election=False)
        self.add_ready_check("tunnels", self.problem)

    def problem(self) -> str | None:
        """Why the cluster cannot be reached through the agent."""
        return None if self._tunnels else self._outage

    async def stop(self) -> None:
        """Tell the gateway to open no more streams, and let open ones end."""
        await self._server.drain(DRAIN_GRACE)
        await self._server.stop()
        for task in list(self._tunnels.values()):
            task.cancel()

    # Tunnels

    async def _maintain_tunnels(self) -> None:
        while True:
            await pause(self._clock, self._wake_up, await self._dial())

    async def _dial(self) -> float:
        """Open one more tunnel if there is another replica; returns the seconds until the next attempt."""
        try:
            replica, opened = await self._attach()
        except Conflict:
            return self._dial_backoff.next()
        except KubeError as error:
            self._failed(str(error))
            return self._failure_backoff.next()
        if replica in self._tunnels:
            opened.abort()
            return self._dial_backoff.next()
        self._dial_backoff.reset()
        self._tunnels[replica] = task = asyncio.create_task(self._serve(opened))
        task.add_done_callback(self._ended(replica, self._clock.monotonic()))
        log.info("tunnel opened", replica=replica, tunnels=len(self._tunnels))
        return self._dial_backoff.delay(1) / 4

    def _failed(self, problem: str) -> None:
        if problem != self._outage or self._failure_backoff.failures == 0:
            log.warning("tunnel not opened", problem=problem, tunnels=len(self._tunnels))
        self._outage = problem

    async def _attach(self) -> tuple[str, Upgraded]:
        """The id of the gateway's replica, and the connection to it. Raises KubeError."""
        key = new_key()
        fields = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", VERSION),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Protocol", wire.PROTOCOL),
        ]
        if self._tunnels:
            fields.append((wire.ATTACHED_FIELD, ",".join(self._tunnels)))
        if self._options.base_path:
            fields.append((wire.BASE_PATH_FIELD, self._options.base_path))
        opened = await self._hub.upgrade(self._path, fields)
        head = opened.head
        replica = head.field(wire.REPLICA_FIELD.lower())
        if head.field("sec-websocket-accept") != accept_value(key) or not replica:
            opened.abort()
            raise Unreachable(self._hub.server, "the server is not a gateway of Muster")
        return replica, opened

    async def _serve(self, opened: Upgraded) -> None:
        connection = self._server.connection()
        transport = WebSocketTransport(opened, WebSocketCodec(client=True), connection)
        transport.begin()
        # The agent has dialled the gateway, so limits for unauthenticated clients do not apply.
        connection.info.owner = wire.AUTHORITY
        try:
            await transport.run()
        finally:
            opened.abort()

    def _ended(self, replica: str, since: float) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            del self._tunnels[replica]
            self._outage = "the tunnel has ended"
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("tunnel failed", replica=replica, exc_info=error)
            else:
                log.info("tunnel closed", replica=replica, tunnels=len(self._tunnels))
            self._dial_backoff.reset()
            if self._clock.monotonic() - since >= STABLE_AFTER:
                self._failure_backoff.reset()
                self._wake_up.set()

        return ended

    # Streams

    def _request(self, stream: Stream, fields: Fields, info: Connection) -> _ForwardedStream:
        return _ForwardedStream(asyncio.get_running_loop(), self._read_buffer, stream, fields, self._options)


class _ForwardedStream(Joint):
    """A stream that is joined to the cluster's API server."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview, stream: Stream, fields: Fields, options: AgentOptions
    ) -> None:
        super().__init__(loop, read_buffer)
        self.stream = stream
        pseudo = dict(fields)
        self._fits = pseudo.get(b":method") == b"CONNECT" and pseudo.get(b":authority") == _AUTHORITY
        self._options = options
        self._connecting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if not self._fits:
            self._refuse(wire.REFUSED)
        elif not self.stream.closed:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        options = self._options
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await open_connection((options.host, options.port, None, None), lambda: self)
        except TimeoutError:
            self._refuse(wire.TIMED_OUT)
        except (OSError, UnicodeError) as error:
            log.warning("connection to API server failed", host=options.host, port=options.port, error=str(error))
            self._refuse(wire.UNREACHABLE)
        finally:
            self._connecting = None

    def _refuse(self, status: int) -> None:
        self.stream.send_head(http2.encode([(b":status", str(status).encode())]), end=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stream.send_head(_JOINED)
        super().connection_made(transport)

    def lost(self, code: int | None) -> None:
        super().lost(code)
        if self._connecting is not None:
            self._connecting.cancel()
