"""Strangers and greedy users who hold connections open and send slowly, a little or not at all: the server holds next to nothing
for them, and whoever can prove an identity gets in and is served."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.http.filelimit import raise_file_limit
from tests.fuzz.session import rss
from tests.support.client import Client
from tests.support.planes import USERS, EmbeddedPlane
from tests.support.sites import beside_kube

pytestmark = beside_kube

NAMESPACE = "hostile"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LARGEST = 3 * 1024 * 1024
MIB = 1 << 20
FILES = 1024
"""The usual limit on open files."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    yield from furnished(EmbeddedPlane(tmp_path_factory.mktemp("hostile"), clusters=()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    """A server that cannot have more files than the usual."""
    yield from furnished(EmbeddedPlane(tmp_path_factory.mktemp("small"), clusters=(), open_files=(FILES, FILES)))


def furnished(plane: EmbeddedPlane) -> Iterator[EmbeddedPlane]:
    raise_file_limit()
    plane.start()
    client = plane.client()
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    role = {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"}
    for user in ("alice", "bob"):
        subject = {"kind": "User", "name": USERS[user].name, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
        client.post(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings", binding).expect(201)
    client.close()
    yield plane
    plane.stop(kill=True)


@pytest.fixture(autouse=True)
def _logs_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attacks are no failures of ours, and leave no tracebacks."""
    yield
    for name in ("server", "small"):
        if name in request.fixturenames:
            text = Path(request.getfixturevalue(name).logs[0]).read_text(errors="replace")
            assert "Traceback" not in text, text[:3000]
            assert "request failed" not in text, text[:3000]


