"""Credentials, authorities and addresses that change while requests and streams are under way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from muster.gateway.relay import tls_contexts
from muster.gateway.target import BearerToken, Endpoint, Trust
from muster.http import Answer, Request, Response, StreamWriter, encode_chunk
from tests.support.proxy import Proxy
from tests.unit.http.pki import Authority
from tests.unit.http.wire import Peer, Reply, request

from .conftest import StartCluster, StartGateway
from .harness import PREFIX, Gateway, certificate_of, streaming


class Watched:
    """A cluster whose API server knows one token, and whose watches send what a test says."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.refused = 0
        self._events: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, incoming: Request) -> Answer:
        body = await incoming.read_body()
        if incoming.headers.get("authorization") != f"Bearer {self.token}":
            self.refused += 1
            return Response(401, b"no")
        return streaming(then=self._run) if "watch=true" in incoming.query else Response(200, b"ok" + body)

    async def _run(self, writer: StreamWriter) -> None:
        while event := await self._events.get():
            writer.write(event)

    def happen(self, event: bytes) -> None:
        self._events.put_nowait(event)


async def watching(gateway: Gateway) -> Peer:
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    assert (await peer.head())[0] == 200
    return peer


async def test_a_token_changes_under_load_and_no_client_hears_of_it(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    server = Watched("t0")
    cluster = await start_cluster(behaviour=server)
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=BearerToken("t0")))
    watch = await watching(gateway)
    statuses: list[list[int]] = [[] for _ in range(8)]
    over = asyncio.Event()

    async def load(heard: list[int]) -> None:
        peer = await gateway.peer()
        while not over.is_set():
            peer.send(request("POST", f"{PREFIX}/foo/proxy/api", body=b"{}"))
            heard.append((await peer.reply()).status)

    load_tasks = [asyncio.create_task(load(heard)) for heard in statuses]

    async def rotate(number: int) -> None:
        asked, answered = gateway.known.refreshes, [len(heard) for heard in statuses]
        renewed = cluster.target(credential=BearerToken(f"t{number}"))
        # The hub has the new token, our cache has not heard of it, and the old one is no longer good.
        gateway.known.on_hub["foo"] = renewed
        server.token = f"t{number}"
        await _until(lambda: gateway.known.refreshes > asked)
        gateway.knows(renewed)
        # A token that is gone before it was used is another story.
        await _until(lambda: all(len(heard) > many + 2 for heard, many in zip(statuses, answered, strict=True)))
        server.happen(b"event %d" % number)
        assert await watch.chunk() == b"event %d" % number

    for number in range(1, 6):
        await rotate(number)
    over.set()
    await asyncio.gather(*load_tasks)
    assert {status for heard in statuses for status in heard} == {200}
    assert server.refused > 0
    assert gateway.traffic.in_flight["foo", "stream"] == 1
    assert not gateway.known.failures


async def test_a_streamed_body_is_not_sent_twice(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    server = Watched("new")
    cluster = await start_cluster(behaviour=server)
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=BearerToken("old")))
    gateway.known.on_hub["foo"] = cluster.target(credential=BearerToken("new"))
    peer = await gateway.peer()
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api", "Transfer-Encoding: chunked") + encode_chunk(b"piece") + b"0\r\n\r\n")
    reply = await peer.reply()
    assert reply.status == 503
    assert b"CredentialRefused" in reply.body
    assert server.refused == 1


async def test_one_refresh_serves_all_who_were_refused(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    server = Watched("new")
    cluster = await start_cluster(behaviour=server)
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=BearerToken("old")))
    go = asyncio.Event()
    gateway.known.on_hub["foo"] = cluster.target(credential=BearerToken("new"))
    refreshed = gateway.known.refreshed

    async def slow(cluster: str) -> Any:
        await go.wait()
        return await refreshed(cluster)

    gateway.known.refreshed = slow  # type: ignore[method-assign]
    asked = [asyncio.create_task(gateway.get("foo", "/api")) for _ in range(10)]
    await _until(lambda: server.refused == 10)
    go.set()
    assert {reply.status for reply in await asyncio.gather(*asked)} == {200}
    assert gateway.known.refreshes == 1


