"""Both ends of a tunnel in one process: streams that do not hinder each other, ends of all kinds, and peers that mean harm."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import uvloop

from muster.gateway.tunnel import wire
from muster.gateway.tunnel.agent import AgentOptions, TunnelAgent
from muster.gateway.tunnel.attach import foreign_agent_problem
from muster.gateway.tunnel.tunnels import MAX_TUNNELS, TunnelledPool, TunnelRefused, Tunnels
from muster.http import RawConnection
from muster.http.http2 import fields as http2
from muster.http.http2.frames import ErrorCode
from muster.http.http2.joint import WINDOW, Joint
from muster.http.websocket import Close, WebSocketCodec
from muster.machinery.authentication import UserInfo
from muster.runtime.client.transport import Upgraded
from tests.support.fake_clock import settle
from tests.support.recording_cluster import RecordingCluster, Talk

CLUSTER = "hidden"


class Pipe:
    """One end of a connection in memory, with as much room on its way as a socket has."""

    ROOM = 256 * 1024

    def __init__(self) -> None:
        self.initial = b""
        self.peer: Pipe = self
        self._arrived = bytearray()
        self._ended = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        while not self._arrived and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._arrived)
        self._arrived.clear()
        self._room.set()
        return data

    def write(self, data: bytes) -> None:
        if not self._ended:
            self.peer.arrive(data)

    def arrive(self, data: bytes) -> None:
        self._arrived += data
        self._news.set()
        if len(self._arrived) > self.ROOM:
            self._room.clear()

    async def drain(self) -> None:
        await self.peer._room.wait()

    def close(self) -> None:
        for one in (self, self.peer):
            one._ended = True
            one._news.set()
            one._room.set()

    abort = close


def pipes() -> tuple[Pipe, Pipe]:
    one, other = Pipe(), Pipe()
    one.peer, other.peer = other, one
    return one, other


class TunnelHarness:
    """A gateway's tunnels, and an agent that leads to a server in this process."""

    def __init__(self, port: int) -> None:
        self.changes: list[str] = []
        self.tunnels = Tunnels(self.changes.append)
        options = AgentOptions(CLUSTER, "/apis/x/v1", "127.0.0.1", port, "/base")
        self.agent = TunnelAgent(cast(Any, None), options)
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self) -> tuple[Pipe, Pipe]:
        """One more tunnel."""
        before = self.tunnels.count(CLUSTER)
        gateway, agent = pipes()
        self.tasks.append(asyncio.create_task(self.tunnels.serve(CLUSTER, "/base", cast(RawConnection, gateway))))
        self.tasks.append(asyncio.create_task(self.agent._serve(cast(Upgraded, agent))))
        await until(lambda: self.tunnels.count(CLUSTER) > before or self.tunnels.count(CLUSTER) == MAX_TUNNELS)
        return gateway, agent

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.agent._server.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.005)


class Client(Joint):
    """A joint without a socket: takes what comes, or leaves it."""

    @classmethod
    def of(cls, joint: Joint) -> Client:
        joint.__class__ = _Taking
        return cast(Client, joint)


class _Taking(Joint):
    received: bytearray

    def data_received(self, data: bytes) -> None:
        self.stream.consumed(len(data))
        self.__dict__.setdefault("received", bytearray()).extend(data)
        self.stream.allow(WINDOW)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        if data.startswith(b"GO"):
            for _ in range(int(data[2:])):
                writer.write(b"x" * 65536)
                with suppress(ConnectionError):
                    await writer.drain()
        else:
            writer.write(data)
    writer.close()


