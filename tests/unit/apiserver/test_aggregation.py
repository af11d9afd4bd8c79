"""Remote API servers behind this one: who they are told is asking, what streams through, and what happens when they go.

The extension server is real: TLS under its service's name, clients asked for a certificate of the cluster's front-proxy CA.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.aggregation.remote import CERTIFICATE_LIFETIME, Remote
from muster.apiserver.auth.access import Access
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer, ServerConfig
from muster.http import HttpServer, RawConnection, Request, Response, StreamResponse, StreamWriter, Takeover, server_context
from muster.kube.websocket_token import BEARER_PROTOCOL
from muster.machinery.authentication import MASTERS, UserInfo
from tests.support.in_process import serving
from tests.support.pki import Authority
from tests.unit.apiserver.conftest import eventually

API_SERVICES = object_path("apiregistration.k8s.io/v1", "apiservices")
ALICE = UserInfo("alice", "alice-uid", ("friends", MASTERS), {"example.org/Odd Key": ("1", "2")})
WIDGETS = {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ["get", "list"]}
MEGABYTE = 1024 * 1024


class Extension:
    """Serves x.io/v1 and remembers what it was asked, except by the aggregator itself."""

    def __init__(self, directory: Path, proxy_ca: bytes) -> None:
        authority = Authority(directory, "extension")
        pair = authority.issue("server", hosts=("ext.default.svc",))
        self.ca = base64.b64encode(authority.pair.cert.read_bytes()).decode()
        self.requests: list[Request] = []
        self.uploaded = 0
        self.asked = asyncio.Event()
        """For what it serves."""
        self.answers = asyncio.Event()
        self.answers.set()
        tls = server_context(pair.cert.read_bytes(), pair.key.read_bytes(), proxy_ca)
        self.http = HttpServer(self.handle, tls=tls, stream_body=lambda request: request.method == "POST")

    async def handle(self, request: Request) -> Response | StreamResponse | Takeover:
        if request.headers.get("x-remote-user") not in ("system:kube-aggregator", "system:aggregator"):
            self.requests.append(request)
        path = request.raw_path
        if path.startswith("/openapi/"):
            return Response(404)
        if path == "/apis/x.io/v1":
            self.asked.set()
            await self.answers.wait()
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x.io/v1", "resources": [WIDGETS]}
            return Response(200, orjson.dumps(body), content_type="application/json")
        if request.body_stream is not None:
            async for piece in request.body_stream:
                self.uploaded += len(piece)
            return Response(201, b"taken")
        if path.endswith("/ticks"):
            return StreamResponse(200, [("Content-Type", "text/plain")], self._tick)
        if path.endswith("/echo"):
            return Takeover(self._echo)
        return Response(200, orjson.dumps(dict(request.headers.items())), content_type="application/json")

    async def _tick(self, writer: StreamWriter) -> None:
        for number in range(3):
            writer.write(b"tick %d\n" % number)
            await asyncio.sleep(0)
        await writer.closed

    async def _echo(self, connection: RawConnection) -> None:
        connection.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        while data := await connection.read():
            connection.write(data.upper())


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default", static_tokens={"alice-token": ALICE}) as running:
        yield running


@pytest.fixture
async def extension(server: ApiServer, tmp_path: Path) -> AsyncIterator[Extension]:
    keys = server.clusters["default"].part(Access).key_store.existing()
    assert keys is not None
    made = Extension(tmp_path, keys.proxy_ca_pem)
    await made.http.start("127.0.0.1", 0)
    yield made
    await made.http.stop(0.1)


async def join(client: DirectClient, extension: Extension, **spec: Any) -> None:
    """Register the extension server."""
    service = {"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
    await client.create(object_path("v1", "services", "default"), service)
    described = {
        "group": "x.io",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": extension.ca,
        "service": {"namespace": "default", "name": "ext", "port": extension.http.port},
        **spec,
    }
    await client.create(API_SERVICES, {"metadata": {"name": "v1.x.io"}, "spec": described})


async def joined(server: ApiServer, client: DirectClient, extension: Extension) -> None:
    await join(client, extension)
    remote = server.clusters["default"].part(Aggregator).named("v1.x.io")
    assert remote is not None
    await eventually(lambda: remote.available, "the extension is available")


class Wire:
    """A raw connection of alice's to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, server: ApiServer) -> "Wire":
        context = ssl.create_default_context(cadata=server.ca_pem.decode())
        return cls(*await asyncio.open_connection("localhost", server.port, ssl=context))

    async def send(self, method: str, path: str, *fields: str, body: bytes = b"", known: bool = True) -> int:
        """The status of the answer; its body is left to be read."""
        head = [f"{method} {path} HTTP/1.1", "Host: x", *(("Authorization: Bearer alice-token",) if known else ()), *fields]
        if body:
            head.append(f"Content-Length: {len(body)}")
        self.writer.write(("\r\n".join(head) + "\r\n\r\n").encode() + body)
        answer = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        return int(answer.split()[1])


