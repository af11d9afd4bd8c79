"""Placements, ours and upstream's: 100 placements over 1,000 clusters, what a change costs, and what rest does.

    python -m bench placement [--short]
    python -m bench.placement muster|upstream [--unlimited] [--clusters N] [--placements N] [--all] [--cel] [--scores N]

Clusters and placements are there before the controller starts. Time runs from its start until every placement says that all its
decisions are scheduled. Then a cluster is tainted that placements have chosen, until no decision has it, and one is added, until
every placement that takes all clusters has it. Requests are counted in the server's audit log over the same times.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.choosing import CLUSTERS, GROUP, Chooser, expressed, labelled, scored

from bench.hub_comparison import Rest, compare, measure_one, rest_rows
from bench.hub_controllers import PLACEMENT, HubController, Onlooker, Ours, Upstream, each
from bench.report import Row
from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.runtime.cache.informer import Informer
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.client.typed import served

TITLE = "Placements"
TEXT = """
`muster placement` and upstream's placement controller (OCM v1.2.1), each on its own kube-apiserver 1.35 + etcd that starts
empty, with the same flags and CRDs; the controllers share the machine's cores with it. Clusters are objects without agents.
Placements select by one label (or by one CEL expression) and take 10 clusters each, or all of them. "As they come" means
default settings: upstream limits itself to 50 requests per second, ours has no limit; "limits lifted": upstream with 10,000.
Writes are those of decisions and status, counted in the audit log, without Events. A change is measured until the last decision
contains it. Scores: that many AddOnPlacementScores are written, spread over the time that the row names, while 20 placements
rank clusters by them.
"""
NAMESPACE = "bench"


@dataclass(frozen=True)
class Case:
    clusters: int
    placements: int
    every: bool = False
    """Placements take all clusters, and not ten."""
    cel: bool = False
    scores: int = 0
    seconds: float = 60.0
    """Over which scores are written."""
    unlimited: bool = True
    idle: float = 0.0
    settle: float = 3.0
    """Seconds without a write after which a controller has done what it was going to do."""

    @property
    def wanted(self) -> int:
        return self.clusters if self.every else min(10, self.clusters)

    def words(self) -> str:
        how = "by CEL" if self.cel else "by scores" if self.scores else "by a label"
        taking = "all" if self.every else f"{self.wanted}"
        limits = "limits lifted" if self.unlimited else "as they come"
        return f"{self.placements} placements × {self.clusters:,} clusters {how}, taking {taking}, {limits}"


@dataclass
class Measured:
    chosen: float = 0.0
    writes: int = 0
    tainted: float = 0.0
    taint_writes: int = 0
    touched: int = 0
    """Placements that had chosen the tainted cluster."""
    added: float = 0.0
    add_writes: int = 0
    scored_cpu: float = 0.0
    scored_requests: Counter[str] = field(default_factory=Counter)
    memory: float = 0.0
    cpu: float = 0.0
    rest: Rest = field(default_factory=Rest)


@dataclass(kw_only=True)
class Load(Chooser, Onlooker):
    """The hub as its administrator sees it."""

    admin: HttpClient
    ns: str = NAMESPACE
    done: set[str] = field(default_factory=set)
    """Placements that say that all their decisions are scheduled."""
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    """By decision, its clusters."""

    def placement_changed(self, old: Placement | None, new: Placement | None) -> None:
        if new is not None and any(one.reason == "AllDecisionsScheduled" for one in new.status.conditions):
            self.done.add(new.metadata.name)
        self.news.set()

    def decision_changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> None:
        one = new or old
        assert one is not None
        clusters = frozenset(entry.cluster_name for entry in one.status.decisions) if new is not None else frozenset()
        self.held[one.metadata.name] = clusters
        self.news.set()

    def holding(self, cluster: str) -> int:
        return sum(cluster in clusters for clusters in self.held.values())


@asynccontextmanager
async def loaded(placer: HubController) -> AsyncIterator[Load]:
    admin = HttpClient(load_kubeconfig(placer.plane.kubeconfig, environ={}))
    load = Load(controller=placer, admin=admin)
    placements = Informer(admin, served(Placement), decode=Placement.decode)
    decisions = Informer(admin, served(PlacementDecision), decode=PlacementDecision.decode)
    placements.on_change(load.placement_changed)
    decisions.on_change(load.decision_changed)
    following = [asyncio.create_task(one.run()) for one in (placements, decisions)]
    try:
        yield load
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await admin.close()


async def _make(load: Load, case: Case) -> None:
    await load.namespace(NAMESPACE)
    await load.cluster_set("all", {})
    await load.bind("all")
    await each(range(case.clusters), lambda number: load.cluster(f"cluster{number:05d}", env="prod"))
    if case.scores:
        await each(range(case.clusters), lambda number: load.namespace(f"cluster{number:05d}"))
    spec: dict[str, Any] = {} if case.every else {"numberOfClusters": case.wanted}
    spec["predicates"] = expressed('managedCluster.metadata.labels["env"] == "prod"') if case.cel else labelled(env="prod")
    if case.scores:
        spec["prioritizerPolicy"] = {"mode": "Exact", "configurations": [scored("usage", "cpu")]}
    await each(range(case.placements), lambda number: load.place(f"placement{number:03d}", **spec))


async def _measure(placer: HubController, case: Case) -> Measured:
    found = Measured()
    try:
        await asyncio.to_thread(placer.prepare)
        async with loaded(placer) as load:
            await _make(load, case)
            mark, began = placer.audit.mark(), time.monotonic()
            placer.start()
            found.chosen = await load.until_so(lambda: len(load.done) == case.placements, "all to be scheduled") - began
            found.cpu = placer.cpu()
            await placer.settled(case.settle)
            found.writes = placer.asked(mark)["writes"]
            if case.scores:
                await _score(load, case, found)
            else:
                await _change(load, case, found)
            found.memory = placer.memory()
            if case.idle:
                found.rest = await Rest.of(placer, case.idle)
            return found
    finally:
        await asyncio.to_thread(placer.discard)


async def _change(load: Load, case: Case, found: Measured) -> None:
    placer = load.controller
    victim = max(sorted({cluster for clusters in load.held.values() for cluster in clusters}), key=load.holding)
    found.touched = load.holding(victim)
    mark, began = placer.audit.mark(), time.monotonic()
    await load.admin.patch(CLUSTERS, victim, {"spec": {"taints": [{"key": f"{GROUP}/down", "effect": "NoSelect"}]}})
    found.tainted = await load.until_so(lambda: not load.holding(victim), "the tainted cluster to go") - began
    await placer.settled(case.settle)
    found.taint_writes = placer.asked(mark)["writes"]
    mark, began = placer.audit.mark(), time.monotonic()
    await load.cluster("zlast", env="prod")
    if case.every:
        found.added = await load.until_so(lambda: load.holding("zlast") == case.placements, "the new cluster") - began
    await placer.settled(case.settle)
    found.add_writes = placer.asked(mark)["writes"]


async def _score(load: Load, case: Case, found: Measured) -> None:
    placer = load.controller
    mark, cpu, began = placer.audit.mark(), placer.cpu(), time.monotonic()
    for number in range(case.scores):
        await asyncio.sleep(max(0.0, began + number * case.seconds / case.scores - time.monotonic()))
        await load.score(f"cluster{number % case.clusters:05d}", "usage", cpu=number % 100)
    await placer.settled(case.settle)
    found.scored_cpu = placer.cpu() - cpu
    found.scored_requests = placer.asked(mark)


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    return compare(PLACEMENT, _cases(short), _measure, _rows, say)


def _cases(short: bool) -> list[Case]:
    if short:
        small = Case(20, 5, every=True, idle=1.0, settle=0.5)
        return [small, replace(small, every=False, scores=10, seconds=1.0, idle=0)]
    whole = Case(1000, 100)
    return [
        replace(whole, unlimited=False),
        replace(whole, idle=300.0),
        replace(whole, every=True, unlimited=False),
        replace(whole, every=True),
        replace(whole, cel=True),
        replace(whole, placements=20, scores=1000),
    ]


def _rows(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    words, target = case.words(), 1.0 if case.unlimited else 3.0

    def row(title: str, unit: str, mine: float, others: float, target: float | None = None, limit: float | None = None) -> Row:
        return Row(f"{words}: {title}", unit, mine, others, "less", target, limit)

    rows = [
        row("all scheduled after", "s", ours.chosen, theirs.chosen, target),
        row("writes until then, per placement", "", ours.writes / case.placements, theirs.writes / case.placements),
        row("memory", "MiB", ours.memory, theirs.memory, 1),
    ]
    if case.scores:
        asked = f"{case.scores:,} scores in {case.seconds:g} s"
        rows.append(row(f"CPU for {asked}", "s", ours.scored_cpu, theirs.scored_cpu, target))
        rows.append(row(f"requests for {asked}", "", ours.scored_requests.total(), theirs.scored_requests.total()))
    else:
        rows.append(row("a tainted cluster is in no decision after", "s", ours.tainted, theirs.tainted, target))
        mine, others = ours.taint_writes / max(1, ours.touched), theirs.taint_writes / max(1, theirs.touched)
        rows.append(row("writes for it per placement that had it", "", mine, others))
    if case.every:
        rows.append(row("a new cluster is in all decisions after", "s", ours.added, theirs.added, None, 1.0))
        mine, others = ours.add_writes / case.placements, theirs.add_writes / case.placements
        rows.append(row("writes for it per placement", "", mine, others, None, 2.0))
    if case.idle:
        rows += rest_rows(words, ours.rest, theirs.rest)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description="One controller, one case.")
    parser.add_argument("controller", choices=[Ours.name, Upstream.name])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--placements", type=int, default=100)
    parser.add_argument("--scores", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--idle", type=float, default=0.0)
    parser.add_argument("--all", dest="every", action="store_true")
    for flag in ("cel", "unlimited"):
        parser.add_argument(f"--{flag}", action="store_true")
    given = parser.parse_args()
    case = Case(given.clusters, given.placements, given.every, given.cel, given.scores, given.seconds, given.unlimited, given.idle)
    print(measure_one(PLACEMENT, given.controller, case, _measure))


if __name__ == "__main__":
    main()
