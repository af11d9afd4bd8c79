"""Clients and clusters that mean the gateway no good, through the hub's API server and straight at the gateway's port. The cluster
records every byte it is sent: what it must not learn has not arrived (C2-C5, D7-D9, D13, D15)."""

from __future__ import annotations

import base64
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, MANAGED_CLUSTERS, SECRETS, GatewaySite
from tests.support.administrator import wait_for
from tests.support.pki import Authority, Pair
from tests.support.planes import USERS, KubePlane
from tests.support.recording_cluster import RecordingCluster, Talk, agree, answer
from tests.support.sites import beside_kube

TOKEN = "the-gateways-own-token-of-the-trap"
ADMIN = f"Authorization: Bearer {USERS['admin'].token}"
MALLORY = f"Authorization: Bearer {USERS['mallory'].token}"
EXEC = "/api/v1/namespaces/default/pods/p/exec?command=id"
WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    status: int
    head: str
    body: bytes
    whole: bool
    """Whether the body is as long as was announced."""

    @property
    def cause(self) -> str:
        return str(orjson.loads(self.body)["details"]["causes"][0]["reason"])


class Trap:
    """A registered cluster that records, and raw ways to it. Below a path, so that climbing out of it would be seen."""

    def __init__(self, site: GatewaySite, cluster: RecordingCluster) -> None:
        self.site = site
        self.name = site.name("trap")
        self.cluster = cluster
        self._marks: list[str] = []
        site.accept(self.name)
        data: dict[str, str | bytes] = {"endpoint": f"{cluster.url}/k8s/clusters/c-1", "ca.crt": cluster.ca, "token": TOKEN}
        site.credential(self.name, "ServiceAccountToken", data)
        site.wait_status(self.name, healthy=True)

    def begin(self) -> None:
        """Another test begins: what arrives late of the last one's is not its doing."""
        self.cluster.behaviour = agree
        self._marks.append(self.site.name("attack-"))

    def connect(self, *, direct: bool, pair: Pair | None = None) -> ssl.SSLSocket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        port = self.site.gateway.port if direct else urllib.parse.urlsplit(self.site.hub.url).port
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20))

    def head(self, method: str, path: str, *fields: str, direct: bool) -> bytes:
        prefix = "" if direct else urllib.parse.urlsplit(self.site.hub.url).path
        line = f"{method} {prefix}{GATEWAYS}/{self.name}/proxy{path} HTTP/1.1"
        return "\r\n".join([line, "Host: localhost", f"User-Agent: {self._marks[-1]}", *fields, "", ""]).encode()

    def ask(
        self, path: str, *fields: str, direct: bool, method: str = "GET", pair: Pair | None = None, body: bytes = b""
    ) -> Answer:
        with self.connect(direct=direct, pair=pair) as connection:
            connection.sendall(self.head(method, path, *fields, direct=direct) + body)
            return receive(connection)

    @property
    def talks(self) -> list[Talk]:
        former = [f"{mark} via".encode() for mark in self._marks[:-1]]
        return [talk for talk in self.cluster.talks if not any(mark in talk.data for mark in former)]

    @property
    def arrived(self) -> bytes:
        return b"".join(talk.data for talk in self.talks)


