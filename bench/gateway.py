"""The cluster gateway, ours and upstream's, on one hub before one cluster.

    python -m bench gateway [--short]

Both are aggregated APIs of the same kube-apiserver and lead to the same other one. Each is asked directly on its own port, which
shows what it costs itself, and through the hub's API server, which is what people do. What is compared is measured in short turns
right after each other, the cluster itself among them, and every other round in reverse order: what the machine does meanwhile meets
all of them. Memory is that of processes that have just been started, one at a time.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import loadgen
from bench.gateways import CLUSTER, DOCUMENT, NAMESPACE, POOL, SMALL, Authorizing, Gateway, Ground, Ours, Peak, Theirs, at_rest
from bench.loadgen import Target
from bench.report import Row, median

TITLE = "Gateway"
TEXT = """
`muster gateway` and upstream's cluster-gateway v1.9.1, with one kube-apiserver 1.35 as hub and another one as the cluster, the
same labelled Secret and token, and default settings, except that ours, a single replica, offers HTTP/2 (`--http2`). The Go load
shares the machine's cores with all of them. The caller is a user with a bearer token who has every permission by RBAC and
belongs to no group that is exempt from authorization. For each request, ours authorizes `foo/get` on the object by name, checks
`clustergateways/proxy`, and writes an audit line. Authorization results are cached for 10 s: 100 objects are read in turn,
after a warm-up, so nearly all results are cached ones; for objects that are read once each, none is. Upstream does only the
second check unless it is configured to authorize the path, and has no audit log. Its access review then contains neither object
nor resource, so it is the same one for all requests, and cached too. Figures are medians of rounds in which all are measured
right after each other. "Added" is the median minus that of the same GET from the cluster itself; for the tunnel, minus that of
the same GET by the same gateway without it. CPU is that of the gateway's process. The document is `/openapi/v2`, which a
kube-apiserver has in memory, so that the forwarding is measured. Memory of watches is the maximum resident memory while they
are open, minus that before, in newly started processes. The lag is from the start of the write, which takes the same path, to
the event. Opening the watches is not included in the CPU per event, but has its own row. The tunnel passes the hub's API
server. At rest, all clusters are the one that exists; upstream does not probe clusters by default.
"""
DIRECTLY, BY_HUB = "asked directly", "through the hub"


@dataclass(frozen=True)
class Sizes:
    clients: tuple[int, ...]
    seconds: float
    warm: float
    rounds: int
    objects: int
    lists: int
    downloads: int
    watches: int
    writes: int
    rate: float
    watch_rounds: int
    clusters: int
    rest: float


FULL = Sizes((1, 16, 64), 3, 1, 3, 5000, 5, 30, 1000, 50, 5, 2, 1000, 30)
SHORT = Sizes((1, 4), 0.3, 0.1, 1, 50, 2, 2, 10, 10, 0, 1, 5, 1)


@dataclass(frozen=True)
class Route:
    """A way to the cluster's objects; `gateway` is whose CPU it costs."""

    name: str
    target: Target
    gateway: Gateway | None = None


@dataclass(frozen=True)
class Gets:
    per_second: float
    p50: float
    p99: float
    cpu: float
    """Microseconds of the gateway's process per request."""


@dataclass(frozen=True)
class Watches:
    memory: float
    """KiB each."""
    p50: float
    p99: float
    cpu: float
    """Microseconds per event delivered, when the watches are open."""
    opening: float
    """Microseconds per watch, from its client's connection to its first event."""


Say = Callable[[str], None]
Figures = Mapping[tuple[Route, int], list[Gets]]


def run(short: bool = False, say: Say = print) -> list[Row]:
    sizes = SHORT if short else FULL
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        ground = Ground(Path(name))
        try:
            say("two kube-apiservers …")
            ground.start(sizes.objects)
            return [*_rows(ground, sizes, say)]
        finally:
            ground.discard()


