"""Addons, ours and upstream's: one made of a template on 1,000 clusters, a change of its configuration, and what rest does.

    python -m bench addons [--short]
    python -m bench.addons muster|upstream [--unlimited] [--clusters N] [--at-once N] [--idle SECONDS]

Clusters, decisions, template and ClusterManagementAddOn are there before the manager starts. Time runs from its start until every
ManagedClusterAddOn is Configured and every cluster has a work. Then all works are reported as applied; the strategy becomes
Progressive, and the AddOnDeploymentConfig is edited: time runs until every ManagedClusterAddOn says that the new one is applied,
while works are reported as soon as they change.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.support.followed_addon import FollowedAddon, progressive

from bench import addon_agents
from bench.hub_comparison import Rest, compare, measure_one, rest_rows
from bench.hub_controllers import ADDONS, HubController, Onlooker, Ours, Upstream, each
from bench.report import Row
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

TITLE = "Addons"
TEXT = """
`muster addon-manager` and upstream's addon manager (OCM v1.2.1), each on its own kube-apiserver 1.35 + etcd that starts empty,
with the same flags and CRDs; the managers share the machine's cores with it. Clusters are objects without agents, and decisions
are written by the benchmark. The addon is a template of three manifests with a credential and one role on the hub, installed by
its install strategy; the benchmark reports works as applied. "As they come" means default settings: upstream limits itself to
50 requests per second, ours has no limit; "limits lifted": upstream with 10,000. Writes are counted in the audit log, without
Events. A rollout updates 50 clusters at a time, and each has to be reported before the next one begins.

With leases: one managed cluster with that many addons that report by a lease, which other programs renew every minute; counted
are the registration agent's requests, to its own cluster and to the hub.
"""
ADDON_WRITES = ("managedclusteraddons", "managedclusteraddons/status")


@dataclass(frozen=True)
class Case:
    clusters: int
    at_once: int = 50
    unlimited: bool = True
    idle: float = 0.0
    settle: float = 3.0
    """Seconds without a write after which a manager has done what it was going to do."""

    def words(self) -> str:
        return f"{self.clusters:,} clusters, {'limits lifted' if self.unlimited else 'as they come'}"


@dataclass
class Measured:
    installed: float = 0.0
    cpu: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)
    """From nothing until every work was reported, and what follows from that is said."""
    rolled_out: float = 0.0
    rollout_writes: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0
    memory: float = 0.0
    rest: Rest = field(default_factory=Rest)


async def _measure(manager: HubController, case: Case) -> Measured:
    found = Measured()
    try:
        await asyncio.to_thread(manager.prepare)
        async with loaded(manager) as load:
            names = [f"cluster{number:05d}" for number in range(case.clusters)]
            await each(names, load.make_cluster)
            await load.offer(names)
            mark, began = manager.audit.mark(), time.monotonic()
            manager.start()
            found.installed = await load.until_so(lambda: load.is_installed, "all to be configured, with a work each") - began
            found.cpu = manager.cpu()
            async with load.reported():
                await load.until_so(load.is_applied, "all to be applied")
                await manager.settled(case.settle)
                found.writes = _writes(manager, mark)
                await _roll_out(load, case, found)
            found.memory = manager.memory()
            if case.idle:
                found.rest = await Rest.of(manager, case.idle)
            return found
    finally:
        await asyncio.to_thread(manager.discard)


@dataclass(kw_only=True)
class Load(FollowedAddon, Onlooker):
    """The addon as its administrator sees it, and the manager."""


@asynccontextmanager
async def loaded(manager: HubController) -> AsyncIterator[Load]:
    admin = HttpClient(load_kubeconfig(manager.plane.kubeconfig, environ={}), agent="bench")
    load = Load(controller=manager, admin=admin, addon="bench-addon")
    try:
        async with load.followed():
            yield load
    finally:
        await admin.close()


async def _roll_out(load: Load, case: Case, found: Measured) -> None:
    manager = load.controller
    await load.roll_out(progressive(case.at_once))
    await manager.settled(case.settle)
    mark, began = manager.audit.mark(), time.monotonic()
    before = await load.configure("good evening")
    found.rolled_out = await load.until_so(lambda: load.is_applied(besides=before), "the rollout") - began
    await manager.settled(case.settle)
    found.rollout_writes = _writes(manager, mark)
    found.most_at_once = load.most_at_once


def _writes(manager: HubController, mark: int) -> Counter[str]:
    """By kind; status is one of its own."""
    kinds: Counter[str] = Counter()
    for request, number in manager.requests(mark).items():
        verb, _, resource = request.partition(" ")
        if verb in ("create", "update", "patch", "delete") and not resource.startswith("events"):
            kinds[resource] += number
    return kinds


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    return compare(ADDONS, _cases(short), _measure, _rows, say) + addon_agents.run(short, say)


def _cases(short: bool) -> list[Case]:
    if short:
        return [Case(8, at_once=3, idle=1.0, settle=0.5)]
    whole = Case(1000)
    return [replace(whole, unlimited=False), replace(whole, idle=300.0)]


def _rows(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    words, target = case.words(), 1.0 if case.unlimited else 3.0

    def row(title: str, unit: str, mine: float, others: float, target: float | None = None, limit: float | None = None) -> Row:
        return Row(f"{words}: {title}", unit, mine, others, "less", target, limit)

    def per_cluster(writes: Counter[str], kinds: tuple[str, ...] = ()) -> float:
        return sum(number for kind, number in writes.items() if kind in kinds or not kinds) / case.clusters

    rows = [
        row("all Configured and with a work after", "s", ours.installed, theirs.installed, target),
        row(
            "writes to a ManagedClusterAddOn until its work is applied",
            "",
            per_cluster(ours.writes, ADDON_WRITES),
            per_cluster(theirs.writes, ADDON_WRITES),
            None,
            8.0,
        ),
        row("all writes per cluster until then", "", per_cluster(ours.writes), per_cluster(theirs.writes)),
        row(f"a configuration rolled out, {case.at_once} at a time", "s", ours.rolled_out, theirs.rolled_out, target),
        row("writes of a rollout per cluster", "", per_cluster(ours.rollout_writes), per_cluster(theirs.rollout_writes)),
        row("most clusters at once", "", ours.most_at_once, theirs.most_at_once, None, case.at_once),
        row("memory", "MiB", ours.memory, theirs.memory, 1),
    ]
    if case.idle:
        rows += rest_rows(words, ours.rest, theirs.rest)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.addons", description="One manager, one case.")
    parser.add_argument("manager", choices=[Ours.name, Upstream.name])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--idle", type=float, default=0.0)
    parser.add_argument("--unlimited", action="store_true")
    given = parser.parse_args()
    case = Case(given.clusters, given.at_once, given.unlimited, given.idle)
    print(measure_one(ADDONS, given.manager, case, _measure))


if __name__ == "__main__":
    main()
