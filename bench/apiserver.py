"""The embedded API server and kube-apiserver + etcd, side by side.

    python -m bench apiserver [--short]
    python -m bench.apiserver CHECKOUT [--rounds 16] [--verbs]

Both servers run at the same time and get the same load in turns (one after the other, the order changing every round), so
that another process's burst harms neither side more; a figure is the median over the rounds. What is on and who asks is
told in `bench.sides`; the load generator is peers/bench. Time to ready and memory are taken on servers of their own. The second
form compares with our own server of another checkout (set up), to see what a change costs: verb by verb in pairs (`bench.paired`),
for which it is ours by the other's with an interval, then all else as in the first form, unless `--verbs` leaves that out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bench import clusters, loadgen, paired
from bench.loadgen import Target
from bench.paired import PairedRatio
from bench.report import Row, median, text_table
from bench.sides import Ours, Side, Theirs, earlier

TITLE = "API server"
TEXT = """
`muster apiserver` (one process) and kube-apiserver 1.35 + etcd, measured alternately under the same load, on one machine and in
one run; medians over the rounds. Both have TLS, token authentication, RBAC (a ClusterRole allows the load's user to access
ConfigMaps), admission, validation, an audit log at Metadata level, and durable writes (SQLite `synchronous=FULL`, etcd with
fsync). Objects are ConfigMaps of 1.1 KB. The load generator (Go, HTTP/1.1, keep-alive connections) shares the cores with the
servers. Memory is resident memory: ours includes the controllers, the peer's does not include kube-controller-manager.
"""
VERBS = ("create", "get", "update", "patch", "apply", "delete")
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
LISTS = {
    "list": ("", "application/json"),
    "list, resourceVersion=0": ("resourceVersion=0", "application/json"),
    "list in pages of 500": ("limit=500", "application/json"),
    "list as Table": ("", TABLE),
    "list a tenth by label": ("labelSelector=slice%3Ds3", "application/json"),
}
LEAST_RATIO = 1.5
PAIRED_ROUNDS = 16
Turn = TypeVar("Turn")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    starts: int = 3
    rounds: int = 5
    seconds: float = 1.0
    clients: tuple[int, ...] = (1, 16, 64)
    pool: int = 1000
    listed: int = 5000
    lists: int = 10
    watchers: tuple[int, ...] = (100, 1000)
    writes: int = 60
    objects: int = 20_000
    logical: int = 1000


SHORT = Plan(
    starts=1,
    rounds=1,
    seconds=0.2,
    clients=(1, 16),
    pool=50,
    listed=500,
    lists=2,
    watchers=(20,),
    writes=10,
    objects=500,
    logical=20,
)

Figures = dict[str, dict[str, list[float]]]
"""row → side → one figure per round"""


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    return _run(SHORT if short else Plan(), say, Theirs)


def _run(plan: Plan, say: Callable[[str], None], peer: type[Side]) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        directory = Path(name)
        say("starting, and memory …")
        rows += _starts(directory, plan, peer)
        with _both(directory / "load", peer) as sides:
            targets = {side.name: side.prepare() for side in sides}
            for clients in plan.clients:
                say(f"verbs with {clients} clients …")
                rows += _verbs(sides, targets, plan, clients)
            say("lists …")
            rows += _lists(sides, targets, plan)
            for watchers in plan.watchers:
                say(f"{watchers} watchers …")
                rows += _watches(sides, targets, plan, watchers)
    say(f"{plan.logical} logical clusters …")
    rows += clusters.rows(plan.logical)
    return rows


@contextmanager
def _both(directory: Path, peer: type[Side]) -> Iterator[Sequence[Side]]:
    sides: list[Side] = [Ours(directory / "ours"), peer(directory / "theirs")]
    try:
        for side in sides:
            side.start()
        yield sides
    finally:
        for side in sides:
            side.discard()


def _turns(sides: Sequence[Turn], rounds: int) -> Iterator[tuple[int, Turn]]:
    for number in range(rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            yield number, side


def _row(figures: Figures, title: str, unit: str, better: str, target: float | None = None, limit: float | None = None) -> Row:
    found = figures[title]
    (peer,) = found.keys() - {Ours.name}
    return Row(title, unit, median(found[Ours.name]), median(found[peer]), better, target, limit)


def _figures() -> Figures:
    return defaultdict(lambda: defaultdict(list))


def _starts(directory: Path, plan: Plan, peer: type[Side]) -> list[Row]:
    """Each server alone: from its start to ready, and on the last start what it holds empty and filled."""
    figures = _figures()
    filled = f"memory with {plan.objects:,} objects"
    kinds: tuple[type[Side], ...] = (Ours, peer)
    for number, kind in _turns(kinds, plan.starts):
        side = kind(directory / f"start-{number}-{kind.__name__}")
        try:
            figures["time to ready"][side.name].append(side.start())
            if number == plan.starts - 1:
                time.sleep(1)
                figures["memory idle"][side.name].append(side.memory() / 2**20)
                target = side.prepare()
                loadgen.run(
                    target,
                    "load",
                    verb="create",
                    clients=16,
                    seconds=100,
                    count=plan.objects,
                    namespace="bench-many",
                    prefix="many",
                )
                figures[filled][side.name].append(side.memory() / 2**20)
        finally:
            side.discard()
    return [
        _row(figures, "time to ready", "s", "less", limit=0.5),
        _row(figures, "memory idle", "MiB", "less", target=4),
        _row(figures, filled, "MiB", "less", target=4),
    ]


def _verbs(sides: Sequence[Side], targets: dict[str, Target], plan: Plan, clients: int) -> list[Row]:
    speed, slowest = _figures(), _figures()
    crowd = "1 client" if clients == 1 else f"{clients} clients"
    for number, side in _turns(sides, plan.rounds):
        created = 0
        for verb in VERBS:
            flags: dict[str, object] = {
                "seconds": plan.seconds,
                "clients": clients,
                "prefix": f"c{clients}-r{number}",
                "verb": verb,
            }
            if verb == "delete":
                flags |= {"count": created, "seconds": 60}
            elif created:
                flags["pool"] = min(created, plan.pool)
            result = loadgen.run(targets[side.name], "load", **flags)
            created = created or result["requests"]
            speed[f"{verb}, {crowd}"][side.name].append(result["per_second"])
            slowest[f"{verb}, {crowd}: p99"][side.name].append(result["p99_ms"])
    rows = [_row(speed, title, "/s", "more", target=LEAST_RATIO) for title in speed]
    return rows + [_row(slowest, title, "ms", "less") for title in slowest]


def _lists(sides: Sequence[Side], targets: dict[str, Target], plan: Plan) -> list[Row]:
    figures = _figures()
    for side in sides:
        flags = {"verb": "create", "clients": 16, "seconds": 100, "count": plan.listed}
        loadgen.run(targets[side.name], "load", namespace="bench-list", prefix="list", **flags)
    for _, side in _turns(sides, plan.rounds):
        for title, (query, accept) in LISTS.items():
            result = loadgen.run(targets[side.name], "list", namespace="bench-list", query=query, accept=accept, repeat=plan.lists)
            figures[f"{title} ({plan.listed:,} objects)"][side.name].append(result["p50_ms"])
    return [_row(figures, title, "ms", "less", target=LEAST_RATIO) for title in figures]


def _watches(sides: Sequence[Side], targets: dict[str, Target], plan: Plan, watchers: int) -> list[Row]:
    calm, burst = f"watch, {watchers:,} watchers, 20 writes/s", f"watch, {watchers:,} watchers, burst"
    figures = _figures()
    for number, side in _turns(sides, max(1, plan.rounds - 2)):
        flags = {"namespace": "bench-watch", "watchers": watchers, "writes": plan.writes}
        result = loadgen.run(targets[side.name], "watch", prefix=f"calm{watchers}-{number}", rate=20, **flags)
        figures[f"{calm}: p50"][side.name].append(result["p50_ms"])
        figures[f"{calm}: p99"][side.name].append(result["p99_ms"])
        result = loadgen.run(targets[side.name], "watch", prefix=f"burst{watchers}-{number}", **flags)
        figures[f"{burst}: p99"][side.name].append(result["p99_ms"])
        figures[burst][side.name].append(result["per_second"])
    latencies = [_row(figures, title, "ms", "less") for title in figures if title != burst]
    return [*latencies, _row(figures, burst, "events/s", "more")]


def compare(peer: type[Side], rounds: int, clients: Sequence[int], say: Callable[[str], None] = print) -> list[PairedRatio]:
    """Ours with `peer`, verb by verb in pairs."""
    ratios: list[PairedRatio] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, _both(Path(name), peer) as sides:
        ours, other = sides
        targets = {side.name: side.prepare() for side in sides}

        def measure(side: str, verb: str, clients: int, number: int) -> float:
            flags = paired.verb_flags(verb, clients, number)
            return float(loadgen.run(targets[side], "load", **flags)["per_second"])

        for count in clients:
            say(f"{rounds} pairs of each verb, clients: {count} …")
            ratios += paired.compare((ours.name, other.name), VERBS, count, rounds, measure)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.apiserver", description="Compare with our server of another checkout.")
    parser.add_argument("checkout", type=Path, help="Another checkout, set up (`make setup`).")
    parser.add_argument("--rounds", type=int, default=PAIRED_ROUNDS, help="Pairs of each verb, two at least.")
    parser.add_argument("--verbs", action="store_true", help="Nothing but the verbs.")
    given = parser.parse_args()
    if given.rounds < 2:
        parser.error("--rounds: an interval takes two pairs at least")
    peer, plan = earlier(given.checkout.resolve()), Plan()
    ratios = compare(peer, given.rounds, plan.clients)
    print("requests per second, ours by those of the other checkout, with the interval of 95 %")
    print("\n".join(map(str, ratios)))
    if not given.verbs:
        print(text_table(_run(replace(plan, clients=()), print, peer)))


if __name__ == "__main__":
    main()