def _rows(ground: Ground, sizes: Sizes, say: Say) -> Iterator[Row]:
    ours, theirs = Ours(ground), Theirs(ground)
    for side in (ours, theirs):
        side.install()
    ground.register(CLUSTER)
    with ours.running():
        with theirs.running():
            yield from _requests(ground, ours, theirs, sizes, say)
        with Authorizing(ground, theirs).running() as strict:
            yield from _authorized(ours, strict, sizes, say)
        yield from _tunnel(ours, sizes, say)
    yield from _watched(ground, ours, theirs, sizes, say)
    ground.register(*(f"more-{number:04d}" for number in range(sizes.clusters - 1)))
    yield from _rest_rows(_rest(ours, sizes, say), _rest(theirs, sizes, say), sizes)


# Requests


def _requests(ground: Ground, ours: Gateway, theirs: Gateway, sizes: Sizes, say: Say) -> Iterator[Row]:
    floor = Route("the cluster itself", ground.straight())
    ways = {
        DIRECTLY: [Route(f"{side.name}, {DIRECTLY}", side.asked_directly(), side) for side in (ours, theirs)],
        BY_HUB: [Route(f"{side.name}, {BY_HUB}", side.through_the_hub(), side) for side in (ours, theirs)],
    }
    routes = [floor, *(route for pair in ways.values() for route in pair)]
    gets = _gets_by(routes, sizes.clients, sizes, say)
    for clients in sizes.clients:
        title = f"GET from {floor.name}, {_plural(clients)}"
        yield Row(title, "/s", None, median([one.per_second for one in gets[floor, clients]]))
        yield Row(f"{title}: p50", "ms", None, median([one.p50 for one in gets[floor, clients]]), "less")
    for way, pair in ways.items():
        for clients in sizes.clients:
            yield from _get_rows(gets, way, pair, floor, clients)
    query = {"namespace": "bench-list", "query": "resourceVersion=0", "repeat": sizes.lists}
    lists = _lists_by(routes, query, sizes, say)
    yield Row(f"list of {sizes.objects:,} from {floor.name}", "ms", None, lists[floor][0], "less")
    for way, (mine, other) in ways.items():
        yield Row(f"list of {sizes.objects:,}, {way}", "ms", lists[mine][0], lists[other][0], "less")
    documents = _lists_by([floor, *ways[DIRECTLY]], {"path": DOCUMENT, "repeat": sizes.downloads}, sizes, say)
    yield Row(f"a document of 2 MB from {floor.name}", "MB/s", None, documents[floor][1])
    mine, other = ways[DIRECTLY]
    yield Row(f"a document of 2 MB, {DIRECTLY}", "MB/s", documents[mine][1], documents[other][1])


def _get_rows(gets: Figures, way: str, pair: Sequence[Route], floor: Route, clients: int) -> Iterator[Row]:
    title = f"GET, {way}, {_plural(clients)}"
    mine, other = (gets[route, clients] for route in pair)
    target, limit = (1.0, 1.0) if way == DIRECTLY else (None, None)
    yield _row(title, "/s", mine, other, lambda one: one.per_second, "more", target)
    if clients == 1:
        base = gets[floor, clients]
        yield Row(f"{title}: added p50", "ms", _added(mine, base), _added(other, base), "less", limit=limit)
    else:
        yield _row(f"{title}: p50", "ms", mine, other, lambda one: one.p50, "less")
    yield _row(f"{title}: p99", "ms", mine, other, lambda one: one.p99, "less")
    yield _row(f"{title}: CPU per request", "µs", mine, other, lambda one: one.cpu, "less", target)