@asynccontextmanager
async def opened(server: ApiServer) -> AsyncIterator[Wire]:
    wire = await Wire.open(server)
    yield wire
    wire.writer.close()


@pytest.fixture
async def wire(server: ApiServer) -> AsyncIterator[Wire]:
    async with opened(server) as wire:
        yield wire


async def test_the_extension_hears_who_asks_from_a_proxy_it_can_trust(
    server: ApiServer, client: DirectClient, extension: Extension, wire: Wire
) -> None:
    await joined(server, client, extension)
    lies = ("X-Remote-User: root", "X-Remote-Group: system:masters", "X-Remote-Extra-Scopes: all", "X-Kept: yes")
    assert await wire.send("GET", "/apis/x.io/v1/namespaces/default/widgets?a=%2F", *lies) == 200
    request = extension.requests[-1]
    certificate = x509.load_der_x509_certificate(request.connection.peer_certificate or b"")
    assert certificate.subject.rfc4514_string() == "CN=front-proxy-client"
    assert request.headers.getall("x-remote-user") == ["alice"]
    assert request.headers.getall("x-remote-uid") == ["alice-uid"]
    assert request.headers.getall("x-remote-group") == ["friends", MASTERS, "system:authenticated"]
    assert request.headers.getall("x-remote-extra-example.org%2fodd%20key") == ["1", "2"]
    assert "x-remote-extra-scopes" not in dict(request.headers.items())
    assert request.headers.get("authorization") is None
    assert request.headers.get("x-kept") == "yes"
    assert request.query == "a=%2F"


async def test_authorization_happens_before_anything_travels_on(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await joined(server, client, extension)
    stranger = server.client(server.clusters["default"], UserInfo("stranger"))
    with pytest.raises(ApiError) as refused:
        await stranger.get("/apis/x.io/v1/namespaces/default/widgets")
    assert refused.value.code == 403
    assert extension.requests == []


async def test_long_bodies_flow_through(server: ApiServer, client: DirectClient, extension: Extension, wire: Wire) -> None:
    await joined(server, client, extension)
    assert await wire.send("POST", "/apis/x.io/v1/namespaces/default/widgets", body=b"x" * (8 * MEGABYTE)) == 201
    assert extension.uploaded == 8 * MEGABYTE


async def test_answers_arrive_as_they_are_made(server: ApiServer, client: DirectClient, extension: Extension, wire: Wire) -> None:
    await joined(server, client, extension)
    assert await wire.send("GET", "/apis/x.io/v1/ticks") == 200
    received = b""
    async with asyncio.timeout(20):
        while b"tick 2" not in received:
            received += await wire.reader.read(1024)


async def test_upgraded_connections_are_spliced(server: ApiServer, client: DirectClient, extension: Extension, wire: Wire) -> None:
    await joined(server, client, extension)
    assert await wire.send("GET", "/apis/x.io/v1/echo", "Connection: Upgrade", "Upgrade: echo") == 101
    assert extension.requests[-1].headers.get("x-remote-user") == "alice"
    wire.writer.write(b"hello")
    assert await asyncio.wait_for(wire.reader.readexactly(5), 5) == b"HELLO"


def offered(token: str, *others: str) -> str:
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return f"Sec-WebSocket-Protocol: {', '.join([*others, BEARER_PROTOCOL + encoded])}"


async def test_a_token_among_a_websockets_protocols_names_the_caller_and_stays_here(
    server: ApiServer, client: DirectClient, extension: Extension, wire: Wire
) -> None:
    await joined(server, client, extension)
    fields = ("Connection: Upgrade", "Upgrade: WebSocket", offered("alice-token", "v4", "v5"))
    # A header field that names nobody is no hindrance.
    for first in ((), ("Authorization: Bearer nobodys",)):
        async with opened(server) as other:
            assert await other.send("GET", "/apis/x.io/v1/echo", *first, *fields, known=False) == 101
        heard = extension.requests[-1].headers
        assert heard.getall("x-remote-user") == ["alice"]
        assert heard.getall("sec-websocket-protocol") == ["v4, v5"]
    # Whoever names somebody else by a header field is that one; the token goes no further all the same.
    assert await wire.send("GET", "/apis/x.io/v1/echo", *fields[:2], offered("nobodys")) == 101
    assert extension.requests[-1].headers.get("sec-websocket-protocol") is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (("Connection: Upgrade", "Upgrade: websocket", offered("nobodys", "v4")), 401),
        (("Connection: Upgrade", "Upgrade: websocket", offered("alice-token")), 401),
        (("Connection: Upgrade", "Upgrade: websocket", offered("alice-token", "v4") + "="), 401),
        (("Connection: Upgrade", "Upgrade: echo", offered("alice-token", "v4")), 403),
        ((offered("alice-token", "v4"),), 403),
    ],
)
async def test_what_is_no_token_of_a_websocket_names_nobody(
    server: ApiServer, client: DirectClient, extension: Extension, fields: tuple[str, ...], status: int
) -> None:
    await joined(server, client, extension)
    async with opened(server) as wire:
        assert await wire.send("GET", "/apis/x.io/v1/echo", *fields, known=False) == status
    assert extension.requests == []


