"""Clusters behind cluster-proxy: connections through a konnectivity server, what it may refuse, break, stall and make up."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.gateway.konnectivity.cluster_proxy import ClusterProxy, ClusterProxyOptions, ProxyRefused
from muster.gateway.konnectivity.link import CHUNK_SIZE
from muster.gateway.konnectivity.packets import data_packet
from muster.gateway.target import Endpoint, Target, Trust
from muster.http import Answer, Request, Response, StreamWriter, server_context
from muster.http.http2.client import STREAM_WINDOW
from muster.transport.rpc.messages import MAX_MESSAGE
from tests.support.konnectivity import DRAIN, KonnectivityServer, ProxyCall, close_response, dial_close, dial_response, message
from tests.unit.http.pki import Authority
from tests.unit.http.wire import Reply, request

from .conftest import StartCluster, StartGateway
from .harness import PREFIX, TOKEN, Cluster, Gateway, streaming

API_SERVER = Endpoint("kubernetes.default.svc", 443)


class Files:
    """Certificates of the proxy and of its clients, and the gateway's files."""

    def __init__(self, directory: Path) -> None:
        self.servers = Authority("proxy-server-ca")
        self.clients = Authority("proxy-client-ca")
        self.options = ClusterProxyOptions("127.0.0.1", 0, directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
        self.write()

    def write(self, servers: Authority | None = None) -> None:
        certificate, key, _ = self.clients.issue("gateway", client=True)
        self.options.ca.write_bytes((servers or self.servers).pem)
        self.options.cert.write_bytes(certificate)
        self.options.key.write_bytes(key)

    def server(self) -> KonnectivityServer:
        certificate, key, _ = self.servers.issue("proxy", client=False)
        return KonnectivityServer(server_context(certificate, key, self.clients.pem, alpn="h2"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def server(files: Files) -> AsyncIterator[KonnectivityServer]:
    made = files.server()
    await made.start()
    yield made
    await made.stop()


StartProxy = Callable[..., ClusterProxy]


@pytest.fixture
async def start_proxy(files: Files, server: KonnectivityServer) -> AsyncIterator[StartProxy]:
    made: list[ClusterProxy] = []

    def start(port: int = 0, **options: Any) -> ClusterProxy:
        given = files.options
        where = ClusterProxyOptions(given.host, port or server.port, given.ca, given.cert, given.key)
        made.append(ClusterProxy(where, **options))
        return made[-1]

    yield start
    for proxy in made:
        await proxy.close()
        assert not proxy.links


def behind(cluster: Cluster, **changes: Any) -> Target:
    trust = Trust(cluster.authority.pem, "localhost")
    return cluster.target(**{"endpoints": (API_SERVER,), "trust": trust, "cluster_proxy": True, **changes})


StartBehind = Callable[..., Awaitable[tuple[Cluster, Gateway, ClusterProxy]]]


@pytest.fixture
async def start(
    server: KonnectivityServer, start_proxy: StartProxy, start_cluster: StartCluster, start_gateway: StartGateway
) -> StartBehind:
    """A cluster behind the proxy, and a gateway that knows of it."""

    async def begin(
        behaviour: Any = None, proxy: ClusterProxy | None = None, changes: dict[str, Any] | None = None, **options: Any
    ) -> tuple[Cluster, Gateway, ClusterProxy]:
        proxy = proxy or start_proxy()
        cluster = await start_cluster(**({"behaviour": behaviour} if behaviour else {}))
        server.routes[cluster.name] = cluster.server.port
        gateway = await start_gateway(cluster_proxy=proxy, **options)
        gateway.knows(behind(cluster, **(changes or {})))
        return cluster, gateway, proxy

    return begin


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def cause(reply: Reply, code: int) -> tuple[str, str]:
    status = orjson.loads(reply.body)
    assert reply.status == status["code"] == code, status
    assert TOKEN not in reply.body.decode()
    return status["details"]["causes"][0]["reason"], status["message"]


async def echo(incoming: Request) -> Answer:
    return Response(200, await incoming.read_body())


async def test_requests_arrive_with_the_credential_and_share_connections(start: StartBehind, server: KonnectivityServer) -> None:
    cluster, gateway, proxy = await start()
    for number in range(3):
        assert (await gateway.get("foo", f"/api/v1/pods?n={number}")).status == 200
    assert cluster.targets == [f"/api/v1/pods?n={number}" for number in range(3)]
    assert cluster.last.get("authorization") == f"Bearer {TOKEN}"
    assert cluster.last.get("host") == "kubernetes.default.svc:443"
    assert len(server.calls) == proxy.links == 1, "upstream opens a tunnel for each request"
    assert server.http.connections == 1


async def test_large_bodies_both_ways(start: StartBehind) -> None:
    cluster, gateway, _ = await start(echo)
    body = os.urandom(2_500_000)
    reply = await gateway.ask("POST", f"{PREFIX}/foo/proxy/api/v1/things", body=body)
    assert (reply.status, reply.body == body) == (200, True)
    assert len(cluster.received) == 1


async def test_streams_pass_as_they_come(start: StartBehind) -> None:
    more = asyncio.Event()

    async def watch(incoming: Request) -> Answer:
        async def then(writer: StreamWriter) -> None:
            await more.wait()
            writer.write(b"second")

        return streaming(b"first", then=then)

    _, gateway, _ = await start(watch)
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    assert (await peer.head())[0] == 200
    assert await peer.chunk() == b"first"
    more.set()
    assert await peer.chunk() == b"second"


async def test_a_drain_ends_nothing(start: StartBehind, server: KonnectivityServer) -> None:
    async def draining(call: ProxyCall) -> None:
        await call.send(DRAIN)
        leading = asyncio.create_task(server.lead(call))
        await call.send(DRAIN)
        await leading

    server.behaviour = draining
    _, gateway, _ = await start()
    for _ in range(2):
        assert (await gateway.get("foo", "/version")).status == 200
    assert len(server.calls) == 1


async def test_clusters_do_not_share_connections(
    start: StartBehind, server: KonnectivityServer, start_cluster: StartCluster
) -> None:
    cluster, gateway, _ = await start()
    other = await start_cluster("bar")
    server.routes["bar"] = other.server.port
    gateway.knows(behind(other))
    for name in ("foo", "bar", "foo", "bar"):
        assert (await gateway.get(name, f"/{name}")).status == 200
    assert (cluster.targets, other.targets) == (["/foo"] * 2, ["/bar"] * 2)
    assert len(server.calls) == 2
    assert server.http.connections == 1


# Nobody to dial


async def test_the_proxys_refusal_is_told(start: StartBehind, server: KonnectivityServer) -> None:
    _, gateway, proxy = await start()
    server.routes.clear()
    reason, text = cause(await gateway.get("foo", "/version"), 503)
    assert reason == "ClusterUnreachable"
    assert f"cluster-proxy at {proxy.name} refused: No agent available" in text
    await until(lambda: not server.http.streams)


async def test_an_error_of_many_odd_characters_is_made_fit(start: StartBehind, server: KonnectivityServer) -> None:
    async def odd(call: ProxyCall) -> None:
        _, random = await call.dialled()
        await call.send(dial_response(random, error="a\x1b[2Jb\n" + "x" * 100_000))

    server.behaviour = odd
    _, gateway, _ = await start()
    _, text = cause(await gateway.get("foo", "/version"), 503)
    assert r"refused: a\x1b[2Jb\nxxx" in text
    assert len(text) < 1000


async def test_a_dial_that_takes_too_long_is_a_timeout(start: StartBehind, server: KonnectivityServer) -> None:
    server.behaviour = ProxyCall.over
    _, gateway, _ = await start(connect_timeout=1.0)
    reason, _ = cause(await gateway.get("foo", "/version"), 504)
    assert reason == "ConnectionTimeout"
    # The proxy is told that nobody waits any longer.
    await until(lambda: server.resets == 1)


@pytest.mark.parametrize(
    "answer",
    [
        lambda random: dial_response(random + 1, 7),
        lambda random: dial_response(random, 0),
        dial_close,
        lambda random: data_packet(7, b"HTTP/1.1 200 OK\r\n\r\n"),
        lambda random: message((1, 99)),
        lambda random: b"\xff",
    ],
    ids=["of another dial", "without a connection", "given up", "data", "unknown", "malformed"],
)
async def test_what_is_no_answer_to_a_dial(start: StartBehind, server: KonnectivityServer, answer: Callable[[int], bytes]) -> None:
    async def wrong(call: ProxyCall) -> None:
        _, random = await call.dialled()
        await call.send(answer(random))
        await call.over()

    server.behaviour = wrong
    _, gateway, _ = await start()
    assert cause(await gateway.get("foo", "/version"), 503)[0] == "ClusterUnreachable"
    assert server.calls[-1].received == 0
    server.behaviour = server.lead
    await until(lambda: not server.http.streams)


async def test_a_proxy_that_is_away_and_comes_back(
    start: StartBehind, start_proxy: StartProxy, files: Files, server: KonnectivityServer
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    cluster, gateway, _ = await start(proxy=start_proxy(port))
    reason, text = cause(await gateway.get("foo", "/version"), 503)
    assert reason == "ClusterUnreachable"
    assert "connection refused" in text
    late = files.server()
    late.routes["foo"] = cluster.server.port
    await late.start(port)
    try:
        assert (await gateway.get("foo", "/version")).status == 200
    finally:
        await late.stop()


# Who is trusted


async def test_a_proxy_that_nobody_vouches_for_is_told_nothing(
    start: StartBehind, files: Files, server: KonnectivityServer
) -> None:
    files.write(servers=Authority("another"))
    cluster, gateway, proxy = await start()
    reason, text = cause(await gateway.get("foo", "/version"), 503)
    assert reason == "ClusterUnreachable"
    assert f"cluster-proxy at {proxy.name}" in text
    assert "TLS: unable to get local issuer certificate" in text
    assert (server.calls, cluster.received) == ([], [])


async def test_files_may_come_later(start: StartBehind, files: Files) -> None:
    files.options.key.unlink()
    _, gateway, _ = await start()
    _, text = cause(await gateway.get("foo", "/version"), 503)
    assert "tls.key: no such file" in text
    files.write()
    assert (await gateway.get("foo", "/version")).status == 200


async def test_new_certificates_are_for_new_connections_and_cut_none(
    start: StartBehind, files: Files, server: KonnectivityServer
) -> None:
    more = asyncio.Event()

    async def watch(incoming: Request) -> Answer:
        async def then(writer: StreamWriter) -> None:
            await more.wait()
            writer.write(b"second")

        return streaming(b"first", then=then) if "watch" in incoming.target else Response(200, b"ok")

    _, gateway, _ = await start(watch)
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    await peer.head()
    assert await peer.chunk() == b"first"
    files.write()
    assert (await gateway.get("foo", "/version")).status == 200
    assert server.http.connections == 2
    more.set()
    assert await peer.chunk() == b"second"


@pytest.mark.parametrize("wrong", ["authority", "name"])
async def test_a_cluster_that_does_not_prove_itself_is_sent_nothing(
    start: StartBehind, server: KonnectivityServer, authority: Authority, wrong: str
) -> None:
    """Whoever stands at the end of the way: the agent may lead anywhere."""
    trust = Trust(Authority("another").pem, "localhost") if wrong == "authority" else Trust(authority.pem)
    cluster, gateway, _ = await start(changes={"trust": trust})
    reason, _ = cause(await gateway.get("foo", "/version"), 502)
    assert reason == "CertificateMismatch"
    assert cluster.received == []


# Breaking off


async def test_a_close_within_a_body_is_no_end_of_it(start: StartBehind, server: KonnectivityServer) -> None:
    async def endless(incoming: Request) -> Answer:
        async def then(writer: StreamWriter) -> None:
            await asyncio.Event().wait()

        return streaming(b"a part", then=then)

    async def closing(call: ProxyCall) -> None:
        leading = asyncio.create_task(server.lead(call))
        await cut.wait()
        await call.send(close_response(call.number))
        await leading

    cut = asyncio.Event()
    server.behaviour = closing
    _, gateway, proxy = await start(endless)
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    await peer.head()
    assert await peer.chunk() == b"a part"
    cut.set()
    assert await peer.rest() == b"", "no last chunk"
    await until(lambda: not proxy.links)
    assert server.resets == 0, "what the proxy has closed is ended in peace"


async def test_what_came_before_a_close_arrives(start_proxy: StartProxy, server: KonnectivityServer) -> None:
    async def closing(call: ProxyCall) -> None:
        _, random = await call.dialled()
        await call.send(dial_response(random, call.number))
        for _ in range(64):
            await call.send(data_packet(call.number, bytes(8192)))
        await call.send(close_response(call.number, "use of closed network connection"))
        await call.over()

    server.behaviour = closing
    proxy = start_proxy()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    await proxy.lead("foo", theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    async with asyncio.timeout(20):
        assert len(await reader.read()) == 64 * 8192
    writer.close()


async def test_closing_waits_for_no_reader(start_proxy: StartProxy, server: KonnectivityServer) -> None:
    async def flooding(call: ProxyCall) -> None:
        _, random = await call.dialled()
        await call.send(dial_response(random, call.number))
        while not call.stream.closed:
            await call.send(data_packet(call.number, bytes(65536)))

    server.behaviour = flooding
    proxy = start_proxy(stall_timeout=600)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    await proxy.lead("foo", theirs)
    await until(lambda: server.calls[0].stream.unsent)
    async with asyncio.timeout(20):
        await proxy.close()
    ours.close()


async def data_of_another(call: ProxyCall) -> None:
    await call.send(data_packet(call.number + 1, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))


async def malformed(call: ProxyCall) -> None:
    await call.send(b"\x0b\x0b")


async def a_second_dial(call: ProxyCall) -> None:
    await call.send(dial_response(1, call.number))


async def an_error(call: ProxyCall) -> None:
    await call.send(message((1, 4), (4, message((1, call.number), (2, "broken pipe")))))


async def a_giant(call: ProxyCall) -> None:
    call.stream.send(b"\x00" + (MAX_MESSAGE + 1).to_bytes(4, "big") + bytes(1000))


async def a_reset(call: ProxyCall) -> None:
    call.reset()


async def very_many_fields(call: ProxyCall) -> None:
    await call.send(b"\x48\x00" * (MAX_MESSAGE // 2))


@pytest.mark.parametrize(
    "harm", [data_of_another, malformed, a_second_dial, an_error, a_giant, a_reset, very_many_fields], ids=lambda one: one.__name__
)
async def test_what_breaks_the_protocol_ends_one_connection(
    start: StartBehind, server: KonnectivityServer, harm: Callable[[ProxyCall], Awaitable[None]]
) -> None:
    async def harming(call: ProxyCall) -> None:
        leading = asyncio.create_task(server.lead(call))
        if call.number == 2:
            await until(lambda: len(cluster.received) == 2)
            await harm(call)
        await leading

    async def slow(incoming: Request) -> Answer:
        if "slow" in incoming.target:
            await going.wait()
        return Response(200, b"ok")

    going = asyncio.Event()
    server.behaviour = harming
    cluster, gateway, proxy = await start(slow)
    first = asyncio.create_task(gateway.get("foo", "/slow"))
    await until(lambda: len(cluster.received) == 1)
    reason, _ = cause(await gateway.get("foo", "/slow"), 502)
    assert reason == "ClusterBroken"
    going.set()
    assert (await first).status == 200, "the other connection goes on"
    assert (await gateway.get("foo", "/version")).status == 200
    assert server.http.connections == 1
    await until(lambda: proxy.links == 1)


# Stalling


async def flood(incoming: Request) -> Answer:
    async def then(writer: StreamWriter) -> None:
        for _ in range(1024):
            writer.write(bytes(65536))
            await writer.drain()

    return streaming(then=then) if "log" in incoming.target else Response(200, b"ok")


async def stalled(gateway: Gateway, server: KonnectivityServer) -> None:
    """A reader that has stopped to read, with the proxy waiting for it."""
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/namespaces/a/pods/b/log?follow=true"))
    await peer.head()
    call = server.calls[-1]
    await until(lambda: call.stream.unsent and call.stream.window <= 0)


async def test_who_does_not_read_stalls_only_itself_in_bounded_memory(start: StartBehind, server: KonnectivityServer) -> None:
    _, gateway, proxy = await start(flood)
    for _ in range(4):
        await stalled(gateway, server)
    assert proxy.links == 4
    for _ in range(20):
        assert (await gateway.get("foo", "/version")).status == 200
    channel = proxy._channel
    assert channel is not None
    (connection,) = channel._connections
    for stream in list(connection.streams.values()):
        assert stream.handler._buffered <= STREAM_WINDOW  # type: ignore[attr-defined]


async def test_a_connection_that_nobody_reads_is_cut_before_the_proxy_waits_for_long(
    start: StartBehind, server: KonnectivityServer, start_proxy: StartProxy
) -> None:
    _, gateway, proxy = await start(flood, proxy=start_proxy(stall_timeout=0.2))
    await stalled(gateway, server)
    await until(lambda: not proxy.links and server.resets == 1)
    assert (await gateway.get("foo", "/version")).status == 200


async def test_what_the_proxy_does_not_take_is_not_read(start_proxy: StartProxy, server: KonnectivityServer) -> None:
    async def deaf(call: ProxyCall) -> None:
        _, random = await call.dialled()
        await call.send(dial_response(random, call.number))
        await asyncio.Event().wait()

    server.behaviour = deaf
    proxy = start_proxy()
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    await proxy.lead("foo", theirs)
    loop, sent = asyncio.get_running_loop(), 0
    try:
        while True:
            async with asyncio.timeout(1):
                await loop.sock_sendall(ours, bytes(CHUNK_SIZE))
            sent += CHUNK_SIZE
    except TimeoutError:
        pass
    assert sent < 1 << 20
    assert server.calls[0].stream.unconsumed == 0
    server.routes["bar"] = 1
    server.behaviour = server.lead
    other, end = socket.socketpair()
    end.setblocking(False)
    with pytest.raises(ProxyRefused, match="dial tcp"):
        await proxy.lead("bar", end)
    other.close()
    ours.close()


# Ends


async def test_nothing_is_left_of_connections_that_ended(start_proxy: StartProxy, server: KonnectivityServer) -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(10))
        await writer.drain()
        if not await reader.read(1):
            writer.close()

    proxy = start_proxy()
    async with await asyncio.start_server(listen, "127.0.0.1", 0) as api_server:
        server.routes["foo"] = api_server.sockets[0].getsockname()[1]
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            ours, theirs = socket.socketpair()
            for one in (ours, theirs):
                one.setblocking(False)
            await proxy.lead("foo", theirs)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(ours, b"hello")
            assert await loop.sock_recv(ours, 10) == b"hello"
            ours.close()
        await until(lambda: not proxy.links and not server.http.streams and not server.tasks)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)
    assert server.resets == 0


async def test_closing_ends_what_is_under_way(start: StartBehind, server: KonnectivityServer) -> None:
    async def forever(incoming: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    cluster, gateway, proxy = await start(forever)
    asked = asyncio.create_task(gateway.get("foo", "/version"))
    await until(lambda: cluster.received)
    await proxy.close()
    assert cause(await asked, 502)[0] == "ClusterBroken"
    assert proxy.links == 0