def _authorized(ours: Gateway, strict: Gateway, sizes: Sizes, say: Say) -> Iterator[Row]:
    routes = [Route(f"{side.name}, {DIRECTLY}", side.asked_directly(), side) for side in (ours, strict)]
    most = sizes.clients[-1]
    gets = _gets_by(routes, [most], sizes, say)
    mine, other = (gets[route, most] for route in routes)
    title = f"GET, {DIRECTLY}, {_plural(most)}, upstream's authorizes too"
    yield _row(title, "/s", mine, other, lambda one: one.per_second)
    yield _row(f"{title}: CPU per request", "µs", mine, other, lambda one: one.cpu, "less")
    once: dict[Route, list[float]] = defaultdict(list)
    count = sizes.objects // sizes.rounds
    for number in range(sizes.rounds):
        for route in _in_turn(routes, number):
            part = {"first": number * count, "count": count, "clients": 16, "seconds": 60}
            measured = loadgen.run(route.target, "load", verb="get", namespace="bench-list", prefix=SMALL, **part)
            say(f"{route.name}: once each {measured}")
            once[route].append(measured["per_second"])
    ours_once, strict_once = (median(once[route]) for route in routes)
    yield Row("GET of each object once, 16 clients, upstream's authorizes too", "/s", ours_once, strict_once)


def _tunnel(ours: Ours, sizes: Sizes, say: Say) -> Iterator[Row]:
    with ours.tunnel() as name:
        plain = Route(f"{ours.name}, {DIRECTLY}", ours.asked_directly(), ours)
        tunnelled = Route(f"{ours.name}, by tunnel", ours.asked_directly(name), ours)
        routes = [plain, tunnelled]
        one, most = sizes.clients[0], sizes.clients[-1]
        gets = _gets_by(routes, [one, most], sizes, say)
        yield Row("GET by tunnel, 1 client: added p50", "ms", _added(gets[tunnelled, one], gets[plain, one]), None, "less", limit=2)
        yield Row(f"GET by tunnel, {_plural(most)}", "/s", median([found.per_second for found in gets[tunnelled, most]]), None)
        documents = _lists_by(routes, {"path": DOCUMENT, "repeat": sizes.downloads}, sizes, say)
        yield Row("a document of 2 MB by tunnel", "MB/s", documents[tunnelled][1], None, limit=50)


def _gets_by(routes: Sequence[Route], clients: Sequence[int], sizes: Sizes, say: Say) -> Figures:
    found = defaultdict(list)
    for number in range(sizes.rounds):
        for count in clients:
            for route in _in_turn(routes, number):
                found[route, count].append(_gets(route, count, sizes, say))
    return found


def _lists_by(routes: Sequence[Route], flags: Mapping[str, Any], sizes: Sizes, say: Say) -> dict[Route, tuple[float, float]]:
    """Milliseconds for one, and megabytes per second."""
    found = defaultdict(list)
    for number in range(sizes.rounds):
        for route in _in_turn(routes, number):
            listed = loadgen.run(route.target, "list", **flags)
            say(f"{route.name}: list {listed}")
            found[route].append((listed["p50_ms"], listed["bytes"] / 1000 / listed["p50_ms"]))
    return {route: (median([one[0] for one in figures]), median([one[1] for one in figures])) for route, figures in found.items()}


def _in_turn(routes: Sequence[Route], number: int) -> Sequence[Route]:
    return routes if number % 2 == 0 else routes[::-1]


def _gets(route: Route, clients: int, sizes: Sizes, say: Say) -> Gets:
    reading = {"verb": "get", "namespace": NAMESPACE, "prefix": SMALL, "pool": POOL, "clients": clients}
    loadgen.run(route.target, "load", seconds=sizes.warm, **reading)
    cpu = route.gateway.cpu() if route.gateway else 0.0
    measured = loadgen.run(route.target, "load", seconds=sizes.seconds, **reading)
    spent = (route.gateway.cpu() - cpu) / measured["requests"] * 1e6 if route.gateway else 0.0
    say(f"{route.name}, {_plural(clients)}: {spent:.0f} µs each, {measured}")
    return Gets(measured["per_second"], measured["p50_ms"], measured["p99_ms"], spent)


# Watches