async def test_a_hub_that_fails_to_answer_leaves_the_refusal(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster(behaviour=Watched("new"))
    gateway = await start_gateway(cluster)

    async def fail(cluster: str) -> Any:
        raise OSError("the hub is away")

    gateway.known.refreshed = fail  # type: ignore[method-assign]
    assert (await gateway.get("foo", "/api")).status == 503


async def test_another_certificate_takes_another_connection_and_cuts_no_stream(
    start_cluster: StartCluster, start_gateway: StartGateway, client_ca: Authority
) -> None:
    async def who(incoming: Request) -> Answer:
        if "watch=true" in incoming.query:
            return streaming(b"ADDED", then=run)
        return Response(200, str(hash(incoming.connection.peer_certificate)).encode())

    async def run(writer: StreamWriter) -> None:
        await more.wait()
        writer.write(b"MODIFIED")

    more = asyncio.Event()
    cluster = await start_cluster(behaviour=who)
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=certificate_of(client_ca, "first")))
    watch = await watching(gateway)
    assert await watch.chunk() == b"ADDED"
    first = [(await gateway.get("foo", "/api")).body for _ in range(3)]
    gateway.knows(cluster.target(credential=certificate_of(client_ca, "second")))
    second = [(await gateway.get("foo", "/api")).body for _ in range(3)]
    assert len({*first}) == len({*second}) == 1
    assert first[0] != second[0]
    more.set()
    assert await watch.chunk() == b"MODIFIED"
    assert await watch.chunk() == b""
    await _until(lambda: cluster.server.connections == 1)


async def test_requests_with_the_target_of_a_moment_ago_do_not_bring_it_back(
    start_cluster: StartCluster, start_gateway: StartGateway, client_ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    make = tls_contexts.make_context

    def counted(trust: Trust, credential: Any) -> ssl.SSLContext:
        nonlocal made
        made += 1
        return make(trust, credential)

    monkeypatch.setattr(tls_contexts, "make_context", counted)
    now = 0.0
    cluster = await start_cluster()
    gateway = await start_gateway(clock=lambda: now)
    targets = [cluster.target(credential=certificate_of(client_ca, name)) for name in ("old", "new")]
    for target in targets * 3:
        gateway.knows(target)
        assert (await gateway.get("foo", "/api")).status == 200
    assert made == 2
    now = 60.0
    gateway.knows(targets[0])
    assert [(await gateway.get("foo", "/api")).status for _ in range(3)] == [200] * 3
    assert made == 3


async def test_authority_and_address_change_without_a_restart(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    before = await start_cluster()
    after = await start_cluster(authority=Authority("another"))
    gateway = await start_gateway(before)
    assert (await gateway.get("foo", "/api")).status == 200
    gateway.knows(before.target(endpoints=(Endpoint("127.0.0.1", after.server.port),)))
    assert (await gateway.get("foo", "/api")).status == 502
    gateway.knows(after.target())
    assert (await gateway.get("foo", "/api")).status == 200
    await _until(lambda: before.server.connections == 0)
    gateway.relay.forget("foo")
    await _until(lambda: after.server.connections == 0)


async def test_a_context_is_made_once_for_what_it_is_made_of(
    start_cluster: StartCluster, start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Trust] = []
    make = tls_contexts.make_context

    def counted(trust: Trust, credential: Any) -> ssl.SSLContext:
        made.append(trust)
        return make(trust, credential)

    monkeypatch.setattr(tls_contexts, "make_context", counted)
    cluster, other = await start_cluster(), await start_cluster("bar")
    gateway = await start_gateway(cluster, other)
    await asyncio.gather(*[gateway.get("foo", "/api") for _ in range(10)])
    gateway.knows(cluster.target(credential=BearerToken("another")))
    await gateway.get("foo", "/api")
    assert len(made) == 1
    await gateway.get("bar", "/api")
    assert len(made) == 2
    gateway.knows(cluster.target(trust=Trust()), other.target(trust=Trust()))
    await asyncio.gather(gateway.get("foo", "/api"), gateway.get("bar", "/api"))
    assert made[2:] == [Trust()]


async def test_a_proxy_leads_to_the_cluster(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    with Proxy({"127.0.0.1:9": f"127.0.0.1:{cluster.server.port}"}) as proxy:
        gateway.knows(cluster.target(endpoints=(Endpoint("127.0.0.1", 9),), proxy_url=proxy.url))
        replies: list[Reply] = [await gateway.get("foo", "/api") for _ in range(3)]
        assert [reply.body for reply in replies] == [b"ok"] * 3
        assert proxy.asked == ["127.0.0.1:9"]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - servers have no event for what only tests wait for
            await asyncio.sleep(0.001)