def scenes(test: Callable[[TunnelHarness], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        harness = TunnelHarness(server.sockets[0].getsockname()[1])
        try:
            await test(harness)
        finally:
            await harness.close()
            server.close()

    def wrapped() -> None:
        asyncio.run(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@scenes
async def test_bytes_go_both_ways(harness: TunnelHarness) -> None:
    await harness.open()
    assert harness.tunnels.base_path(CLUSTER) == "/base"
    assert harness.changes == [CLUSTER]
    client = Client.of(await harness.tunnels.stream(CLUSTER))
    client.stream.send(b"hello")
    await until(lambda: bytes(client.__dict__.get("received", b"")) == b"hello")


@scenes
async def test_who_does_not_read_stalls_only_himself_in_bounded_memory(harness: TunnelHarness) -> None:
    await harness.open()
    stalled = [await harness.tunnels.stream(CLUSTER) for _ in range(16)]
    for joint in stalled:
        joint.stream.send(b"GO400")  # 25 MiB that nobody takes
    other = Client.of(await harness.tunnels.stream(CLUSTER))
    other.stream.send(b"GO64")
    await until(lambda: len(other.__dict__.get("received", b"")) == 64 * 65536)
    assert all(sum(map(len, joint._early)) <= WINDOW for joint in stalled)
    (served,) = harness.agent._server._acceptor.connections
    assert served.held() <= 17 * 128 * 1024 + Pipe.ROOM
    for joint in stalled:
        joint.stream.reset(ErrorCode.CANCEL)
    await until(lambda: len(served.streams) == 1)


def last_words(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def hear(cluster: RecordingCluster, trust: ssl.SSLContext) -> bytes:
    """All that a cluster says after an upgrade, by a reader who lets it wait."""
    harness = TunnelHarness(cluster.port)
    await harness.open()
    pool = TunnelledPool(harness.tunnels, CLUSTER)
    try:
        connection = await pool.connect((wire.HOST, wire.PORT, trust, "localhost"), 10.0, fresh=True)
        connection.exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", bodiless=False, upgrade=True)
        await connection.answer()
        heard = bytearray()
        async with asyncio.timeout(30):
            while data := await connection.body():
                heard += data
                await settle()
        return bytes(heard)
    finally:
        pool.close()
        await harness.close()


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("size", [100_000, 700_000, 5_000_000])
def test_a_cluster_that_hangs_up_after_its_last_word_is_heard_to_the_end(
    size: int, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """uvloop throws away what TLS has read ahead for a reader who has paused, when the end comes."""

    def say(talk: Talk, head: bytes) -> None:
        talk.say(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" + last_words(size))
        talk.hang_up()

    with RecordingCluster(say) as cluster, asyncio.Runner(loop_factory=new_loop) as runner:
        trust = ssl.create_default_context(cadata=cluster.ca.decode())
        assert runner.run(hear(cluster, trust)) == last_words(size)


@scenes
async def test_an_agent_leads_nowhere_but_to_its_own_api_server(harness: TunnelHarness) -> None:
    await harness.open()
    (tunnel,) = harness.tunnels._tunnels[CLUSTER]
    for fields in (
        [(b":method", b"CONNECT"), (b":authority", b"169.254.169.254:80")],
        [(b":method", b"CONNECT"), (b":authority", b"kubernetes.default.svc:22")],
        [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", wire.AUTHORITY.encode())],
    ):
        answers: list[http2.Fields] = []
        joint = Joint(asyncio.get_running_loop(), memoryview(bytearray(10)))
        joint.head_received = answers.append  # type: ignore[method-assign,assignment]
        joint.stream = await tunnel.open(http2.encode(fields), joint)
        await until(lambda seen=answers: bool(seen))  # type: ignore[misc]
        assert answers == [[(b":status", b"403")]]


@scenes
async def test_an_api_server_that_is_away_is_told(harness: TunnelHarness) -> None:
    harness.agent._options = AgentOptions(CLUSTER, "", "127.0.0.1", 1)
    await harness.open()
    with pytest.raises(TunnelRefused, match="cannot reach its API server"):
        await harness.tunnels.stream(CLUSTER)


@scenes
async def test_the_end_of_a_tunnel_is_the_end_of_its_streams(harness: TunnelHarness) -> None:
    gateway, _ = await harness.open()
    joint = await harness.tunnels.stream(CLUSTER)
    gateway.abort()
    await until(lambda: joint.stream.closed and harness.tunnels.count(CLUSTER) == 0)
    assert harness.tunnels.base_path(CLUSTER) is None
    assert harness.changes == [CLUSTER, CLUSTER]
    with pytest.raises(TunnelRefused, match="no tunnel"):
        await harness.tunnels.stream(CLUSTER)


@scenes
async def test_an_agent_that_leaves_lets_streams_end_and_gets_no_new_ones(harness: TunnelHarness) -> None:
    await harness.open()
    client = Client.of(await harness.tunnels.stream(CLUSTER))
    stopping = asyncio.create_task(harness.agent._server.drain(5))
    await until(lambda: harness.tunnels.count(CLUSTER) == 0)
    client.stream.send(b"still")
    await until(lambda: bytes(client.__dict__.get("received", b"")) == b"still")
    client.stream.send(b"", end=True)
    await stopping
    await asyncio.gather(*harness.tasks)


@scenes
async def test_a_gateway_that_stops_lets_streams_end(harness: TunnelHarness) -> None:
    await harness.open()
    client = Client.of(await harness.tunnels.stream(CLUSTER))
    harness.tunnels.close()
    client.stream.send(b"still")
    await until(lambda: bytes(client.__dict__.get("received", b"")) == b"still")
    client.stream.send(b"", end=True)
    await asyncio.gather(*harness.tasks)


@scenes
async def test_the_newest_tunnel_is_used_and_the_oldest_goes(harness: TunnelHarness) -> None:
    for _ in range(MAX_TUNNELS + 2):
        await harness.open()
    await until(lambda: harness.tunnels.count(CLUSTER) == MAX_TUNNELS)
    newest = harness.tunnels._tunnels[CLUSTER][-1]
    assert (await harness.tunnels.stream(CLUSTER)).stream.connection is newest


def hostile(said: bytes) -> None:
    """What an agent says that means harm, inside the WebSocket or as one: its tunnel ends, and nothing else happens."""

    async def run() -> None:
        tunnels = Tunnels(lambda _: None)
        gateway, agent = pipes()
        task = asyncio.create_task(tunnels.serve(CLUSTER, "", cast(RawConnection, gateway)))
        agent.write(said)
        async with asyncio.timeout(5):
            await task
        assert tunnels.count(CLUSTER) == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "inside",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\x04\x00\x00\x00\x00\x00",
        # The agent is the server here: it opens no streams of its own.
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x04\x00\x00\x00\x00\x00\x01abcd",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678" * 5000,
    ],
    ids=["no http2", "giant frame", "stream of its own", "data of nothing", "flood of pings"],
)
def test_what_breaks_http2_ends_the_tunnel(inside: bytes) -> None:
    hostile(WebSocketCodec(client=True).data(inside))


def test_what_breaks_the_websocket_ends_the_tunnel() -> None:
    codec = WebSocketCodec(client=True)
    hostile(b"\x82\xff" + (1 << 50).to_bytes(8, "big") + b"mask")
    hostile(b"\x81\x81maska")
    hostile(codec.ping(b"x") * 5000)
    hostile(codec.data(b"") * 5000)
    hostile(codec.close())


def test_a_websockets_end_is_answered() -> None:
    async def run() -> None:
        gateway, agent = pipes()
        task = asyncio.create_task(Tunnels(lambda _: None).serve(CLUSTER, "", cast(RawConnection, gateway)))
        agent.write(WebSocketCodec(client=True).close(1001, "bye"))
        await task
        events = WebSocketCodec(client=True).feed(await agent.read())
        assert events[-1] == Close(1001, "")

    asyncio.run(run())


def test_an_agent_is_known_by_its_own_cluster() -> None:
    prefix = "system:open-cluster-management:"
    groups = (f"{prefix}cluster:one:addon:cluster-gateway", f"{prefix}addon:cluster-gateway")
    agent = UserInfo(f"{groups[0]}:agent:cluster-gateway-agent", groups=groups)
    account = UserInfo("system:serviceaccount:one:cluster-gateway-agent")
    for who in (agent, account):
        assert foreign_agent_problem(who, "one") == ""
        assert "agent of another cluster" in foreign_agent_problem(who, "two")
    # Others are RBAC's business.
    assert foreign_agent_problem(UserInfo("jane"), "two") == ""


@scenes
async def test_a_tunnel_that_has_ended_needs_no_garbage_collector(harness: TunnelHarness) -> None:
    """One that comes and goes often would take tens of megabytes until the collector looks at what has lived long."""
    gateway, _ = await harness.open()
    (tunnel,) = harness.tunnels._tunnels[CLUSTER]
    known = weakref.ref(tunnel)
    del tunnel
    gc.disable()
    try:
        gateway.close()
        await asyncio.gather(*harness.tasks, return_exceptions=True)
        harness.tasks.clear()
        await until(lambda: known() is None)
    finally:
        gc.enable()