def _watched(ground: Ground, ours: Gateway, theirs: Gateway, sizes: Sizes, say: Say) -> Iterator[Row]:
    lags = []
    found: dict[Gateway, list[Watches]] = {ours: [], theirs: []}
    for number in range(sizes.watch_rounds):
        lags.append(loadgen.run(ground.straight(), "watch", prefix=f"floor{number}", **_watching(sizes)))
        say(f"the cluster itself: {sizes.watches} watches: {lags[-1]}")
        for side in (ours, theirs) if number % 2 == 0 else (theirs, ours):
            with side.running():
                _gets(Route(side.name, side.asked_directly(), side), sizes.clients[1], sizes, say)
                found[side].append(_watches(side, sizes, f"{side.name}-{number}", say))
    title, mine, other = f"{sizes.watches:,} watches", found[ours], found[theirs]
    yield Row(f"{title} of the cluster itself: event lag p50", "ms", None, median([one["p50_ms"] for one in lags]), "less")
    yield _row(f"{title}: memory each", "KiB", mine, other, lambda one: one.memory, "less", 1)
    yield _row(f"{title}: event lag p50", "ms", mine, other, lambda one: one.p50, "less")
    yield _row(f"{title}: event lag p99", "ms", mine, other, lambda one: one.p99, "less")
    yield _row(f"{title}: CPU per event", "µs", mine, other, lambda one: one.cpu, "less")
    yield _row(f"{title}: CPU per watch opened", "µs", mine, other, lambda one: one.opening, "less")


def _watching(sizes: Sizes) -> dict[str, Any]:
    return {"namespace": "bench-watch", "watchers": sizes.watches, "writes": sizes.writes, "rate": sizes.rate}


def _watches(side: Gateway, sizes: Sizes, prefix: str, say: Say) -> Watches:
    before, cpu = side.memory(), side.cpu()
    with Peak(side) as peak:
        measured = loadgen.run(side.asked_directly(), "watch", prefix=prefix, **_watching(sizes))
    each = (peak.bytes - before) / 1024 / sizes.watches
    whole, cpu = side.cpu() - cpu, side.cpu()
    # Opening them is two TLS handshakes for each, and would be most of what an event seems to cost.
    once = loadgen.run(side.asked_directly(), "watch", prefix=f"{prefix}-once", **{**_watching(sizes), "writes": 1})
    opening = side.cpu() - cpu
    spent = max(0.0, whole - opening) / (measured["events"] - once["events"]) * 1e6
    opened = opening / sizes.watches * 1e6
    say(f"{side.name}: {sizes.watches} watches: {each:.0f} KiB, {opened:.0f} µs each, {spent:.0f} µs per event, {measured}")
    return Watches(each, measured["p50_ms"], measured["p99_ms"], spent, opened)


# At rest


def _rest(side: Gateway, sizes: Sizes, say: Say) -> tuple[float, ...]:
    with side.running():
        side.await_cluster(f"more-{sizes.clusters - 2:04d}")
        # Once: what is asked at the start is not asked at rest.
        at_rest(side, sizes.rest / 4)
        found = at_rest(side, sizes.rest)
    say(f"{side.name}: {sizes.clusters} clusters at rest: {found}")
    return found


def _rest_rows(ours: tuple[float, ...], theirs: tuple[float, ...], sizes: Sizes) -> list[Row]:
    titles = (("memory", "MiB"), ("CPU", "ms/s"), ("requests to the hub", "/min"), ("requests to the clusters", "/min"))
    return [
        Row(f"{sizes.clusters:,} clusters at rest: {title}", unit, mine, other, "less")
        for (title, unit), mine, other in zip(titles, ours, theirs, strict=True)
    ]


# Rows


def _plural(clients: int) -> str:
    return f"{clients} client" if clients == 1 else f"{clients} clients"


def _added(gets: Sequence[Gets], base: Sequence[Gets]) -> float:
    """By rounds: what the machine did in one of them is in both."""
    return median([one.p50 - floor.p50 for one, floor in zip(gets, base, strict=True)])


def _row(
    title: str,
    unit: str,
    ours: Sequence[Any],
    theirs: Sequence[Any],
    figure: Callable[[Any], float],
    better: str = "more",
    target: float | None = None,
) -> Row:
    return Row(title, unit, median([*map(figure, ours)]), median([*map(figure, theirs)]), better, target)
