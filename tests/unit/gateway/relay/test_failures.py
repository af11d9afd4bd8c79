"""What a client hears when a cluster does not answer: which code, which cause, and that nothing secret is in it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from muster.gateway.relay import ClusterError, Limits
from muster.gateway.target import BearerToken, ClientCertificate, Endpoint, Problem, Target, Trust
from muster.http import Answer, HttpServer, Request, Response, StreamWriter
from tests.unit.http.pki import Authority
from tests.unit.http.wire import Reply, request

from .conftest import StartCluster, StartGateway
from .harness import ACCOUNT, PREFIX, TOKEN, arrived, certificate_of, streaming


def cause(reply: Reply, code: int) -> str:
    status = orjson.loads(reply.body)
    assert (reply.status, status["code"], status["kind"], status["status"]) == (code, code, "Status", "Failure")
    assert status["message"].startswith('cluster-gateway: cluster "foo": ')
    assert (status["details"]["name"], status["details"]["kind"]) == ("foo", "clustergateways")
    assert TOKEN not in reply.body.decode()
    return str(status["details"]["causes"][0]["reason"])


@pytest.fixture
async def dead_port() -> AsyncIterator[int]:
    """A port where nobody listens, which stays free."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


RawServer = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[int]]


@pytest.fixture
async def raw_server() -> AsyncIterator[RawServer]:
    """A server that does with a connection what a test says."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> int:
            server = await stack.enter_async_context(await asyncio.start_server(serve, "127.0.0.1", 0))
            return int(server.sockets[0].getsockname()[1])

        yield start


async def test_a_target_with_a_problem_says_so(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    past = datetime.now(UTC) - timedelta(seconds=1)
    for changes, expected in (
        ({"problem": Problem("EndpointUnusable", "spec: no https")}, "EndpointUnusable"),
        ({"credential": None}, "CredentialMissing"),
        ({"endpoints": ()}, "EndpointMissing"),
        ({"credential": BearerToken(TOKEN, past)}, "CredentialExpired"),
        ({"credential": BearerToken("two\nlines")}, "CredentialUnusable"),
        ({"credential": ClientCertificate(b"none", b"none")}, "CredentialUnusable"),
        ({"credential": ClientCertificate(b"none", b"-----BEGIN ENCRYPTED PRIVATE KEY-----")}, "CredentialUnusable"),
        ({"trust": Trust(b"no certificate")}, "EndpointUnusable"),
        ({"proxy_url": "socks4://user:hunter2@proxy"}, "EndpointUnusable"),
    ):
        gateway.knows(cluster.target(**changes))
        reply = await gateway.get("foo", "/api")
        assert cause(reply, 503) == expected
        assert b"hunter2" not in reply.body
        assert gateway.known.failures[-1][1].cause == expected
    assert not cluster.received
    assert gateway.traffic.now == 0


async def test_a_cluster_that_is_not_there(start_gateway: StartGateway, dead_port: int) -> None:
    gateway = await start_gateway()
    gateway.knows(Target("foo", (Endpoint("127.0.0.1", dead_port),), Trust(), BearerToken(TOKEN)))
    reply = await gateway.get("foo", "/api")
    assert cause(reply, 503) == "ClusterUnreachable"
    assert reply.headers["retry-after"] == "5"
    gateway.knows(Target("foo", (Endpoint("no-such-host.invalid", 443),), Trust(), BearerToken(TOKEN)))
    assert cause(await gateway.get("foo", "/api"), 503) == "ClusterUnreachable"


async def test_an_unknown_cluster(start_gateway: StartGateway) -> None:
    assert cause(await (await start_gateway()).get("foo", "/api"), 404) == "ClusterUnknown"


async def test_a_cluster_that_does_not_shake_hands(start_gateway: StartGateway, raw_server: RawServer) -> None:
    gateway = await start_gateway(connect_timeout=0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    gateway.knows(Target("foo", (Endpoint("127.0.0.1", await raw_server(silent)),), Trust(), BearerToken(TOKEN)))
    assert cause(await gateway.get("foo", "/api"), 504) == "ConnectionTimeout"


async def test_a_certificate_that_does_not_verify_gets_no_credential(
    start_cluster: StartCluster, start_gateway: StartGateway, client_ca: Authority
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    for trust in (Trust(Authority("another").pem), Trust(cluster.authority.pem, server_name="example.org"), Trust()):
        for credential in (BearerToken(TOKEN), certificate_of(client_ca, "gateway")):
            gateway.knows(cluster.target(trust=trust, credential=credential))
            assert cause(await gateway.get("foo", "/api"), 502) == "CertificateMismatch"
    assert not cluster.received


async def test_a_server_that_does_not_speak_tls(start_gateway: StartGateway, raw_server: RawServer) -> None:
    seen = bytearray()

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    gateway = await start_gateway()
    gateway.knows(Target("foo", (Endpoint("127.0.0.1", await raw_server(plain)),), Trust(), BearerToken(TOKEN)))
    assert cause(await gateway.get("foo", "/api"), 502) == "ClusterBroken"
    assert TOKEN.encode() not in seen


async def test_a_client_certificate_that_the_cluster_does_not_know(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=certificate_of(Authority("unknown"), "gateway")))
    reply = await gateway.get("foo", "/api")
    assert cause(reply, reply.status) in ("CredentialRefused", "ClusterBroken")
    assert b"client certificate" in reply.body
    assert not cluster.received


async def test_a_redirection_does_not_pass(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def redirect(incoming: Request) -> Answer:
        return Response(302, b"moved to https://10.1.2.3/", [("Location", "https://10.1.2.3/")])

    gateway = await start_gateway(await start_cluster(behaviour=redirect))
    reply = await gateway.get("foo", "/api")
    assert cause(reply, 502) == "ClusterRedirected"
    assert b"10.1.2.3" not in reply.body
    assert "location" not in reply.headers


async def test_what_runs_on_a_cluster_does_not_speak_for_the_cluster(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def application(incoming: Request) -> Answer:
        async def fail(writer: StreamWriter) -> None:
            raise ConnectionError

        if incoming.target.endswith("/redirect"):
            return Response(302, b"", [("Location", "/login")])
        return streaming(b"half", then=fail) if incoming.target.endswith("/torn") else Response(401, b"who are you?")

    gateway = await start_gateway(await start_cluster(behaviour=application))
    service = f"{PREFIX}/foo/proxy/api/v1/namespaces/a/services/s/proxy"
    assert (await gateway.ask("GET", f"{service}/redirect")).status == 502
    assert (await gateway.ask("GET", f"{service}/login")).status == 503
    peer = await gateway.peer()
    peer.send(request("GET", f"{service}/torn"))
    await peer.rest()
    await gateway.emptied()
    assert not gateway.known.failures


async def test_an_answer_that_is_not_changed_is_no_redirection(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def unchanged(incoming: Request) -> Answer:
        return Response(304, b"", [("ETag", '"1"')])

    gateway = await start_gateway(await start_cluster(behaviour=unchanged))
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/openapi/v2", 'If-None-Match: "1"'))
    assert (await peer.head())[0] == 304


async def test_a_cluster_that_closes_without_an_answer_is_no_reason_to_try_again(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def hang_up(incoming: Request) -> Answer:
        raise asyncio.CancelledError

    gateway = await start_gateway(await start_cluster(behaviour=hang_up))
    reply = await gateway.ask("POST", f"{PREFIX}/foo/proxy/api", body=b"{}")
    assert cause(reply, 502) == "ClusterBroken"
    assert "retry-after" not in reply.headers


async def test_a_torn_answer_tears_the_clients_too(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def tear(incoming: Request) -> Answer:
        async def fail(writer: StreamWriter) -> None:
            await writer.drain()
            await go.wait()
            raise ConnectionError

        return streaming(b"half", then=fail)

    go = asyncio.Event()
    gateway = await start_gateway(await start_cluster(behaviour=tear))
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api"))
    await peer.head()
    assert await peer.chunk() == b"half"
    go.set()
    assert await peer.ended()
    await gateway.emptied()
    assert gateway.known.failures[-1][1].cause == "ClusterBroken"


async def test_a_client_that_leaves_ends_the_clusters_work(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    gone: asyncio.Queue[str] = asyncio.Queue()

    async def endless(incoming: Request) -> Answer:
        async def run(writer: StreamWriter) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                gone.put_nowait("stream")

        if "watch=true" in incoming.query:
            return streaming(b"ADDED", then=run)
        try:
            await asyncio.Event().wait()
        finally:
            gone.put_nowait("request")
        raise AssertionError

    cluster = await start_cluster(behaviour=endless)
    gateway = await start_gateway(cluster)
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    await peer.head()
    peer.close()
    assert await asyncio.wait_for(gone.get(), 5) == "stream"
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods"))
    await arrived(cluster, 2)
    peer.close()
    assert await asyncio.wait_for(gone.get(), 5) == "request"
    await gateway.emptied()
    assert not gateway.known.failures


async def test_the_next_endpoint_is_tried_while_nothing_was_sent(
    start_cluster: StartCluster, start_gateway: StartGateway, dead_port: int
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    dead, alive = Endpoint("127.0.0.1", dead_port), Endpoint("127.0.0.1", cluster.server.port)
    gateway.knows(cluster.target(endpoints=(dead, alive)))
    for _ in range(10):
        assert (await gateway.ask("POST", f"{PREFIX}/foo/proxy/api", body=b"{}")).status == 200
    assert not gateway.known.failures


async def test_no_other_endpoint_is_tried_once_something_was_sent(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def hang_up(incoming: Request) -> Answer:
        raise asyncio.CancelledError

    first, second = await start_cluster(behaviour=hang_up), await start_cluster()
    gateway = await start_gateway()
    endpoints = tuple(Endpoint("127.0.0.1", each.server.port) for each in (first, second))
    gateway.knows(first.target(endpoints=endpoints))
    assert cause(await gateway.get("foo", "/api"), 502) == "ClusterBroken"
    assert not second.received


async def test_a_dead_cluster_is_given_up_for_a_while_and_then_tried_once(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    now = 0.0
    accepted = 0
    gateway = await start_gateway(clock=lambda: now)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        gateway.knows(Target("foo", (Endpoint("127.0.0.1", port),), Trust(), BearerToken(TOKEN)))
        replies = [await gateway.get("foo", "/api") for _ in range(20)]
        assert accepted == 5
        assert {reply.status for reply in replies} == {503}
        assert replies[-1].headers["retry-after"] == "1"
        now = 1.5
        await asyncio.gather(*[gateway.get("foo", "/api") for _ in range(5)])
        assert accepted == 6
    cluster = await start_cluster()
    gateway.knows(cluster.target())
    now = 60.0
    assert [(await gateway.get("foo", "/api")).status for _ in range(3)] == [200] * 3


async def test_too_much_at_once_is_refused_for_the_user_and_for_all(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    go = asyncio.Event()

    async def wait(incoming: Request) -> Answer:
        await go.wait()
        return Response(200, b"ok")

    cluster, other = await start_cluster(behaviour=wait), await start_cluster("bar")
    gateway = await start_gateway(cluster, other, limits=Limits(requests=3, requests_per_user=2, streams=1))
    waiting = [asyncio.create_task(gateway.get("foo", "/api")) for _ in range(2)]
    await arrived(cluster, 2)
    busy = await gateway.get("foo", "/api")
    assert cause(busy, 429) == "ClusterBusy"
    assert busy.headers["retry-after"] == "1"
    gateway.user = "user2"
    waiting.append(asyncio.create_task(gateway.get("foo", "/api")))
    await arrived(cluster, 3)
    assert cause(await gateway.get("foo", "/api"), 429) == "ClusterBusy"
    waiting.append(asyncio.create_task(gateway.get("foo", "/api/v1/pods?watch=true")))
    await arrived(cluster, 4)
    assert cause(await gateway.get("foo", "/api/v1/pods?watch=true"), 429) == "ClusterBusy"
    assert (await gateway.get("bar", "/api")).status == 200
    go.set()
    assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}
    assert (await gateway.get("foo", "/api")).status == 200


async def test_a_client_that_asks_for_less_time_gets_less(
    start_cluster: StartCluster, start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(incoming: Request) -> Answer:
        await asyncio.sleep(0.2)
        return Response(200, b"ok")

    monkeypatch.setattr("muster.gateway.relay.timeouts.ANSWER_GRACE", 0.0)
    gateway = await start_gateway(await start_cluster(behaviour=slow))
    assert cause(await gateway.get("foo", "/api?timeout=50ms"), 504) == "ConnectionTimeout"
    assert (await gateway.get("foo", "/api?timeout=1m30s")).status == 200
    assert (await gateway.get("foo", "/api?timeout=nonsense&timeoutSeconds=7")).status == 200


async def test_a_probe_tells_the_code_or_the_problem(
    start_cluster: StartCluster, start_gateway: StartGateway, dead_port: int
) -> None:
    async def unwell(incoming: Request) -> Answer:
        return Response(500 if incoming.target == "/readyz" else 200, b"")

    cluster = await start_cluster(behaviour=unwell)
    gateway = await start_gateway()
    assert [await gateway.relay.probe(cluster.target(), path) for path in ("/livez", "/readyz")] == [200, 500]
    assert cluster.last.get("authorization") == f"Bearer {TOKEN}"
    assert cluster.server.connections == 1
    for changes, expected in (
        ({"endpoints": (Endpoint("127.0.0.1", dead_port),)}, "ClusterUnreachable"),
        ({"trust": Trust()}, "CertificateMismatch"),
        ({"credential": None}, "CredentialMissing"),
    ):
        with pytest.raises(ClusterError) as raised:
            await gateway.relay.probe(cluster.target(**changes), "/livez")
        assert raised.value.problem.cause == expected


async def test_a_gateway_that_leads_to_itself_is_found_out(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    itself: HttpServer = gateway.server
    gateway.knows(cluster.target(endpoints=(Endpoint("127.0.0.1", itself.port, f"{PREFIX}/foo/proxy"),)))
    reply = await gateway.get("foo", "/api")
    assert (reply.status, orjson.loads(reply.body)["reason"]) == (508, "LoopDetected")
    assert gateway.traffic.began_in_all == 1


def test_no_secret_shows_in_what_is_printed() -> None:
    printed: Any = [BearerToken(TOKEN), ClientCertificate(b"certificate", b"the-key"), Target("foo", credential=BearerToken(TOKEN))]
    assert TOKEN not in repr(printed)
    assert "the-key" not in repr(printed)


async def test_who_refused_is_named_when_the_cluster_refuses_the_credential(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def unauthorized(incoming: Request) -> Answer:
        return Response(401, b'{"kind":"Status","reason":"Unauthorized"}', [("WWW-Authenticate", "Bearer")])

    gateway = await start_gateway(await start_cluster(behaviour=unauthorized))
    for _ in range(3):
        reply = await gateway.get("foo", "/api")
        assert cause(reply, 503) == "CredentialRefused"
        assert ACCOUNT in reply.body.decode()
    assert gateway.known.refreshes == 1
    assert len(gateway.known.failures) == 3
