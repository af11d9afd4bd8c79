"""The gRPC transport, ours and upstream's, under one Go load over mTLS.

    python -m bench transport [--short]

Three grounds. On a kube-apiserver with clusters (`bench.grpc_servers`) both servers run in turn: Publish, a hub's write until its
agent has it, agents of five streams, and their return after a restart. Before objects in memory (`bench.memory_hub`, and sdk-go
v1.3.0's own broker) only broker and wire are measured: deliveries to many streams, and a resync of works that are all known. On a
database (`bench.grpc_sql`) our server is alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.grpc_fleet import listens
from tests.support import peers
from tests.support.pki import Authority
from tests.support.processes import free_ports
from tests.unit.store.postgres_server import PostgresServer

from bench.grpc_servers import Ground, GrpcServer, Lifted, MeasuredServer, Ours, Paced
from bench.grpc_sql import OnSql
from bench.report import Row, median
from bench.sides import cpu_seconds
from bench.transport_load import PREFIX, Endpoint, Lines, load, measure

TITLE = "Transport"
DIRECT_AT_ONCE = 32
"""Writes under way without a server between: kube-apiserver and etcd get through fewer with less, and with more."""
TEXT = """
`muster grpc-server` and upstream's (OCM v1.2.1), alternately on one kube-apiserver 1.35 + etcd, under the same Go load over
mTLS, which shares the machine's cores with them. Upstream runs with its defaults (50 requests per second to the API server) and
with that limit lifted. A lease is renewed with the version that the server's last event contained, as agents must. Requests are
counted in the audit log by account. A write on the hub is measured from its request to the API server, whose response takes
most of that time and depends on its disk; therefore it is also measured from that response. Next to the status of works is the
rate at which the API server accepts the same writes directly from a Go client, without a gRPC server: on these cores that is
the upper limit. Silent readers subscribe and never read; their streams are full before the measurement begins, and what has not
arrived ten seconds after the last write counts as not delivered. Deliveries and resync measure only broker and protocol, with
objects in memory, next to sdk-go v1.3.0's own server and broker; every change is encoded again, 1 KB each. Agents with five
streams each reconnect by themselves after 0.25 s at first and 7.5 s at most. On SQLite and PostgreSQL the server is itself the
hub's API server; upstream has no equivalent.
"""


@dataclass(frozen=True)
class Sizes:
    publishers: int
    seconds: float
    warm: float
    streams: tuple[int, ...]
    deliveries: int
    readers: int
    silent: int
    rate: float
    works: int
    agents: int
    rounds: int
    """On the kube-apiserver, every other one in reverse order: what the machine does meanwhile meets all sides."""

    @property
    def clusters(self) -> int:
        return max(self.publishers, self.readers + self.silent, self.agents)


FULL = Sizes(100, 10, 5, (100, 1000, 5000), 100_000, 100, 1, 50, 5000, 500, 2)
SHORT = Sizes(5, 2, 1, (10,), 1000, 5, 1, 10, 50, 5, 1)


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    sizes = SHORT if short else FULL
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        return [
            *_kube_rows(Path(name) / "kube", sizes, say),
            *_memory_rows(Path(name), sizes, say),
            *_sql_rows(Path(name), sizes, say),
        ]


# On a kube-apiserver


@dataclass(frozen=True)
class Latency:
    p50: float | None
    """Milliseconds; None where nothing was delivered."""
    p99: float | None
    added: float | None
    """The 99th percentile from the API server's answer to the writer on; below zero where the agent was first."""
    delivered: float
    """Percent."""


@dataclass(frozen=True)
class OnKube:
    """What was found of one server."""

    publish: dict[str, tuple[float, float]]
    """By kind: Publish/s, and requests to the API server for each."""
    alone: Latency
    silent: Latency
    memory: float
    """KiB per agent of five streams."""
    back: float