class Attackers:
    """Connections that are closed when the test ends."""

    def __init__(self, server: EmbeddedPlane) -> None:
        client = server.client()
        self._place = (client.host, client.port)
        self._prefix = client.prefix
        self._tls = ssl.create_default_context(cafile=str(server.ca))
        self.sockets: list[socket.socket] = []

    def silent(self) -> socket.socket:
        opened = socket.create_connection(self._place, 10)
        self.sockets.append(opened)
        return opened

    def secured(self) -> ssl.SSLSocket:
        opened = self._tls.wrap_socket(self.silent(), server_hostname=self._place[0])
        self.sockets[-1] = opened
        return opened

    def head(self, *fields: str, method: str = "POST", path: str = MAPS, token: str = "") -> bytes:
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", "Host: a", "Content-Type: application/json", *fields]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def trickle(self, opened: ssl.SSLSocket, head: bytes, size: int, piece: bytes) -> None:
        """Send as much of a body as is taken quickly, and never its end."""
        opened.settimeout(0.3)
        with contextlib.suppress(OSError):
            opened.sendall(head)
            for _ in range(size // len(piece)):
                opened.sendall(piece)

    def close(self) -> None:
        for opened in self.sockets:
            opened.close()


@pytest.fixture
def attackers(server: EmbeddedPlane) -> Iterator[Attackers]:
    made = Attackers(server)
    yield made
    made.close()


def answer(opened: ssl.SSLSocket) -> bytes:
    """The status line that a connection got, or nothing."""
    received = b""
    opened.settimeout(10)
    with contextlib.suppress(OSError):
        while b"\r\n" not in received and (piece := opened.recv(4096)):
            received += piece
    return received.partition(b"\r\n")[0]


def p99(samples: list[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.99)]


class Probe:
    """An authenticated client that asks something small all the time."""

    def __init__(self, server: EmbeddedPlane) -> None:
        self._client = Client(server.url, ca=server.ca, token=USERS["bob"].token)
        self._ends = threading.Event()
        self._samples: list[float] = []
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._ends.is_set():
            began = time.monotonic()
            reply = self._client.get(MAPS, query={"limit": 1})
            self._samples.append(time.monotonic() - began)
            if reply.status != 200:
                self._failures.append(reply.text)
            self._ends.wait(0.002)

    def during(self, attack: Callable[[], None]) -> float:
        self._thread.start()
        attack()
        self._ends.set()
        self._thread.join()
        self._client.close()
        assert not self._failures
        return p99(self._samples)


def quiet_p99(server: EmbeddedPlane) -> float:
    return Probe(server).during(lambda: time.sleep(1.0))


# Bodies


def test_bodies_of_strangers_are_refused_on_their_head_and_not_held(server: EmbeddedPlane, attackers: Attackers) -> None:
    alone = quiet_p99(server)
    for _ in range(3):  # what a first connection costs is not what is asked about
        attackers.secured().close()
    before = rss(server.pid)
    opened = [attackers.secured() for _ in range(80)]
    piece = b"x" * 65536

    def attack() -> None:
        for number, one in enumerate(opened):
            framing = f"Content-Length: {LARGEST}" if number % 2 else "Transfer-Encoding: chunked"
            data = piece if number % 2 else b"10000\r\n" + piece + b"\r\n"
            attackers.trickle(one, attackers.head(framing), LARGEST - 65536, data)

    beside = Probe(server).during(attack)
    grown = rss(server.pid) - before
    print(f"80 trickling strangers: {grown >> 20} MiB; p99 {alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside them")
    assert grown < 30 * MIB, f"{grown >> 20} MiB"
    assert beside < max(0.1, 4 * alone), f"p99 {beside:.3f} s, alone {alone:.3f} s"


@pytest.mark.parametrize(
    ("token", "status"),
    [("", b"403"), ("no-such-token", b"401"), (USERS["carol"].token, b"403")],
    ids=["anonymous", "bad token", "no right"],
)
@pytest.mark.parametrize("framing", [f"Content-Length: {LARGEST}", "Content-Length: 99000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("expect", [(), ("Expect: 100-continue",)], ids=["plain", "expects 100"])
def test_who_may_not_is_told_before_the_body_comes(
    server: EmbeddedPlane, attackers: Attackers, token: str, status: bytes, framing: str, expect: tuple[str, ...]
) -> None:
    opened = attackers.secured()
    opened.sendall(attackers.head(framing, *expect, token=token))
    assert answer(opened)[9:12] == status


def test_who_may_is_told_to_go_on_and_bodies_in_pieces_arrive(server: EmbeddedPlane, attackers: Attackers) -> None:
    body = b'{"metadata":{"generateName":"in-pieces-"},"data":{"k":"' + b"x" * 200_000 + b'"}}'
    opened = attackers.secured()
    opened.sendall(attackers.head(f"Content-Length: {len(body)}", "Expect: 100-continue", token=USERS["alice"].token))
    assert answer(opened) == b"HTTP/1.1 100 Continue"
    for start in range(0, len(body), 7_001):
        opened.sendall(body[start : start + 7_001])
    assert answer(opened).endswith(b"201 Created")


def test_one_user_cannot_make_the_server_hold_more_than_a_share(server: EmbeddedPlane, attackers: Attackers) -> None:
    opened = [attackers.secured() for _ in range(60)]
    before = rss(server.pid)
    head = attackers.head(f"Content-Length: {LARGEST}", token=USERS["alice"].token)

    def attack() -> None:
        for one in opened:
            attackers.trickle(one, head, LARGEST - 65536, b"x" * 65536)

    Probe(server).during(attack)
    grown = rss(server.pid) - before
    print(f"60 bodies of one user under way: {grown >> 20} MiB")
    assert grown < 64 * MIB, f"{grown >> 20} MiB"
    bob = Client(server.url, ca=server.ca, token=USERS["bob"].token)
    began = time.monotonic()
    large = {"metadata": {"generateName": "beside-"}, "data": {"k": "x" * 900_000}}
    bob.post(MAPS, large).expect(201)
    assert time.monotonic() - began < 2.0
    alice = Client(server.url, ca=server.ca, token=USERS["alice"].token)
    alice.post(MAPS, {"metadata": {"generateName": "small-"}}).expect(201)
    alice.post(MAPS, large).expect(201)  # her own slow ones give way
    alice.close()
    bob.close()


def test_a_body_of_single_bytes_costs_no_more_than_its_size(server: EmbeddedPlane, attackers: Attackers) -> None:
    opened = attackers.secured()
    opened.sendall(attackers.head("Transfer-Encoding: chunked", token=USERS["alice"].token))
    before = rss(server.pid)
    opened.settimeout(10)
    for _ in range(40):
        opened.sendall(b"1\r\nx\r\n" * 10_000)
    grown = rss(server.pid) - before
    assert grown < 20 * MIB, f"{grown >> 20} MiB for 400,000 chunks of one byte"


def test_heads_that_trickle_are_counted_too(server: EmbeddedPlane, attackers: Attackers) -> None:
    before = rss(server.pid)
    for _ in range(300):
        with contextlib.suppress(OSError):
            attackers.secured().sendall(b"GET /api HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 60_000)
    grown = rss(server.pid) - before
    print(f"300 unfinished heads of 60 kB: {grown >> 20} MiB")
    assert grown < 80 * MIB, f"{grown >> 20} MiB"


def test_answers_that_strangers_never_read_are_not_made(server: EmbeddedPlane, attackers: Attackers) -> None:
    opened = [attackers.secured() for _ in range(100)]
    before = rss(server.pid)
    many = attackers.head(method="GET", path="/version") * 500
    for one in opened:
        attackers.trickle(one, b"", 40 * len(many), many)
    grown = rss(server.pid) - before
    print(f"100 strangers with 20,000 pipelined requests each and no answer read: {grown >> 20} MiB")
    assert grown < len(opened) * MIB, f"{grown >> 20} MiB"


# Connections


@pytest.fixture
def crowd(small: EmbeddedPlane) -> Iterator[Attackers]:
    made = Attackers(small)
    yield made
    made.close()


def served_within(server: EmbeddedPlane, seconds: float) -> None:
    for _ in range(5):
        client = server.client()
        began = time.monotonic()
        client.get("/api/v1/namespaces/default").expect(200)
        took = time.monotonic() - began
        client.close()
        assert took < seconds, f"{took:.2f} s to connect and be served"


@pytest.mark.parametrize("kind", ["silent", "secured"])
def test_a_thousand_idle_connections_do_not_lock_anybody_out(small: EmbeddedPlane, crowd: Attackers, kind: str) -> None:
    early = Client(small.url, ca=small.ca, token=USERS["alice"].token)
    early.get(MAPS).expect(200)
    with contextlib.suppress(OSError):  # those who come late may be let go before their handshake is done
        for _ in range(1_100):
            crowd.silent() if kind == "silent" else crowd.secured()
    assert len(crowd.sockets) >= 500
    served_within(small, 1.0)
    assert not early_is_gone(early), "an authenticated connection went before strangers'"
    early.get(MAPS).expect(200)
    early.close()
    open_files = len(list(Path(f"/proc/{small.pid}/fd").iterdir()))
    assert open_files < FILES * 3 // 4 + 64, open_files


def early_is_gone(client: Client) -> bool:
    connection = client._connection
    assert connection is not None
    assert connection.sock is not None
    connection.sock.settimeout(0.05)
    try:
        return connection.sock.recv(1) == b""
    except TimeoutError:
        connection.sock.settimeout(30)
        return False


def test_a_flood_of_new_connections_leaves_newcomers_their_moment(small: EmbeddedPlane, crowd: Attackers) -> None:
    ends = threading.Event()

    def flood() -> None:
        while not ends.is_set():
            with contextlib.suppress(OSError):
                crowd.silent()
            if len(crowd.sockets) > 4_000:
                crowd.sockets.pop(0).close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        while len(crowd.sockets) < 1_000:
            time.sleep(0.01)
        served_within(small, 5.0)  # behind thousands whom the kernel has queued before
    finally:
        ends.set()
        flooding.join()


def test_the_limit_on_open_files_is_raised_to_what_the_system_allows(tmp_path: Path) -> None:
    plane = EmbeddedPlane(tmp_path, clusters=(), open_files=(256, 4096))
    plane.start()
    try:
        (line,) = [x for x in Path(f"/proc/{plane.pid}/limits").read_text().splitlines() if x.startswith("Max open files")]
        assert line.split()[3] == "4096"
    finally:
        plane.stop(kill=True)
