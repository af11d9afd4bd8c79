"""The client over HTTP: retries where they are safe, credentials that change, errors that carry the server's Status."""

import asyncio
import base64
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.machinery.metrics import Metrics
from muster.runtime.client.builtin import CONFIG_MAPS, SECRETS
from muster.runtime.client.errors import (
    AlreadyExists,
    Expired,
    KubeError,
    NoCredential,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unreachable,
    Untrusted,
)
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig, ExecPlugin
from tests.support.fake_clock import FakeClock
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.pki import Authority
from tests.support.processes import free_ports
from tests.support.proxy import Proxy
from tests.unit.runtime.conftest import config_map


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "clients")


def config(server: HttpsServer, identity: AuthInfo | None = None, **changes: Any) -> ClientConfig:
    return ClientConfig(server.url, server.ca, identity=identity or AuthInfo(), **changes)


@asynccontextmanager
async def client_of(config: ClientConfig, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(config, **options)
    try:
        yield client
    finally:
        await client.close()


def status(code: int, reason: str, message: str = "", **details: Any) -> Answer:
    return Answer({"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}, code)


class Moving:
    """Lets a fake clock run by itself, so that pauses cost no time but are seen."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.pauses: list[float] = []

    async def __aenter__(self) -> "Moving":
        self._task = asyncio.create_task(self._move())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _move(self) -> None:
        while True:
            if self.clock.pending:
                self.pauses.append(self.clock.pending[0])
                await self.clock.advance(self.clock.pending[0])
            await asyncio.sleep(0.002)


async def test_an_error_carries_the_servers_status() -> None:
    answers = {
        "GET": status(404, "NotFound", 'configmaps "a" not found', name="a", kind="configmaps"),
        "POST": status(409, "AlreadyExists", "there is one", name="a"),
        "DELETE": Answer("a proxy's page", 502),
    }
    metrics = Metrics()
    with HttpsServer(lambda request: answers[request.method]) as server:
        async with client_of(config(server), metrics=metrics) as client:
            with pytest.raises(NotFound) as missing:
                await client.get(CONFIG_MAPS, "a", "default")
            assert (missing.value.code, missing.value.reason, missing.value.details["name"]) == (404, "NotFound", "a")
            with pytest.raises(AlreadyExists):
                await client.create(CONFIG_MAPS, config_map("a"))
            with pytest.raises(ServerFailure, match="a proxy's page"):
                await client.delete(CONFIG_MAPS, "a", "default")
    host = f'code="404",host="127.0.0.1:{server.port}",method="GET"'
    assert f"rest_client_requests_total{{{host}}} 1" in metrics.render().decode()


async def test_what_the_server_puts_off_is_sent_again_when_it_says(clock: FakeClock) -> None:
    answers = iter([Answer("slow down", 429, {"Retry-After": "7"}), Answer("soon", 503, {"Retry-After": "3"}), Answer({"ok": 1})])
    with HttpsServer(lambda request: next(answers)) as server:
        async with client_of(config(server), clock=clock, random=lambda: 0.0) as client, Moving(clock) as moving:
            assert await client.create(CONFIG_MAPS, config_map("a")) == {"ok": 1}
    assert moving.pauses == pytest.approx([7.1, 3.2])
    assert len(server.received) == 3


async def test_a_server_that_puts_off_for_ever_is_given_up(clock: FakeClock) -> None:
    with HttpsServer(lambda request: Answer("no", 429, {"Retry-After": "1"})) as server:
        async with client_of(config(server), clock=clock) as client, Moving(clock):
            with pytest.raises(TooManyRequests):
                await client.get(CONFIG_MAPS, "a", "default")
    assert len(server.received) == 10


async def test_a_429_without_a_time_is_the_callers_business() -> None:
    with HttpsServer(lambda request: Answer("no", 429)) as server:
        async with client_of(config(server)) as client:
            with pytest.raises(TooManyRequests):
                await client.get(CONFIG_MAPS, "a", "default")
    assert len(server.received) == 1


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads a request and closes the connection."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                requests.append(connection.recv(65536))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.mark.parametrize(
    ("call", "attempts"),
    [
        (lambda client: client.get(CONFIG_MAPS, "a", "default"), 4),
        (lambda client: client.apply(CONFIG_MAPS, config_map("a"), manager="m"), 4),
        (lambda client: client.patch(CONFIG_MAPS, "a", [], "default", kind="json"), 1),
        (lambda client: client.create(CONFIG_MAPS, config_map("a")), 1),
    ],
    ids=["get", "apply", "json patch", "create"],
)
async def test_a_broken_connection_is_retried_only_where_twice_is_as_good_as_once(
    clock: FakeClock, call: Callable[[HttpClient], Any], attempts: int
) -> None:
    with hanging_up() as (url, _):
        async with client_of(ClientConfig(url), clock=clock) as client, Moving(clock):
            with pytest.raises(Unreachable):
                await call(client)
            assert client.requests == attempts


async def test_a_request_that_never_left_is_always_retried(clock: FakeClock) -> None:
    (port,) = free_ports(1)
    async with client_of(ClientConfig(f"http://127.0.0.1:{port}"), clock=clock) as client, Moving(clock):
        with pytest.raises(Unreachable) as away:
            await client.create(CONFIG_MAPS, config_map("a"))
        assert not away.value.sent
        assert client.requests == 4


async def test_a_server_of_a_foreign_authority_gets_no_request(authority: Authority, clock: FakeClock) -> None:
    with HttpsServer(lambda request: Answer({})) as server:
        foreign = ClientConfig(server.url, authority.pair.cert, identity=AuthInfo(token="sesame"))
        async with client_of(foreign, clock=clock) as client, Moving(clock):
            with pytest.raises(Unreachable, match="certificate"):
                await client.get(CONFIG_MAPS, "a", "default")
        async with client_of(ClientConfig(server.url, insecure=True)) as client:
            assert await client.get(CONFIG_MAPS, "a", "default") == {}
    assert len(server.received) == 1


async def test_the_server_may_be_known_by_another_name(clock: FakeClock) -> None:
    with HttpsServer(lambda request: Answer({}), hosts=("hub.internal",)) as server:
        async with client_of(config(server, tls_server_name="hub.internal")) as client:
            assert await client.get(CONFIG_MAPS, "a", "default") == {}
        async with client_of(config(server, tls_server_name="other.internal"), clock=clock) as client, Moving(clock):
            with pytest.raises(Unreachable, match=r"other\.internal"):
                await client.get(CONFIG_MAPS, "a", "default")


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with HttpsServer(lambda request: Answer({})) as server:
        async with client_of(config(server, AuthInfo(token="stale", token_file=token))) as client:
            await client.get(CONFIG_MAPS, "a", "default")
            token.write_text("second, longer\n")
            await client.get(CONFIG_MAPS, "a", "default")
            token.write_text("")
            await client.get(CONFIG_MAPS, "a", "default")
    seen = [request.headers["authorization"] for request in server.received]
    assert seen == ["Bearer first", "Bearer second, longer", "Bearer second, longer"]


async def test_a_token_file_that_cannot_be_read_for_a_moment_is_the_one_of_before(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.mkdir()
    with HttpsServer(lambda request: Answer({})) as server:
        async with client_of(config(server, AuthInfo(token_file=token))) as client:
            with pytest.raises(NoCredential, match="not readable"):
                await client.get(CONFIG_MAPS, "a", "default")
            token.rmdir()
            token.write_text("first")
            await client.get(CONFIG_MAPS, "a", "default")
            token.unlink()
            token.mkdir()
            await client.get(CONFIG_MAPS, "a", "default")
    assert [request.headers["authorization"] for request in server.received] == ["Bearer first"] * 2


async def test_acting_as_somebody_else_says_so_on_the_same_connections(tmp_path: Path) -> None:
    with HttpsServer(lambda request: Answer({})) as server:
        async with client_of(config(server, AuthInfo(token="own"))) as client:
            other = client.as_user("system:serviceaccount:a:b")
            await other.get(CONFIG_MAPS, "a", "default")
            await client.get(CONFIG_MAPS, "a", "default")
            assert client.requests == other.requests == 2
        with pytest.raises(KubeError, match="is closed"):
            await other.get(CONFIG_MAPS, "a", "default")
    seen = [(request.headers["authorization"], request.headers.get("impersonate-user")) for request in server.received]
    assert seen == [("Bearer own", "system:serviceaccount:a:b"), ("Bearer own", None)]


async def test_a_rotated_client_certificate_is_used_by_the_next_request(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("agent-1", file="agent")
    with HttpsServer(lambda request: Answer({}), client_ca=authority.pair.cert) as server:
        async with client_of(config(server, AuthInfo(pair.cert, pair.key))) as client:
            await client.get(CONFIG_MAPS, "a", "default")
            authority.issue("agent-2", file="agent")
            await client.get(CONFIG_MAPS, "a", "default")
            await client.get(CONFIG_MAPS, "a", "default")
            pair.cert.write_text("half written")
            await client.get(CONFIG_MAPS, "a", "default")
    assert [request.peer for request in server.received] == ["agent-1", "agent-2", "agent-2", "agent-2"]


async def test_a_rotated_ca_judges_the_next_request_whatever_was_trusted_before(authority: Authority, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    with HttpsServer(lambda request: Answer({})) as server:
        ca.write_bytes(server.ca)
        async with client_of(ClientConfig(server.url, ca)) as client:
            await client.get(CONFIG_MAPS, "a", "default")
            ca.write_bytes(authority.pair.cert.read_bytes())
            with pytest.raises(Untrusted):
                await client.get(CONFIG_MAPS, "b", "default")
            ca.write_bytes(authority.pair.cert.read_bytes() + server.ca)
            await client.get(CONFIG_MAPS, "c", "default")
    assert [request.path[-1] for request in server.received] == ["a", "c"]


def plugin(tmp_path: Path, status: dict[str, Any]) -> tuple[ExecPlugin, Path]:
    """Prints the status in `answer`, and counts its runs."""
    runs, answer, program = tmp_path / "runs", tmp_path / "answer", tmp_path / "get-token"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    answer.write_bytes(orjson.dumps(credential))
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$KUBERNETES_EXEC_INFO" >> {runs}\ncat {answer}\n')
    program.chmod(0o755)
    return ExecPlugin(str(program), provide_cluster_info=True), runs


async def test_a_plugins_token_is_kept_until_it_expires(tmp_path: Path, clock: FakeClock) -> None:
    expires = (clock.now() + timedelta(minutes=10)).isoformat()
    program, runs = plugin(tmp_path, {"token": "t1", "expirationTimestamp": expires})
    with HttpsServer(lambda request: Answer({})) as server:
        async with client_of(config(server, AuthInfo(exec_plugin=program)), clock=clock) as client:
            await asyncio.gather(*(client.get(CONFIG_MAPS, "a", "default") for _ in range(5)))
            assert len(runs.read_text().splitlines()) == 1
            plugin(tmp_path, {"token": "t2"})
            await clock.advance(601)
            await client.get(CONFIG_MAPS, "a", "default")
    assert len(runs.read_text().splitlines()) == 2
    info = orjson.loads(runs.read_text().splitlines()[0])
    assert info["spec"]["cluster"] == {"server": server.url, "certificate-authority-data": server.ca_bundle}
    assert server.received[-1].headers["authorization"] == "Bearer t2"


async def test_a_plugins_token_that_the_server_refuses_is_asked_for_again_once(tmp_path: Path) -> None:
    program, runs = plugin(tmp_path, {"token": "revoked"})
    with HttpsServer(lambda request: status(401, "Unauthorized")) as server:
        async with client_of(config(server, AuthInfo(exec_plugin=program))) as client:
            with pytest.raises(KubeError):
                await client.get(CONFIG_MAPS, "a", "default")
    assert len(runs.read_text().splitlines()) == 2
    assert len(server.received) == 2


async def test_a_plugin_may_issue_a_client_certificate(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue("exec-user")
    answer = {"clientCertificateData": pair.cert.read_text(), "clientKeyData": pair.key.read_text()}
    program, _ = plugin(tmp_path, answer)
    with HttpsServer(lambda request: Answer({}), client_ca=authority.pair.cert) as server:
        async with client_of(config(server, AuthInfo(exec_plugin=program))) as client:
            await client.get(CONFIG_MAPS, "a", "default")
    assert server.received[0].peer == "exec-user"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({}, "neither token nor client certificate"),
        ({"clientKeyData": "k"}, "must come together"),
        ({"token": "t", "expirationTimestamp": "soon"}, "not an RFC 3339 time"),
    ],
)
async def test_a_plugin_that_answers_badly_is_named_and_run_once(tmp_path: Path, answer: dict[str, Any], complaint: str) -> None:
    program, runs = plugin(tmp_path, answer)
    async with client_of(ClientConfig("https://127.0.0.1:1", identity=AuthInfo(exec_plugin=program))) as client:
        with pytest.raises(NoCredential, match=f"get-token: .*{complaint}"):
            await client.get(CONFIG_MAPS, "a", "default")
    assert len(runs.read_text().splitlines()) == 1


async def test_a_plugin_that_is_not_there_tells_how_to_get_it() -> None:
    identity = AuthInfo(exec_plugin=ExecPlugin("/nowhere/aws", install_hint="pip install it"))
    async with client_of(ClientConfig("https://127.0.0.1:1", identity=identity)) as client:
        with pytest.raises(NoCredential, match="/nowhere/aws: No such file or directory; pip install it"):
            await client.get(CONFIG_MAPS, "a", "default")


async def test_every_verb_says_what_the_api_expects() -> None:
    with HttpsServer(lambda request: Answer({"metadata": {"resourceVersion": "1"}, "items": []})) as server:
        async with client_of(config(server, AuthInfo(username="u", password="p"))) as client:
            await client.list(SECRETS, "ns", label_selector="a=b", field_selector="type=Opaque")
            await client.update(CONFIG_MAPS, config_map("a"), subresource="status")
            await client.patch(CONFIG_MAPS, "a", {"data": None}, "ns", kind="strategic", manager="me", dry_run=True)
            await client.apply(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "ns"}}, manager="me", force=False)
            await client.delete(CONFIG_MAPS, "a", "ns", uid="u1", propagation="Foreground", grace=0)
            await client.delete_collection(CONFIG_MAPS, "ns", label_selector="a=b")
            await client.create(CONFIG_MAPS, {}, "ns", name="a", subresource="token")
    base, said = "/api/v1/namespaces", [(request.method, request.path) for request in server.received]
    assert said == [
        ("GET", f"{base}/ns/secrets?labelSelector=a%3Db&fieldSelector=type%3DOpaque&limit=500"),
        ("PUT", f"{base}/default/configmaps/a/status"),
        ("PATCH", f"{base}/ns/configmaps/a?fieldManager=me&dryRun=All"),
        ("PATCH", f"{base}/ns/configmaps/a?fieldManager=me&force=false"),
        ("DELETE", f"{base}/ns/configmaps/a"),
        ("DELETE", f"{base}/ns/configmaps?labelSelector=a%3Db"),
        ("POST", f"{base}/ns/configmaps/a/token"),
    ]
    media = [request.headers.get("content-type") for request in server.received]
    assert media[2:4] == ["application/strategic-merge-patch+json", "application/apply-patch+yaml"]
    assert server.received[3].json == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}
    options = server.received[4].json
    assert (options["preconditions"], options["propagationPolicy"], options["gracePeriodSeconds"]) == (
        {"uid": "u1"},
        "Foreground",
        0,
    )
    assert server.received[0].headers["authorization"] == "Basic " + base64.b64encode(b"u:p").decode()


@pytest.mark.parametrize("secured", [False, True])
async def test_requests_go_through_the_proxy_that_the_kubeconfig_names(tmp_path: Path, secured: bool) -> None:
    authority = Authority(tmp_path, "proxies")
    pair = authority.issue("proxy", hosts=("127.0.0.1",)) if secured else None
    with HttpsServer(lambda request: Answer({})) as server, Proxy(pair=pair) as proxy:
        authorities = server.ca + authority.pair.cert.read_bytes()
        through = ClientConfig(server.url, authorities, proxy_url=proxy.url)
        async with client_of(through) as client:
            assert await client.get(CONFIG_MAPS, "a", "default") == {}
        assert proxy.asked == [f"127.0.0.1:{server.port}"]


def watching(lines: list[Any]) -> Callable[[Received], Answer]:
    return lambda request: Answer(b"".join(orjson.dumps(line) + b"\n" for line in lines))


async def test_a_watch_raises_the_error_that_the_server_sends_in_it() -> None:
    lines = [
        {"type": "ADDED", "object": config_map("a")},
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}},
    ]
    with HttpsServer(watching(lines)) as server:
        async with client_of(config(server)) as client:
            seen = []

            async def follow() -> None:
                async for event in client.watch(CONFIG_MAPS, "default", resource_version="5", timeout=60):
                    seen.append(event.type)

            with pytest.raises(KubeError, match="too old"):
                await follow()
            assert seen == ["ADDED"]
    assert server.received[0].path.endswith("watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=60")


async def test_a_watch_from_a_revision_that_is_gone_is_refused_as_expired() -> None:
    with HttpsServer(lambda request: status(410, "Expired", "too old resource version: 1 (9)")) as server:
        async with client_of(config(server)) as client:
            with pytest.raises(Expired):
                await anext(client.watch(CONFIG_MAPS, "default", resource_version="1"))


async def test_a_server_that_nobody_vouches_for_gets_nothing_and_is_not_asked_again(authority: Authority) -> None:
    with HttpsServer(lambda request: Answer({})) as server:
        identity = AuthInfo(token="secret")
        async with client_of(ClientConfig(server.url, authority.pair.cert.read_bytes(), identity=identity)) as client:
            with pytest.raises(Untrusted) as failure:
                await client.get(CONFIG_MAPS, "a", "default")
            assert not failure.value.sent
            assert client.requests == 1
        assert not server.received


async def test_no_more_requests_are_under_way_than_was_said_and_all_are_answered() -> None:
    under_way, most = 0, 0
    lock, full = threading.Lock(), threading.Event()

    def behave(_: Received) -> Answer:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == 3:
                full.set()
        full.wait(5)
        with lock:
            under_way -= 1
        return Answer({})

    with HttpsServer(behave) as server:
        async with client_of(config(server), at_once=3) as client:
            answers = await asyncio.gather(*(client.raw("GET", "/version") for _ in range(12)))
    assert (answers, most) == ([b"{}"] * 12, 3)