def _kube_rows(directory: Path, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    sides: tuple[type[GrpcServer], ...] = (Ours, Lifted)
    found: dict[type[GrpcServer], list[OnKube]] = {side: [] for side in sides}
    ground = Ground(directory, sizes.clusters)
    most: list[float | None] = []
    try:
        say(f"a kube-apiserver with {sizes.clusters} clusters …")
        ground.start()
        for number in range(sizes.rounds):
            most.append(_direct(ground, sizes, say))
            for side in sides if number % 2 == 0 else sides[::-1]:
                found[side].append(_on_kube(side(ground), sizes, say))
        # Once: minutes go by until agents are back, and what its limit lets through is the same every time.
        found[Paced] = [_on_kube(Paced(ground), sizes, say)]
    finally:
        ground.discard()

    def row(
        title: str,
        unit: str,
        figure: Callable[[OnKube], float | None],
        better: str = "more",
        target: float | None = None,
        *,
        peer: type[GrpcServer] = Lifted,
        limit: float | None = None,
    ) -> Row:
        ours, theirs = (_median([*map(figure, found[side])]) for side in (Ours, peer))
        return Row(title, unit, ours, theirs, better, target, limit)

    def publish(kind: str, title: str) -> list[Row]:
        return [
            row(f"Publish of {title}", "/s", lambda one: one.publish[kind][0], target=20, peer=Paced),
            row(f"Publish of {title}, upstream's limit lifted", "/s", lambda one: one.publish[kind][0], target=1),
            row(f"requests to the API server per Publish of {title}", "", lambda one: one.publish[kind][1], "less"),
        ]

    return [
        *publish("lease", "lease renewals"),
        *publish("work", "works' status"),
        Row("works' status written to the API server directly", "/s", None, _median(most)),
        row("hub's write until the agent has it, p50", "ms", lambda one: one.alone.p50, "less"),
        row("hub's write until the agent has it, p99", "ms", lambda one: one.alone.p99, "less"),
        row("the same with 1 % silent readers, p50", "ms", lambda one: one.silent.p50, "less"),
        row("the same with 1 % silent readers, p99", "ms", lambda one: one.silent.p99, "less"),
        row("delivered with 1 % silent readers", "%", lambda one: one.silent.delivered),
        row("API server's answer to the write until the agent has it, p99", "ms", lambda one: one.alone.added, "less"),
        row("memory per agent of five streams", "KiB", lambda one: one.memory, "less", 1),
        row(f"{sizes.agents} agents are back after a restart", "s", lambda one: one.back, "less", peer=Paced, limit=10),
        row("the same, upstream's limit lifted", "s", lambda one: one.back, "less"),
    ]


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _on_kube(server: GrpcServer, sizes: Sizes, say: Callable[[str], None]) -> OnKube:
    server.start()
    try:
        published = {kind: _publish(server, kind, sizes, say) for kind in ("lease", "work")}
        alone = silent = Latency(None, None, None, 0.0)
        if not isinstance(server, Paced):
            alone = _latency(server, sizes, 0, say)
            silent = _latency(server, sizes, sizes.silent, say)
            # A silent reader leaves upstream's server stuck; whatever comes after starts on a new one.
            server.stop()
            server.start()
        memory, back = _agents(server, sizes, say)
        return OnKube(published, alone, silent, memory, back)
    finally:
        server.stop()


def _direct(ground: Ground, sizes: Sizes, say: Callable[[str], None]) -> float:
    """Writes per second that the API server takes."""
    flags = {"clusters": min(DIRECT_AT_ONCE, sizes.publishers), "seconds": f"{sizes.seconds / 2}s", "warm": f"{sizes.warm / 4}s"}
    with load(None, "direct", ground.directory / "load.log", **flags, **ground.kube_flags()) as lines:
        lines.until("measured")
        found = lines.read()
    say(f"no gRPC server: works' status {found['perSecond']:.0f}/s, {found}")
    return float(found["perSecond"])


def _publish(server: MeasuredServer, kind: str, sizes: Sizes, say: Callable[[str], None]) -> tuple[float, float]:
    flags = {"kind": kind, "clusters": sizes.publishers, "seconds": f"{sizes.seconds}s", "warm": f"{sizes.warm}s"}
    with load(server.endpoint, "publish", server.directory / "load.log", **flags) as lines:
        lines.until("measuring")
        mark, cpu = server.mark(), server.cpu()
        lines.until("measured")
        requests, spent = server.requests(mark), server.cpu() - cpu
        found = lines.read()
    per = requests / max(1, found["published"])
    cost = spent / max(1, found["published"]) * 1e6
    say(f"{server.name}: {kind} {found['perSecond']:.0f}/s, {per:.2f} requests and {cost:.0f} µs each, {found}")
    return float(found["perSecond"]), per


def _latency(server: MeasuredServer, sizes: Sizes, silent: int, say: Callable[[str], None]) -> Latency:
    flags = {"clusters": sizes.readers, "silent": silent, "rate": sizes.rate, "seconds": f"{sizes.seconds}s", **server.kube_flags()}
    found = measure(server.endpoint, "latency", server.directory / "load.log", **flags)
    say(f"{server.name}: latency with {silent} silent: {found}")
    delivered = 100 * found["delivered"] / found["written"]
    if not delivered:
        return Latency(None, None, None, delivered)
    return Latency(found["latency"]["p50"], found["latency"]["p99"], found["added"]["p99"], delivered)


def _agents(server: GrpcServer, sizes: Sizes, say: Callable[[str], None]) -> tuple[float, float]:
    before = server.memory()
    with load(server.endpoint, "agents", server.ground.directory / "load.log", clusters=sizes.agents) as lines:
        up = lines.until("up")
        # What is garbage by then is not an agent's.
        time.sleep(5)
        memory = (server.memory() - before) * 1024 / sizes.agents
        server.server.stop(kill=True)
        server.server.start()
        lines.write("mark")
        back = lines.until("up")
    say(f"{server.name}: {sizes.agents} agents up {up['seconds']:.1f} s, back {back['seconds']:.1f} s, {memory:.0f} KiB each")
    return memory, float(back["seconds"])


# Without Kubernetes


def _sql_rows(directory: Path, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    lite = directory / "sqlite"
    rows = _on_sql("SQLite", lite, f"sqlite:///{lite / 'hub.db'}", sizes, say)
    database = PostgresServer(fsync=True)
    database.start()
    try:
        return rows + _on_sql("PostgreSQL", directory / "postgresql", database.dsn("postgres"), sizes, say)
    finally:
        database.stop()


def _on_sql(kind: str, directory: Path, database: str, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    directory.mkdir()
    server = OnSql(f"muster on {kind}", directory, database, max(sizes.publishers, sizes.readers))
    server.start()
    try:
        published = {name: _publish(server, name, sizes, say)[0] for name in ("lease", "work")}
        alone = _latency(server, sizes, 0, say)
    finally:
        server.stop()
    return [
        Row(f"on {kind}: Publish of lease renewals", "/s", published["lease"], None),
        Row(f"on {kind}: Publish of works' status", "/s", published["work"], None),
        Row(f"on {kind}: hub's write until the agent has it, p50", "ms", alone.p50, None, "less"),
        Row(f"on {kind}: hub's write until the agent has it, p99", "ms", alone.p99, None, "less"),
    ]


# Before objects in memory


def _memory_rows(directory: Path, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    authority = Authority(directory, "memory")
    rows = []
    for streams in sizes.streams:
        ours, theirs = (_delivered(side, authority, directory, streams, sizes.deliveries, say) for side in ("muster", "sdk-go"))
        rows.append(Row(f"deliveries to {streams:,} streams", "/s", ours, theirs, target=1))
    ours, theirs = (_resynced(side, authority, directory, sizes.works, say) for side in ("muster", "sdk-go"))
    rows.append(Row(f"resync of {sizes.works:,} known works", "s", ours, theirs, "less", target=20))
    return rows


@contextmanager
def _hub(side: str, authority: Authority, directory: Path) -> Iterator[tuple[Lines, Endpoint]]:
    (port,) = free_ports(1)
    serving = authority.issue("memory-hub", hosts=("127.0.0.1",))
    clients = authority.pair.cert
    commands: dict[str, list[str | Path]] = {
        "muster": [sys.executable, "-m", "bench.memory_hub", str(port), serving.cert, serving.key, clients],
        "sdk-go": [
            peers.need("transport-broker"),
            f"--port={port}",
            f"--cert={serving.cert}",
            f"--key={serving.key}",
            f"--client-ca={clients}",
        ],
    }
    lines = Lines(commands[side], directory / f"{side}.log")
    try:
        deadline = time.monotonic() + 30
        while not listens(port):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{side} does not listen: {(directory / f'{side}.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield lines, Endpoint(port, authority)
    finally:
        lines.close()


def _delivered(side: str, authority: Authority, directory: Path, streams: int, count: int, say: Callable[[str], None]) -> float:
    per_connection = 5
    clusters = streams // per_connection
    with _hub(side, authority, directory) as (hub, endpoint):
        flags = {"clusters": clusters, "streams": per_connection, "count": count}
        with load(endpoint, "deliver", directory / "load.log", **flags) as lines:
            lines.until("ready")
            # Upstream counts a subscriber only after its head is sent.
            time.sleep(1)
            cpu = cpu_seconds(hub.pid)
            hub.ask(op="feed", prefix=PREFIX, clusters=clusters, streams=per_connection, count=count, size=600)
            found = lines.read()
            cost = (cpu_seconds(hub.pid) - cpu) / count * 1e6
    say(f"{side}: {found['perSecond']:.0f} deliveries/s to {streams} streams, {cost:.1f} µs of CPU each, {found}")
    return float(found["perSecond"])


def _resynced(side: str, authority: Authority, directory: Path, works: int, say: Callable[[str], None]) -> float:
    with _hub(side, authority, directory) as (hub, endpoint):
        hub.ask(op="fill", cluster=f"{PREFIX}00000", count=works, size=600)
        found = measure(endpoint, "resync", directory / "load.log", count=works)
    say(f"{side}: resync of {works} works: {found}")
    return median(found["known"])
