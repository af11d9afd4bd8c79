"""Requests that try to reach, as the gateway's account, what was not authorised. A recording cluster shows that nothing arrives, or
that what arrives has lost its sting."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import unquote

import orjson
import pytest

from muster.gateway.target import Endpoint
from muster.http import Answer, RawConnection, Request, Takeover
from muster.kube.front_proxy import FrontProxyHeaders
from tests.unit.http.wire import request

from .conftest import StartCluster, StartGateway
from .harness import PREFIX, TOKEN, Cluster, Gateway, ok

F = f"{PREFIX}/foo/proxy"
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket")

PATHS = [
    f"{F}/../../bar/proxy/api/v1/pods",
    f"{F}/..",
    f"{F}/.",
    f"{F}/./api",
    f"{F}/api/v1/namespaces/allowed/../other/secrets",
    f"{F}/api/v1/namespaces/allowed/%2e%2e/other/secrets",
    f"{F}/api/v1/namespaces/allowed/%2E./other/secrets",
    f"{F}/api/v1/namespaces/allowed/.%2e/other/secrets",
    f"{F}/api/v1/namespaces/allowed/%252e%252e/other/secrets",
    f"{F}/api/v1/namespaces/allowed/%252e%2e/other/secrets",
    f"{F}/api/v1/namespaces/allowed/..;/other/secrets",
    f"{F}/api/v1/namespaces/allowed/..;a=b/other/secrets",
    f"{F}/api/v1/namespaces/allowed/%2e%2e%3b/other/secrets",
    f"{F}/api/v1/namespaces/allowed%2f..%2fother/secrets",
    f"{F}/api/v1/namespaces/allowed%2Fsecrets",
    f"{F}/api/v1/namespaces/allowed%252fsecrets",
    f"{F}/api/v1/namespaces/allowed%5c..%5cother",
    f"{F}/api/v1/namespaces/allowed%255c..%255cother",
    f"{F}/api/v1/namespaces/allowed\\..\\other",
    f"{F}//api/v1/secrets",
    f"{F}/api//v1/secrets",
    f"{F}/api/v1/secrets//",
    f"{F}/api/v1/secrets%00",
    f"{F}/api/v1/secrets%2500",
    f"{F}/api/v1/secrets%0d%0aX-Remote-User:%20admin",
    f"{F}/api/v1/secrets%250d%250aX:%20y",
    f"{F}/api/v1/secrets%7f",
    f"{F}/api/v1/secrets%09",
    f"{F}/api/v1/secrets%",
    f"{F}/api/v1/secrets%2",
    f"{F}/api/v1/secrets%zz",
    f"{F}/api/v1/%c0%ae%c0%ae/secrets",
    f"{F}/api/v1/%ff",
    f"{F}/api#/v1",
    f"{PREFIX}/../proxy/api",
    f"{PREFIX}/FOO/proxy/api",
    f"{PREFIX}/foo%2f../proxy/api",
    f"{PREFIX}/f%6fo/proxy/api",
    f"{PREFIX}/foo/%70roxy/api/v1/secrets",
    f"{PREFIX}//foo/proxy/api",
    f"{PREFIX}//proxy/api",
    f"/{F}/api",
    f"{PREFIX}/foo_bar/proxy/api",
    f"{PREFIX}/{'a' * 254}/proxy/api",
    "/apis/proxy.open-cluster-management.io/v1alpha1/%63lustergateways/foo/proxy/api",
]

HEADERS = [
    ("Authorization: Bearer x",),
    ("authorization: Bearer x", "Connection: authorization"),
    ("Connection: Authorization",),
    ("Connection: close, Impersonate-User, X-Remote-User, Host",),
    ("Proxy-Connection: Authorization",),
    ("Impersonate-User: system:admin", "Impersonate-Group: system:masters"),
    ("IMPERSONATE-USER: system:admin",),
    ("Impersonate_User: system:admin",),
    ("Impersonate-Extra-Scopes: x", "Impersonate-Uid: 0"),
    ("X-Remote-User: system:admin", "X-Remote-Group: system:masters"),
    ("X_Remote_User: system:admin",),
    ("X-Forwarded-User: admin", "X-Forwarded-Client-Cert: x"),
    ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: evil", "X-Forwarded-Uri: /api/v1/secrets"),
    ("Cookie: session=stolen",),
    ("Proxy-Authorization: Basic eDp5",),
    ("X-HTTP-Method-Override: DELETE",),
    ("X-HTTP-Method: DELETE", "X-Method-Override: DELETE"),
    ("X-Original-URL: /api/v1/secrets", "X-Rewrite-URL: /api/v1/secrets"),
    ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
    ("TE: trailers, chunked",),
    ("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.dG9rZW4",),
    ("Expect: 100-continue",),
    ("Audit-Id: " + "x" * 200,),
    ("Max-Forwards: 0",),
]

REFUSED = [
    ("GET", ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")),
    ("GET", ("Connection: Upgrade", "Upgrade: websocket, h2c")),
    ("GET", ("Connection: Upgrade", "Upgrade: TLS/1.3")),
    ("GET", ("Connection: Upgrade", "Upgrade: connect-udp")),
    ("GET", ("Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c")),
    ("TRACE", ()),
    ("POST", ("Content-Length: 3", "Transfer-Encoding: chunked")),
    ("POST", ("Transfer-Encoding: chunked, identity",)),
    ("POST", ("Content-Length: 1", "Content-Length: 2")),
    ("GET", ("Host: another",)),
    ("GET", ("Authorization : Bearer x",)),
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_path_that_can_be_read_in_two_ways_is_refused(
    start_cluster: StartCluster, start_gateway: StartGateway, path: str
) -> None:
    foo, bar = await start_cluster("foo"), await start_cluster("bar")
    gateway = await start_gateway(bar)
    gateway.knows(foo.target(endpoints=(Endpoint("127.0.0.1", foo.server.port, "/k8s/clusters/c-1"),)))
    for query in ("", "?watch=true"):
        reply = await gateway.ask("GET", path + query)
        assert reply.status == 400
        assert TOKEN not in reply.body.decode()
    assert not foo.received
    assert not bar.received


@pytest.mark.parametrize("fields", HEADERS)
async def test_no_header_field_of_the_client_speaks_of_identity_to_the_cluster(
    start_cluster: StartCluster, start_gateway: StartGateway, fields: tuple[str, ...]
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    assert (await gateway.get("foo", "/api", *fields)).status == 200
    [arrived] = cluster.received
    assert (arrived.method, arrived.target) == ("GET", "/api")
    names = [name for name, _ in arrived.headers.items()]
    assert sorted(names) == ["audit-id", "authorization", "host", "user-agent", "via"]
    assert arrived.headers.get("authorization") == f"Bearer {TOKEN}"
    assert arrived.headers.get("host") == f"127.0.0.1:{cluster.server.port}"


FRONT_PROXY = FrontProxyHeaders(("x-hub-user", "x-second-user"), ("x-hub-uid",), ("x-hub-group",), ("x-hub-extra-", "x_odd_"))
"""As a hub may name them that has other fields than the usual ones."""
CLAIMS = (
    "X-Hub-User: root",
    "x-second-USER: root",
    "X-Hub-Uid: 0",
    "X-Hub-Group: system:masters",
    "X_Hub_Group: system:masters",
    "X-Hub-Extra-Scopes: all",
    "X-Odd-Thing: all",
    "X-Remote-User: root",
    "X-Remote-Extra-Scopes: all",
)
CALLS: list[tuple[str, ...]] = [
    CLAIMS,
    (*CLAIMS, "Connection: X-Hub-User, X-Hub-Group, X-Remote-User"),
    (*CLAIMS, *WEBSOCKET),
    (*CLAIMS, *WEBSOCKET, "Connection: X-Hub-User, X-Hub-Extra-Scopes"),
]


def claimed(arrived: Request) -> list[str]:
    """What of a request's fields is one of the claims."""
    return [name for name, value in arrived.headers.items() if value in ("root", "0", "system:masters", "all")]


