"""What passes through the relay, as whom, and how it is counted."""

from __future__ import annotations

import asyncio

import orjson

from muster.gateway.relay import Limits
from muster.gateway.request_decision import Granted
from muster.gateway.target import BearerToken, Endpoint, Target, Trust
from muster.http import Answer, RawConnection, Request, Response, Takeover, encode_chunk
from muster.machinery.authentication import UserInfo
from tests.support.recording_cluster import RecordingCluster, Talk
from tests.unit.http.pki import Authority
from tests.unit.http.wire import request

from .conftest import StartCluster, StartGateway
from .harness import ACCOUNT, PREFIX, TOKEN, certificate_of, streaming


async def test_path_and_query_go_out_as_they_came(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    for path in ("", "/", "/version/", "/api/v1/namespaces/a/pods?fieldSelector=a%3Db&x=%zz&dryRun=All", "/apis/x/y;z=1/a:b@c"):
        assert (await gateway.get("foo", path)).body == b"ok"
    assert cluster.targets == [
        "/",
        "/",
        "/version/",
        "/api/v1/namespaces/a/pods?fieldSelector=a%3Db&x=%zz&dryRun=All",
        "/apis/x/y;z=1/a:b@c",
    ]
    assert gateway.known.answered_by == ["foo"] * 5
    assert cluster.server.connections == 1


async def test_an_endpoint_with_a_path_of_its_own_comes_first(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    gateway.knows(cluster.target(endpoints=(Endpoint("127.0.0.1", cluster.server.port, "/k8s/clusters/c-1"),)))
    await gateway.get("foo", "/api?a=b")
    await gateway.get("foo", "")
    assert cluster.targets == ["/k8s/clusters/c-1/api?a=b", "/k8s/clusters/c-1/"]


async def test_the_cluster_sees_the_gateways_token_and_nothing_of_the_clients(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    await gateway.get(
        "foo",
        "/api",
        "Authorization: Bearer of-the-client",
        "Cookie: session=1",
        "Impersonate-User: system:admin",
        "Impersonate_Group: system:masters",
        "Impersonate-Anything: x",
        "X-Remote-User: admin",
        "X-Remote-Extra-Scope: x",
        "X-Forwarded-For: 10.0.0.1",
        "Forwarded: for=10.0.0.1",
        "X-Real-Ip: 10.0.0.1",
        "Proxy-Authorization: Basic eA==",
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /api/v1/secrets",
        "Connection: Authorization, Impersonate-User, X-Remote-User, Audit-Id, X-Mine",
        "X-Mine: named by Connection",
        "Kubectl-Command: kubectl get",
        "User-Agent: kubectl/v1.35",
        "Traceparent: 00-1-2-01",
    )
    fields = dict(cluster.last.items())
    host, via = fields.pop("host"), fields.pop("via")
    assert host == f"127.0.0.1:{cluster.server.port}"
    assert via.startswith("1.1 cluster-gateway-")
    assert len(fields.pop("audit-id")) == 36
    assert fields == {
        "authorization": f"Bearer {TOKEN}",
        "user-agent": "kubectl/v1.35 via cluster-gateway",
        "kubectl-command": "kubectl get",
        "traceparent": "00-1-2-01",
    }


async def test_an_audit_id_is_kept(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    reply = await (await start_gateway(cluster)).get("foo", "/api", "Audit-Id: mine")
    assert (cluster.last.get("audit-id"), reply.headers["audit-id"]) == ("mine", "mine")


async def test_an_impersonated_user_is_named_to_the_cluster(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    gateway.granted = Granted("mapped", UserInfo("jö", "7", ("a", "b"), {"example.org/Scope": ("s1", "s2")}))
    await gateway.get("foo", "/api", "Impersonate-User: admin", "Connection: Impersonate-User")
    assert cluster.last.getall("impersonate-user") == ["jö".encode().decode("latin-1")]
    assert cluster.last.getall("impersonate-group") == ["a", "b"]
    assert cluster.last.getall("impersonate-extra-example.org%2fscope") == ["s1", "s2"]
    assert cluster.last.get("impersonate-uid") == "7"


async def test_an_impersonated_user_that_no_field_can_carry_is_not_sent(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    for user in (UserInfo(""), UserInfo("a\r\nAuthorization: x"), UserInfo("a", groups=("b\nc",))):
        gateway.granted = Granted("mapped", user)
        reply = await gateway.get("foo", "/api")
        assert reply.status == 403
        assert b"ImpersonationImpossible" in reply.body
    assert not cluster.received
    assert not gateway.known.failures


async def test_a_client_certificate_is_shown_and_no_token_sent(
    start_cluster: StartCluster, start_gateway: StartGateway, client_ca: Authority
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    gateway.knows(cluster.target(credential=certificate_of(client_ca, "gateway")))
    assert (await gateway.get("foo", "/api", "Authorization: Bearer x")).status == 200
    assert cluster.received[0].connection.peer_certificate is not None
    assert "authorization" not in cluster.last


async def test_the_servers_name_can_be_another_than_its_address(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    gateway.knows(cluster.target(trust=Trust(cluster.authority.pem, server_name="localhost")))
    assert (await gateway.get("foo", "/api")).status == 200


async def test_an_insecure_cluster_is_reached_only_where_that_is_said(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway()
    gateway.knows(cluster.target(trust=Trust(insecure=True)))
    assert (await gateway.get("foo", "/api")).status == 200
    gateway.knows(cluster.target(trust=Trust()))
    assert (await gateway.get("foo", "/api")).status == 502


async def test_all_methods_and_bodies_pass(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def echo(incoming: Request) -> Answer:
        return Response(200, incoming.method.encode() + b" " + await incoming.read_body())

    cluster = await start_cluster(behaviour=echo)
    gateway = await start_gateway(cluster)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        reply = await gateway.ask(method, f"{PREFIX}/foo/proxy/api", body=b"{}")
        assert reply.body == f"{method} {{}}".encode()
    assert (await gateway.ask("HEAD", f"{PREFIX}/foo/proxy/api")).headers["content-length"] == "5"
    peer = await gateway.peer()
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api", "Transfer-Encoding: chunked", "Expect: 100-continue"))
    assert (await peer.head())[0] == 100
    peer.send(encode_chunk(b"in ") + encode_chunk(b"pieces") + b"0\r\n\r\n")
    assert (await peer.reply()).body == b"POST in pieces"
    assert gateway.traffic.now == 0
    assert gateway.traffic.bytes_sent == 2 * 6 + 9


async def test_a_body_larger_than_allowed_is_refused_before_and_while_it_is_sent(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster, limits=Limits(body=100_000))
    peer = await gateway.peer()
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api", "Content-Length: 100001"))
    early = await peer.reply()
    assert early.status == 413
    assert orjson.loads(early.body)["reason"] == "RequestEntityTooLarge"
    assert not cluster.received
    peer = await gateway.peer()
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api", "Transfer-Encoding: chunked") + encode_chunk(b"x" * 60_000) * 2)
    assert (await peer.reply()).status == 413
    assert gateway.traffic.now == 0


async def test_a_watch_passes_each_event_at_once_and_has_no_deadline(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    more = asyncio.Event()

    async def watch(incoming: Request) -> Answer:
        await asyncio.sleep(0.3)
        return streaming(b"ADDED\n", then=later)

    async def later(writer: object) -> None:
        await more.wait()
        writer.write(b"MODIFIED\n")  # type: ignore[attr-defined]

    gateway = await start_gateway(await start_cluster(behaviour=watch), answer_timeout=0.1)
    peer = await gateway.peer()
    peer.send(request("GET", f"{PREFIX}/foo/proxy/api/v1/pods?watch=true"))
    assert (await peer.head())[0] == 200
    assert await peer.chunk() == b"ADDED\n"
    assert gateway.traffic.in_flight == {("foo", "stream"): 1}
    more.set()
    assert await peer.chunk() == b"MODIFIED\n"
    assert await peer.chunk() == b""
    assert gateway.traffic.now == 0
    assert (await gateway.get("foo", "/api/v1/pods")).status == 504


async def test_an_upgrade_is_spliced_blindly(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def exec_(incoming: Request) -> Answer:
        async def run(raw: RawConnection) -> None:
            raw.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSet-Cookie: a=b\r\n\r\n\0first"
            )
            while data := await raw.read():
                raw.write(data[::-1])

        return Takeover(run)

    cluster = await start_cluster(behaviour=exec_)
    gateway = await start_gateway(cluster)
    peer = await gateway.peer()
    fields = (
        "Connection: Upgrade, Impersonate-User",
        "Upgrade: SPDY/3.1",
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        "Impersonate-User: x",
    )
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api/v1/namespaces/a/pods/p/exec?command=sh", *fields))
    status, answered = await peer.head()
    assert (status, answered["upgrade"], answered["x-stream-protocol-version"]) == (101, "SPDY/3.1", "v4.channel.k8s.io")
    assert "set-cookie" not in answered
    assert await peer.reader.readexactly(6) == b"\0first"
    peer.send(b"abc")
    assert await peer.reader.readexactly(3) == b"cba"
    assert cluster.last.get("x-stream-protocol-version") == "v4.channel.k8s.io"
    assert "impersonate-user" not in cluster.last
    assert gateway.traffic.in_flight == {("foo", "upgrade"): 1}
    peer.close()
    await gateway.emptied()


async def test_a_refused_upgrade_passes_faithfully_and_a_token_protocol_does_not(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def refuse(incoming: Request) -> Answer:
        return Response(400, b"no websockets here", [("X-Why", "old")])

    cluster = await start_cluster(behaviour=refuse)
    reply = await (await start_gateway(cluster)).get(
        "foo",
        "/api/v1/namespaces/a/pods/p/exec",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
    )
    assert (reply.status, reply.body, reply.headers["x-why"]) == (400, b"no websockets here", "old")
    assert cluster.last.get("sec-websocket-protocol") == "v5.channel.k8s.io, v4.channel.k8s.io"


async def test_the_clusters_answer_loses_what_is_not_for_the_client(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def talk(incoming: Request) -> Answer:
        fields = [
            ("Set-Cookie", "a=b"),
            ("WWW-Authenticate", "Bearer"),
            ("Access-Control-Allow-Origin", "*"),
            ("Location", "https://10.0.0.1/internal"),
            ("X-Echo", incoming.headers.get("authorization") or ""),
            ("Warning", '299 - "deprecated"'),
            ("Kept", "yes"),
        ]
        return Response(201, b"{}", fields)

    reply = await (await start_gateway(await start_cluster(behaviour=talk))).get("foo", "/api")
    assert set(reply.headers) == {"warning", "kept", "date", "content-length"}


async def test_a_403_of_the_cluster_passes_with_a_warning_that_names_the_account(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def forbid(incoming: Request) -> Answer:
        return Response(403, b'{"kind":"Status"}')

    reply = await (await start_gateway(await start_cluster(behaviour=forbid))).get("foo", "/api")
    assert (reply.status, reply.body) == (403, b'{"kind":"Status"}')
    assert reply.headers["warning"].startswith('299 - "cluster-gateway: cluster \\"foo\\" itself refused')
    assert ACCOUNT in reply.headers["warning"]


async def test_what_a_cluster_said_before_it_hung_up_arrives_whole(start_gateway: StartGateway) -> None:
    """As when a command in a pod has ended, and also for a client that takes its time: servers written in Go close at once."""
    size = 3 * 2**20

    def run(talk: Talk, head: bytes) -> None:
        talk.say(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n" + b"x" * size)
        talk.connection.close()

    gateway = await start_gateway()
    with RecordingCluster(run) as cluster:
        gateway.knows(Target("foo", (Endpoint("127.0.0.1", cluster.port),), Trust(cluster.ca), BearerToken(TOKEN)))
        peer = await gateway.peer()
        fields = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
        peer.send(request("POST", f"{PREFIX}/foo/proxy/api/v1/namespaces/a/pods/p/exec", *fields))
        assert (await peer.head())[0] == 101
        got = 0
        while data := await peer.reader.read(16384):
            got += len(data)
            await asyncio.sleep(0.001)
        assert got == size
    await gateway.emptied()


async def test_what_a_client_said_before_it_hung_up_arrives_whole(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    size, heard = 3 * 2**20, 0
    ended = asyncio.Event()

    async def forward(incoming: Request) -> Answer:
        async def run(raw: RawConnection) -> None:
            nonlocal heard
            raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
            while data := await raw.read():
                heard += len(data)
                await asyncio.sleep(0.001)
            ended.set()

        return Takeover(run)

    gateway = await start_gateway(await start_cluster(behaviour=forward))
    peer = await gateway.peer()
    fields = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api/v1/namespaces/a/pods/p/portforward", *fields))
    assert (await peer.head())[0] == 101
    for _ in range(size // 4096):
        peer.send(b"x" * 4096)
        await peer.writer.drain()
    peer.writer.close()
    async with asyncio.timeout(10):
        await ended.wait()
    assert heard == size
    await gateway.emptied()