def receive(connection: ssl.SSLSocket) -> Answer:
    """One answer, whose body may break off."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = _more(connection)
        if not piece:
            return Answer(0, data.decode("latin-1"), b"", False)
        data += piece
    raw, _, body = data.partition(b"\r\n\r\n")
    head = raw.decode("latin-1")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])}
    status = int(head.split(" ")[1])
    length = fields.get("content-length")
    if status == 101:
        return Answer(status, head, body, True)
    chunked = fields.get("transfer-encoding") == "chunked"
    while not (body.endswith(b"0\r\n\r\n") if chunked else length is not None and len(body) >= int(length)):
        piece = _more(connection)
        if not piece:
            return Answer(status, head, body, length is None and not chunked)
        body += piece
    return Answer(status, head, body, True)


def _more(connection: ssl.SSLSocket) -> bytes:
    try:
        return connection.recv(65536)
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.fixture(scope="module")
def lasting_trap(site: GatewaySite) -> Iterator[Trap]:
    with RecordingCluster() as cluster:
        trap = Trap(site, cluster)
        yield trap
        site.forget(trap.name)


@pytest.fixture
def trap(lasting_trap: Trap) -> Trap:
    lasting_trap.begin()
    return lasting_trap


@pytest.fixture(params=["hub", "port"])
def direct(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "port")


# What clients say of themselves (C2, C3, C5)

STOLEN = "stolen-word"
FIELDS = [
    (f"Cookie: session={STOLEN}",),
    (f"Proxy-Authorization: Basic {STOLEN}",),
    (f"X-Remote-User: {STOLEN}", f"X-Remote-Group: {STOLEN}", f"X-Remote-Extra-Scopes: {STOLEN}", f"X-Remote-Uid: {STOLEN}"),
    (f"x_remote_user: {STOLEN}",),
    (f"Impersonate-Foo: {STOLEN}",),
    ("Connection: Authorization, Impersonate-User, X-Remote-User", f"X-Remote-User: {STOLEN}"),
    ("Connection: keep-alive, Authorization, Host, Via",),
    (f"X-Forwarded-For: {STOLEN}", f"X-Forwarded-Host: {STOLEN}", f"Forwarded: for={STOLEN}"),
    (f"X-Original-URL: /{STOLEN}", f"X-Rewrite-URL: /{STOLEN}", f"X-HTTP-Method-Override: {STOLEN}"),
    (f"X-Real-IP: {STOLEN}", f"True-Client-IP: {STOLEN}"),
]


@pytest.mark.parametrize("fields", FIELDS)
def test_what_a_client_says_of_itself_does_not_arrive(trap: Trap, direct: bool, fields: tuple[str, ...]) -> None:
    reply = trap.ask("/api/v1/pods", ADMIN, *fields, direct=direct)
    assert reply.status == 200, reply
    arrived = trap.arrived
    assert arrived.lower().count(b"authorization:") == 1
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in arrived
    assert STOLEN.encode() not in arrived
    assert USERS["admin"].token.encode() not in arrived


HUB_NAMES = {
    "requestheader-username-headers": "X-Hub-User",
    "requestheader-group-headers": "X-Hub-Group",
    "requestheader-extra-headers-prefix": "X-Hub-Extra-",
}
CLAIMS = (f"X-Hub-User: {STOLEN}", f"x_hub_group: {STOLEN}", f"X-Hub-Extra-Scopes: {STOLEN}", f"X-Remote-User: {STOLEN}")


def test_fields_that_the_hub_says_name_users_do_not_arrive_from_then_on(trap: Trap, direct: bool) -> None:
    """The ConfigMap is changed while the gateway runs. kube-apiserver joins its own names to those it finds there."""
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    before = trap.site.admin.get(path).expect(200)["data"]
    own = trap.site.name("X-Hub-")

    def stolen(*fields: str) -> bool:
        trap.begin()
        assert trap.ask("/api/v1/pods", ADMIN, *fields, *CLAIMS, f"{own}: {STOLEN}", direct=direct).status == 200
        return STOLEN.encode() in trap.arrived

    assert stolen()
    added = {key: orjson.dumps([*orjson.loads(before[key]), name]).decode() for key, name in HUB_NAMES.items()}
    added["requestheader-uid-headers"] = orjson.dumps([*orjson.loads(before["requestheader-uid-headers"]), own]).decode()
    trap.site.admin.patch(path, {"data": added}).expect(200)
    try:
        wait_for(lambda: not stolen(), "the hub's names to be removed", servers=trap.site.gateway.servers)
        assert not stolen(f"Connection: X-Hub-User, {own}, X-Remote-User")

        def accept(talk: Talk, head: bytes) -> None:
            talk.say(SWITCHED % b"websocket")
            talk.listen()

        trap.begin()
        trap.cluster.behaviour = accept
        assert trap.ask(EXEC, ADMIN, *WEBSOCKET, *CLAIMS, f"{own}: {STOLEN}", direct=direct).status == 101
        assert STOLEN.encode() not in trap.arrived
    finally:
        trap.site.admin.patch(path, {"data": {key: before[key] for key in added}}).expect(200)


@pytest.mark.parametrize("field", ["Impersonate-User", "impersonate-user", "IMPERSONATE-USER"])
def test_impersonation_is_the_hubs_and_is_not_passed_on(trap: Trap, direct: bool, field: str) -> None:
    refused = trap.ask("/api/v1/pods", MALLORY, f"{field}: admin", "Impersonate-Group: system:masters", direct=direct)
    assert refused.status == 403
    judged = trap.ask("/api/v1/pods", ADMIN, f"{field}: {STOLEN}", direct=direct)
    assert judged.status == 403
    assert STOLEN.encode() in judged.body
    assert trap.arrived == b""


@pytest.mark.parametrize("field", ["Impersonate-Group: system:masters", "Impersonate-Extra-Scopes: x", "Impersonate-Uid: 0"])
def test_half_an_impersonation_is_refused(trap: Trap, direct: bool, field: str) -> None:
    assert trap.ask("/api/v1/pods", MALLORY, field, direct=direct).status in (400, 403, 500)
    assert trap.arrived == b""


def test_a_token_in_a_subprotocol_names_the_client_and_does_not_arrive(trap: Trap, direct: bool) -> None:
    encoded = base64.urlsafe_b64encode(USERS["admin"].token.encode()).decode().rstrip("=")
    bearer = f"base64url.bearer.authorization.k8s.io.{encoded}"

    def accept(talk: Talk, head: bytes) -> None:
        talk.say(SWITCHED % b"websocket")
        talk.listen()

    trap.cluster.behaviour = accept
    reply = trap.ask(EXEC, *WEBSOCKET, f"Sec-WebSocket-Protocol: {bearer}, v5.channel.k8s.io", direct=direct)
    assert reply.status == 101, reply
    arrived = trap.arrived.lower()
    assert b"sec-websocket-protocol: v5.channel.k8s.io\r\n" in arrived
    assert b"base64url.bearer" not in arrived
    assert encoded.lower().encode() not in arrived


@pytest.mark.parametrize("protocols", ["{bearer}", "{bearer}, {bearer}, v5", "{bearer}==, v5", "{unknown}, v5"])
def test_a_subprotocol_that_is_no_token_names_nobody(trap: Trap, direct: bool, protocols: str) -> None:
    encoded = [base64.urlsafe_b64encode(token.encode()).decode().rstrip("=") for token in (USERS["admin"].token, "nobodys")]
    known, unknown = (f"base64url.bearer.authorization.k8s.io.{token}" for token in encoded)
    offered = protocols.format(bearer=known, unknown=unknown)
    assert trap.ask(EXEC, *WEBSOCKET, f"Sec-WebSocket-Protocol: {offered}", direct=direct).status == 401
    # Nor is it one where the connection stays HTTP.
    assert trap.ask("/api", f"Sec-WebSocket-Protocol: {known}, v5", direct=direct).status == 403
    assert trap.arrived == b""


# Who clients claim to be (C4)

CLAIMED = ("X-Remote-User: admin", "X-Remote-Group: system:masters")


@pytest.mark.parametrize(
    ("fields", "status"),
    [((), 403), (("Authorization: Bearer nobodys",), 401), ((MALLORY,), 403), (("Authorization: Basic YWRtaW46YWRtaW4=",), 403)],
)
def test_a_claim_without_a_certificate_is_no_proof(trap: Trap, fields: tuple[str, ...], status: int) -> None:
    reply = trap.ask("/api/v1/pods", *CLAIMED, *fields, direct=True)
    assert reply.status == status, reply
    assert b'"admin"' not in reply.body
    assert trap.arrived == b""


@pytest.mark.parametrize("name", ["front-proxy-client", "admin"])
def test_a_certificate_of_a_strangers_authority_is_no_proof(trap: Trap, name: str, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "unknown-ca").issue(name, organizations=("system:masters",))
    reply = trap.ask("/api/v1/pods", *CLAIMED, direct=True, pair=stranger)
    assert reply.status in (0, 401)
    assert trap.arrived == b""


@pytest.mark.kube
def test_only_the_front_proxy_speaks_for_others(trap: Trap) -> None:
    ground = trap.site.ground
    assert isinstance(ground, KubePlane)
    files = ground.files
    user = trap.ask("/api/v1/pods", *CLAIMED, direct=True, pair=files.ca.issue("mallory", file="mallory"))
    assert user.status == 403
    assert b"mallory" in user.body
    other = trap.ask("/api/v1/pods", *CLAIMED, direct=True, pair=files.front_proxy_ca.issue("not-allowed"))
    assert other.status == 401
    server = trap.ask("/api/v1/pods", *CLAIMED, direct=True, pair=files.serving)
    assert server.status == 403
    assert trap.arrived == b""
    proxied = trap.ask("/api/v1/pods", *CLAIMED, direct=True, pair=files.front_proxy)
    assert proxied.status == 200
    assert b"x-remote" not in trap.arrived.lower()


# Where requests lead (D7), with the recording cluster below a path

PATHS = [
    "/../c-2/api",
    "/%2e%2e/c-2/api",
    "/..%2fc-2/api",
    "/..;/c-2/api",
    "/api/..",
    "/.",
    "//evil/api",
    "/api%5c..%5cc-2",
    "/a%00b",
]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_climbs_out_of_the_cluster(trap: Trap, direct: bool, path: str) -> None:
    reply = trap.ask(path, ADMIN, direct=direct)
    if direct:
        assert reply.status == 400, reply
        assert trap.arrived == b""
    for talk in trap.talks:
        target = talk.data.split(b" ", 2)[1]
        assert target.startswith(b"/k8s/clusters/c-1/"), target
        assert b".." not in urllib.parse.unquote_to_bytes(target)


# Requests that are two, or too much (D8)

TWICE = [
    ("POST", ("Content-Length: 3", "Transfer-Encoding: chunked"), b"0\r\n\r\n"),
    ("POST", ("Content-Length: 3", "Content-Length: 4"), b"abcd"),
    ("POST", ("Content-Length: +3",), b"abc"),
    ("POST", ("Transfer-Encoding: chunked, identity",), b"0\r\n\r\n"),
    ("POST", ("Transfer-Encoding : chunked",), b"0\r\n\r\n"),
    ("GET", ("Host: evil",), b""),
    ("GET", ("X: a\r\n\tfolded",), b""),
    ("TRACE", (), b""),
    ("CONNECT", (), b""),
    ("GET", ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), b""),
    ("GET", ("Connection: Upgrade", "Upgrade: TLS/1.3"), b""),
    ("GET", ("Connection: Upgrade", "Upgrade: websocket, h2c"), b""),
]


@pytest.mark.parametrize(("method", "fields", "body"), TWICE)
def test_a_request_that_can_be_read_in_two_ways_is_refused(trap: Trap, method: str, fields: tuple[str, ...], body: bytes) -> None:
    reply = trap.ask("/api/v1/pods", ADMIN, *fields, direct=True, method=method, body=body)
    assert reply.status in (400, 405, 501), reply
    assert trap.arrived == b""


def test_a_chunk_that_is_none_ends_the_request(trap: Trap) -> None:
    def wait(talk: Talk, head: bytes) -> None:
        talk.listen()

    trap.cluster.behaviour = wait
    smuggled = b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
    body = b"3\r\nabc\r\nzz\r\n" + smuggled
    reply = trap.ask("/api/v1/pods", ADMIN, "Transfer-Encoding: chunked", direct=True, method="POST", body=body)
    assert reply.status in (0, 400), reply
    assert b"secrets" not in trap.arrived


def test_too_large_is_said_at_once(trap: Trap) -> None:
    began = time.monotonic()
    reply = trap.ask("/api/v1/pods", ADMIN, f"Content-Length: {10 * 2**30}", direct=True, method="POST")
    assert reply.status == 413
    assert trap.ask("/api", ADMIN, "X-Large: " + "x" * 2**20, direct=True).status == 431
    assert trap.ask("/api", ADMIN, *(f"X-{number}: y" for number in range(150)), direct=True).status == 431
    assert time.monotonic() - began < 5
    assert trap.arrived == b""


def test_those_who_never_finish_a_sentence_hold_up_nobody(trap: Trap) -> None:
    """D9, in short: the rest of it is how long such a connection lives."""
    with ExitStack() as stack:
        slow = [stack.enter_context(trap.connect(direct=True)) for _ in range(40)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nX")
        began = time.monotonic()
        for _ in range(5):
            assert trap.ask("/api", ADMIN, direct=True).status == 200
            for connection in slow:
                connection.sendall(b"y")
        assert time.monotonic() - began < 5


@beside_kube
@pytest.mark.timeout(180)
def test_a_thousand_that_never_finish_are_cut_at_the_deadline(trap: Trap) -> None:
    """D9."""
    with ExitStack() as stack:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        slow = []
        for _ in range(1000):
            opened = socket.create_connection(("127.0.0.1", trap.site.gateway.port), timeout=20)
            connection = stack.enter_context(context.wrap_socket(opened))
            connection.sendall(b"GET / HTTP/1.1\r\nX")
            connection.setblocking(False)
            slow.append(connection)
        left = set(slow)

        def all_cut() -> bool:
            assert trap.ask("/api", ADMIN, direct=True).status == 200
            for connection in tuple(left):
                try:
                    connection.send(b"y")
                    ended = connection.recv(65536) == b""
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    continue
                except OSError:
                    ended = True
                if ended:
                    left.discard(connection)
            time.sleep(1)  # they trickle: it is the deadline that is to cut them, not silence
            return not left

        wait_for(all_cut, "the end of all that trickle", timeout=120)


# Clusters that mean no good (D13, D15, upgrades)


@contextmanager
def answering(trap: Trap, *said: bytes) -> Iterator[None]:
    """A cluster that says just this, and hangs up."""

    def say(talk: Talk, head: bytes) -> None:
        for data in said:
            talk.say(data)
        talk.connection.close()

    trap.cluster.behaviour = say
    yield


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"])
@pytest.mark.parametrize("location", ["https://10.1.2.3/internal", "/internal", "//10.1.2.3/internal"])
def test_a_redirection_is_not_passed_on(trap: Trap, direct: bool, status: str, location: str) -> None:
    with answering(trap, answer(status, b"<a>internal</a>", f"Location: {location}")):
        reply = trap.ask("/api/v1/pods", ADMIN, direct=direct)
    assert (reply.status, reply.cause) == (502, "ClusterRedirected")
    assert "internal" not in reply.head
    assert b"internal" not in reply.body


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ite\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ite\r\nzz\r\n',
    ],
)
def test_a_torn_answer_is_seen_to_be_torn(trap: Trap, direct: bool, said: bytes) -> None:
    with answering(trap, said):
        reply = trap.ask("/api/v1/pods", ADMIN, direct=direct)
    assert not reply.whole or reply.status == 502, reply


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (SWITCHED % b"websocket", "ClusterBroken"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2**20 + b"\r\n\r\n", "ClusterBroken"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "ClusterBroken"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "ClusterBroken"),
        (b"", "ClusterBroken"),
        (answer("401 Unauthorized", b"{}", "WWW-Authenticate: Basic"), "CredentialRefused"),
    ],
)
def test_an_answer_that_is_none_is_not_passed_on(trap: Trap, direct: bool, said: bytes, cause: str) -> None:
    with answering(trap, said):
        reply = trap.ask("/api/v1/pods", ADMIN, direct=direct)
    assert (reply.status, reply.cause) == (503 if cause == "CredentialRefused" else 502, cause)
    assert TOKEN.encode() not in reply.body


@pytest.mark.parametrize("protocol", [b"h2c", b"SPDY/3.1", b"tls/1.3", b""])
def test_a_switch_to_another_protocol_than_asked_for_is_not_passed_on(trap: Trap, direct: bool, protocol: bytes) -> None:
    with answering(trap, SWITCHED % protocol + b"GET /api/v1/secrets HTTP/1.1\r\n\r\n"):
        reply = trap.ask(EXEC, ADMIN, *WEBSOCKET, direct=direct)
    assert (reply.status, reply.cause) == (502, "ClusterBroken")
    assert b"secrets" not in reply.body


def test_what_a_cluster_says_to_browsers_and_of_the_token_is_not_passed_on(trap: Trap, direct: bool) -> None:
    fields = (
        "Set-Cookie: a=b",
        "WWW-Authenticate: Basic",
        "Access-Control-Allow-Origin: *",
        f"X-Echo: Bearer {TOKEN}",
        "Kept: yes",
    )
    with answering(trap, answer("200 OK", b"{}", *fields)):
        reply = trap.ask("/api/v1/pods", ADMIN, direct=direct)
    head = reply.head.lower()
    assert reply.status == 200
    assert "kept: yes" in head
    assert not [name for name in ("set-cookie", "www-authenticate", "access-control", TOKEN) if name in head]


def test_a_client_that_leaves_ends_the_clusters_work(trap: Trap, direct: bool) -> None:
    """D15."""

    def trickle(talk: Talk, head: bytes) -> None:
        talk.say(CHUNKED + b"5\r\nfirst\r\n")
        talk.listen()

    trap.cluster.behaviour = trickle
    with trap.connect(direct=direct) as connection:
        connection.sendall(trap.head("GET", "/api/v1/pods?watch=true", ADMIN, direct=direct))
        data = b""
        while b"first" not in data:
            data += connection.recv(65536)
    [talk] = trap.talks
    assert talk.ended.wait(10)


# What is taken away (D16)


def last(talk: Talk, head: bytes) -> None:
    """A watch that has one event, a terminal that says one word."""
    first = SWITCHED % b"websocket" + b"first" if b"/exec" in head else CHUNKED + b"5\r\nfirst\r\n"
    talk.say(first)
    talk.listen()


def take_away(site: GatewaySite, what: str, name: str) -> None:
    if what == "acceptance":
        site.admin.patch(f"{MANAGED_CLUSTERS}/{name}", {"spec": {"hubAcceptsClient": False}}).expect(200)
    else:
        site.admin.delete(f"{MANAGED_CLUSTERS if what == 'cluster' else SECRETS}/{name}").expect(200)


@pytest.mark.parametrize("what", ["cluster", "acceptance", "credential"])
def test_open_streams_end_with_the_cluster_or_its_credential(site: GatewaySite, what: str) -> None:
    """D16. The gateway tears its side; how the hub's API server tells clients is its own."""
    with RecordingCluster(last) as cluster, ExitStack() as stack:
        trap = Trap(site, cluster)
        trap.begin()
        cluster.behaviour = last
        opened = []
        for direct in (True, False):
            for path, fields in (("/api/v1/pods?watch=true", ()), (EXEC, WEBSOCKET)):
                connection = stack.enter_context(trap.connect(direct=direct))
                connection.sendall(trap.head("GET", path, ADMIN, *fields, direct=direct))
                data = b""
                while b"first" not in data:
                    data += connection.recv(65536)
                opened.append(connection)
        assert len(trap.talks) == len(opened)
        take_away(site, what, trap.name)
        for talk in trap.talks:
            assert talk.ended.wait(20)
        for connection in opened:
            while _more(connection):
                pass
        reply = trap.ask("/api", ADMIN, direct=True)
        assert reply.status == (503 if what == "credential" else 404)
        site.forget(trap.name)
