"""Open requests whose right ends by time, in process, or is no watch's; over sockets see tests/e2e/test_rights_that_end.py."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver import long_running_requests
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.credentials import expiration_times
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.context import Context
from muster.apiserver.handlers import watches
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.nodes import LogOptions
from muster.apiserver.server import ApiServer
from muster.http import Connection, Headers, RawConnection, Request, Response, StreamResponse, Takeover
from muster.kube.websocket_token import BEARER_PROTOCOL
from muster.machinery.authentication import UserInfo
from tests.support.in_process import serving
from tests.unit.apiserver.conftest import eventually

MAPS = object_path("v1", "configmaps", "default")
BINDINGS = object_path("rbac.authorization.k8s.io/v1", "clusterrolebindings")


class Clock:
    """Goes on when told."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


async def permit(client: DirectClient, user: str, role: str = "view") -> None:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    await client.create(
        BINDINGS, {"metadata": {"name": f"{user.rpartition(':')[2]}-{role}"}, "roleRef": ref, "subjects": [subject]}
    )


def trust(server: ApiServer) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@asynccontextmanager
async def watching(server: ApiServer, *, token: str = "", tls: ssl.SSLContext | None = None) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls or trust(server))
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET /clusters/default{MAPS}?watch=true&timeoutSeconds=900 HTTP/1.1\r\nHost: a\r\n{authorization}\r\n".encode())
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            yield reader
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end marker, which a cut connection would not have."""
    async with asyncio.timeout(10):
        return await reader.readuntil(b"0\r\n\r\n")


async def test_a_watch_ends_when_its_certificate_does(tmp_path: Path) -> None:
    async with serving("default") as server:
        cluster = server.clusters["default"]
        await permit(server.client(cluster), "short")
        keys = await cluster.part(Access).key_store.keys(cluster.clock())
        pair = keys.client_ca.issue("short", cluster.clock() - timedelta(hours=1), timedelta(hours=1, seconds=2))
        (tmp_path / "pair").write_bytes(pair.certificate + pair.key)
        tls = trust(server)
        tls.load_cert_chain(tmp_path / "pair")
        async with watching(server, tls=tls) as reader:
            await ended(reader)


async def test_a_watch_ends_when_its_token_does_and_not_before() -> None:
    clock = Clock()
    async with serving("default", clock=clock) as server:
        client = server.client(server.clusters["default"])
        await eventually(lambda: server.clusters["default"].read("/serviceaccounts", "default/default"), "an account")
        await permit(client, "system:serviceaccount:default:default")
        path = object_path("v1", "serviceaccounts", "default", "default", "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        token = (await client.call("POST", path, body=request))["status"]["token"]
        clock.ahead = timedelta(seconds=608)  # over, but for the seconds that clocks may differ
        async with watching(server, token=token) as reader:
            await client.create(MAPS, {"metadata": {"name": "before"}})
            assert b'"name":"before"' in await ended(reader)


async def test_a_watch_in_process_ends_with_the_account_it_speaks_for(server: ApiServer, client: DirectClient) -> None:
    cluster = server.clusters["default"]
    account = await eventually(lambda: cluster.read("/serviceaccounts", "default/default"), "an account")
    name = "system:serviceaccount:default:default"
    await permit(client, name)
    own = server.client(cluster, UserInfo(name, account["metadata"]["uid"], ("system:authenticated",)))
    seen: list[str] = []

    async def follow() -> None:
        async for _, obj in own.watch(MAPS):
            seen.append(obj["metadata"]["name"])

    following = asyncio.create_task(follow())
    await eventually(lambda: len(cluster.part(OpenRequests)), "the watch is open")
    await client.delete(object_path("v1", "serviceaccounts", "default", "default"))
    async with asyncio.timeout(10):
        await following
    assert len(cluster.part(OpenRequests)) == 0


class TalkingNode:
    """Has a log that never ends."""

    async def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncGenerator[bytes, None]:
        return self._pieces()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            yield b"a line\n"
            await asyncio.sleep(0.01)


async def test_a_followed_log_ends_with_the_right_to_read_it(server: ApiServer, client: DirectClient) -> None:
    cluster = server.clusters["default"]
    cluster.node = TalkingNode()
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await client.create(object_path("v1", "pods", "default"), {"metadata": {"name": "p"}, "spec": spec})
    await permit(client, "reader")
    lines = server.client(cluster, UserInfo("reader")).lines(object_path("v1", "pods", "default", "p", "log"), {"follow": "true"})
    assert await anext(lines) == b"a line"
    await client.delete(f"{BINDINGS}/reader-view")
    async with asyncio.timeout(10):
        async for line in lines:
            assert line == b"a line"


async def test_a_connection_that_was_taken_over_is_cut_when_its_right_expiration_times(
    server: ApiServer, client: DirectClient
) -> None:
    """As a relayed exec is: nobody can be asked to end in a protocol of others."""
    cluster = server.clusters["default"]
    await eventually(lambda: cluster.read("/serviceaccounts", "default/default"), "an account")
    await permit(client, "system:serviceaccount:default:default", "cluster-admin")
    path = object_path("v1", "serviceaccounts", "default", "default", "token")
    token = (await client.call("POST", path, body={"spec": {}}))["status"]["token"]
    answered = cluster.part(Aggregator).serve

    async def linger(raw: RawConnection) -> None:
        await raw.read()

    async def serve(ctx: Context) -> Response | StreamResponse | Takeover | None:
        return Takeover(linger) if ctx.request.upgrade else await answered(ctx)

    cluster.part(Aggregator).serve = serve  # type: ignore[method-assign]
    cluster.part(Aggregator).remotes["example.com", "v1"] = object()  # type: ignore[assignment]
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust(server))
    fields = f"Authorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: x"
    writer.write(f"GET /clusters/default/apis/example.com/v1/things HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode())
    await eventually(lambda: len(cluster.part(OpenRequests)), "the connection is open")
    await client.delete(f"{BINDINGS}/default-cluster-admin")
    await eventually(lambda: not len(cluster.part(OpenRequests)), "the connection is no longer open")
    with suppress(ConnectionError):
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    writer.close()


async def test_streams_end_with_their_cluster(server: ApiServer) -> None:
    cluster = server.clusters["other"]
    cluster.node = TalkingNode()
    client = server.client(cluster)
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await eventually(lambda: cluster.read("/serviceaccounts", "default/default"), "an account")
    await client.create(object_path("v1", "pods", "default"), {"metadata": {"name": "p"}, "spec": spec})
    lines = client.lines(object_path("v1", "pods", "default", "p", "log"), {"follow": "true"})
    assert await anext(lines) == b"a line"
    await server.remove_cluster("other")
    async with asyncio.timeout(10):
        async for line in lines:
            assert line == b"a line"


async def test_a_stream_that_does_not_end_by_itself_is_cut(
    server: ApiServer, client: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_running_requests, "ABORT_DELAY", 0.05)
    cluster = server.clusters["default"]
    await permit(client, "reader")
    lines = server.client(cluster, UserInfo("reader")).lines(MAPS, {"watch": "true"})
    monkeypatch.setattr(watches._Watch, "_run", lambda self: asyncio.sleep(3600))
    seen = asyncio.create_task(_all(lines))
    await eventually(lambda: len(cluster.part(OpenRequests)), "the watch is open")
    await client.delete(f"{BINDINGS}/reader-view")
    async with asyncio.timeout(10):
        await seen


async def test_a_right_that_ends_while_a_watch_is_being_admitted_ends_it_too(
    server: ApiServer, client: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = server.clusters["default"]
    await permit(client, "reader")
    admitted, go_on = asyncio.Event(), asyncio.Event()
    synced = cluster.store.synced

    async def slow() -> None:
        admitted.set()
        await go_on.wait()
        await synced()

    monkeypatch.setattr(cluster.store, "synced", slow)
    seen = asyncio.create_task(_all(server.client(cluster, UserInfo("reader")).lines(MAPS, {"watch": "true"})))
    await admitted.wait()
    go_on.set()
    await client.delete(f"{BINDINGS}/reader-view")
    async with asyncio.timeout(10):
        await seen


async def _all(lines: AsyncGenerator[bytes, None]) -> list[bytes]:
    return [line async for line in lines]


async def test_no_watch_is_longer_than_the_longest(client: DirectClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MAX_TIMEOUT", 0.2)
    async with asyncio.timeout(10):
        async for _ in client.watch(MAPS, {"timeoutSeconds": str(2**31)}):
            pass


def test_a_token_among_a_websockets_protocols_ends_too() -> None:
    claims = base64.urlsafe_b64encode(b'{"exp":1000}').decode().rstrip("=")
    token = base64.urlsafe_b64encode(f"a.{claims}.c".encode()).decode().rstrip("=")
    fields = [(b"upgrade", b"websocket"), (b"sec-websocket-protocol", f"v4, {BEARER_PROTOCOL}{token}".encode())]
    for upgrade, count in ((True, 1), (False, 0)):
        request = Request("GET", "/", Headers(fields), Connection(("127.0.0.1", 1), "https"), received=0, upgrade=upgrade)
        assert len(expiration_times(request)) == count


def test_a_token_that_says_nothing_of_its_end_has_none() -> None:
    claims = base64.urlsafe_b64encode(b'{"exp":1e400}').decode()
    for token in ("", "abcdef.0123456789abcdef", "a.b.c", f"a.{claims}.c", "a.e30.c", "a.W10.c"):
        headers = Headers([(b"authorization", f"Bearer {token}".encode())])
        assert expiration_times(Request("GET", "/", headers, Connection(("127.0.0.1", 1), "https"), received=0)) == []