@pytest.mark.parametrize("fields", CALLS)
async def test_the_fields_by_which_this_hub_names_users_do_not_arrive_from_the_moment_it_says_so(
    start_cluster: StartCluster, start_gateway: StartGateway, fields: tuple[str, ...]
) -> None:
    said = [FrontProxyHeaders()]
    cluster = await start_cluster(behaviour=switch_or_ok)
    gateway = await start_gateway(cluster, identity=lambda: said[-1])
    plain = sorted(claimed(await arrived_with(gateway, cluster, *fields)))
    named = " ".join(field.lower() for field in fields if field.startswith("Connection"))
    mine = [field.partition(":")[0].lower() for field in CLAIMS[:-2]]
    assert plain == sorted(name for name in mine if name not in named)
    for names in (FRONT_PROXY, FrontProxyHeaders(("x-other-user",), (), (), ()), FrontProxyHeaders()):
        said.append(names)
        # What was said before counts on: an API server that was not restarted yet still names users so.
        assert not claimed(await arrived_with(gateway, cluster, *fields))


async def test_a_name_that_was_learnt_to_be_harmless_is_not_passed_on_for_ever(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    says = FrontProxyHeaders()
    cluster = await start_cluster()
    gateway = await start_gateway(cluster, identity=lambda: says)
    assert claimed(await arrived_with(gateway, cluster, "X-Tenant: root")) == ["x-tenant"]
    says = FrontProxyHeaders(("x-tenant",), (), (), ())
    assert claimed(await arrived_with(gateway, cluster, "X-Tenant: root")) == []


async def arrived_with(gateway: Gateway, cluster: Cluster, *fields: str) -> Request:
    peer = await gateway.peer()
    peer.send(request("GET", f"{F}/api/v1/namespaces/a/pods/p/exec", *fields))
    assert (await peer.head())[0] in (101, 200)
    peer.close()
    return cluster.received[-1]


async def switch_or_ok(incoming: Request) -> Answer:
    async def run(raw: RawConnection) -> None:
        raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        await raw.read()

    return Takeover(run) if incoming.upgrade else await ok(incoming)


@pytest.mark.parametrize(("method", "fields"), REFUSED)
async def test_a_request_that_would_lead_out_of_http_or_into_another_is_refused(
    start_cluster: StartCluster, start_gateway: StartGateway, method: str, fields: tuple[str, ...]
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    peer = await gateway.peer()
    peer.send(request(method, f"{F}/api/v1/namespaces/a/pods/p/exec", *fields))
    assert (await peer.head())[0] in (400, 405, 501)
    assert not cluster.received


async def test_a_switch_to_what_nobody_asked_for_does_not_pass(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    async def switch(incoming: Request) -> Answer:
        async def run(raw: RawConnection) -> None:
            raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
            await raw.read()

        return Takeover(run)

    gateway = await start_gateway(await start_cluster(behaviour=switch))
    reply = await gateway.get("foo", "/api", "Connection: Upgrade", "Upgrade: websocket")
    assert (reply.status, orjson.loads(reply.body)["reason"]) == (502, "ClusterBroken")
    assert gateway.traffic.now == 0


async def test_whatever_a_request_line_says_only_what_was_judged_arrives(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = await start_cluster()
    gateway = await start_gateway(cluster)
    chosen = random.Random(17)
    pieces = [
        "/",
        "..",
        ".",
        "%2e",
        "%2F",
        "%25",
        "a",
        "api",
        "v1",
        ";",
        "?",
        "&",
        "=",
        "\\",
        "%00",
        "\x80",
        "#",
        " ",
        "//",
        "proxy",
        "*",
        "%",
    ]
    judged: list[str] = []
    split = gateway.relay.send

    async def send(*args: Any, **options: Any) -> Answer:
        judged.append(f"{args[2]}?{args[3]}" if args[3] else args[2])
        return await split(*args, **options)

    gateway.relay.send = send  # type: ignore[method-assign]
    for _ in range(400):
        line = f"{F}/{''.join(chosen.choices(pieces, k=chosen.randint(0, 8)))}"
        reply = await gateway.ask(chosen.choice(["GET", "DELETE", "OPTIONS"]), line)
        assert reply.status in (200, 400, 404)
    assert len(judged) > 40
    assert cluster.targets == judged
    for target in cluster.targets:
        assert not {".", ".."} & {unquote(segment) for segment in target.partition("?")[0].split("/")}