async def test_an_extension_that_proves_another_name_gets_nothing(
    server: ApiServer, client: DirectClient, extension: Extension, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").pair.cert.read_bytes()
    await join(client, extension, caBundle=base64.b64encode(stranger).decode())
    remote = server.clusters["default"].part(Aggregator).named("v1.x.io")
    assert remote is not None
    await eventually(lambda: remote.available, "somebody answers")
    with pytest.raises(ApiError) as refused:
        await client.get("/apis/x.io/v1/namespaces/default/widgets")
    assert refused.value.code == 503
    assert "certificate" in refused.value.message
    assert extension.requests == []


async def test_discovery_shows_what_the_extension_serves_until_it_is_removed(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await joined(server, client, extension)
    groups = [group["name"] for group in (await client.get("/apis"))["groups"]]
    assert groups[-1] == "x.io"
    await client.delete(f"{API_SERVICES}/v1.x.io")
    with pytest.raises(ApiError) as gone:
        await client.get("/apis/x.io/v1")
    assert gone.value.code == 404
    assert "x.io" not in [group["name"] for group in (await client.get("/apis"))["groups"]]


async def test_an_extension_that_goes_away_is_unavailable_until_it_returns(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await joined(server, client, extension)
    remote = server.clusters["default"].part(Aggregator).named("v1.x.io")
    assert remote is not None
    port = extension.http.port
    await extension.http.stop(0)
    services = object_path("v1", "services", "default")
    await client.merge(f"{services}/ext", {"metadata": {"labels": {"touched": "yes"}}})
    await eventually(lambda: not remote.available, "it is found missing")
    with pytest.raises(ApiError) as refused:
        await client.get("/apis/x.io/v1/namespaces/default/widgets")
    assert (refused.value.code, refused.value.message) == (503, "service unavailable")
    condition = (await client.get(f"{API_SERVICES}/v1.x.io"))["status"]["conditions"][0]
    assert condition["reason"] == "FailedDiscoveryCheck"
    assert condition["message"].endswith("connect: connection refused")
    await extension.http.start("127.0.0.1", port)
    await eventually(lambda: remote.available, "it is found again", 10)


async def test_an_apiservice_that_is_written_while_its_server_is_asked_is_available_all_the_same(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    extension.answers.clear()
    await join(client, extension)
    await asyncio.wait_for(extension.asked.wait(), 20)
    path = object_path("apiregistration.k8s.io/v1", "apiservices", "", "v1.x.io")
    found = await client.get(path)
    await client.update(path, {**found, "metadata": {**found["metadata"], "labels": {"a": "b"}}})
    extension.answers.set()
    remote = server.clusters["default"].part(Aggregator).named("v1.x.io")
    assert remote is not None
    await eventually(lambda: remote.available, "the extension is available")


async def test_every_cluster_knows_its_own_authorities(server: ApiServer) -> None:
    other = await server.add_cluster("other")
    keys = other.part(Access).key_store.existing()
    assert keys is not None
    path = object_path("v1", "configmaps", "kube-system", "extension-apiserver-authentication")
    theirs = (await server.client(other).get(path))["data"]
    assert theirs["client-ca-file"] == keys.client_ca_pem.decode()
    assert theirs["requestheader-client-ca-file"] == keys.proxy_ca_pem.decode()
    ours = (await server.client(server.clusters["default"]).get(path))["data"]
    assert ours["client-ca-file"] != theirs["client-ca-file"]


async def test_apiservices_of_built_in_groups_cost_a_cluster_nothing(server: ApiServer, client: DirectClient) -> None:
    listed = (await client.get(API_SERVICES))["items"]
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= {item["metadata"]["name"] for item in listed}
    assert all(item["metadata"]["resourceVersion"] == "1" for item in listed)


async def test_the_proxy_certificate_is_renewed_long_before_it_ends() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    running = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",), clock=lambda: now))
    await running.start()
    spec = {"group": "x.io", "version": "v1", "insecureSkipTLSVerify": True, "service": {"namespace": "default", "name": "ext"}}
    remote = Remote(running.clusters["default"], {"metadata": {"name": "v1.x.io"}, "spec": spec})
    first = await remote.tls()
    assert await remote.tls() is first
    now += CERTIFICATE_LIFETIME * 0.6
    assert await remote.tls() is not first
    await running.stop(grace=0)
