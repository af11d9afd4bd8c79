"""ConfigurationPolicies with hub templates, ours and upstream's: cold start, one change for all, rest, and a hub that is away.

    python -m bench policy [--short]
    python -m bench.policy muster|upstream [--policies N] [--clusters N] [--default-limits] [--away SECONDS] [--rest SECONDS]

Policies, and what their templates read on the hub, are there before the controllers start; there is one controller for each managed
cluster. Time runs from their start until every object that a policy wants has the hub's value. Then one ConfigMap that all
templates read is changed, until the last object shows it; then, after a rest, it is changed once more, until the first does. In the
end the way to the hub is cut, and mended.
"""

from __future__ import annotations

import abc
import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.interop import ocm
from tests.support import peers
from tests.support.link import Link
from tests.support.planes import KubeOptions, KubePlane
from tests.support.processes import Server, free_ports

from bench.audit import AuditLog
from bench.awaiting import until
from bench.hub_controllers import each
from bench.hubs import MUSTER
from bench.report import Row, median
from bench.sides import cpu_seconds, resident
from muster.api.crds import POLICY, definitions
from muster.api.policy.v1 import ConfigurationPolicy
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.runtime.cache.informer import Informer
from muster.runtime.client import AlreadyExists
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.client.typed import served
from muster.runtime.install import await_definitions

TITLE = "Policies"
TEXT = """
`muster policy` and upstream's config-policy-controller (v0.19.0) with standalone hub templates, each on its own newly started
kube-apiserver 1.35 + etcd, which is hub and all managed clusters in one; one controller process per cluster, with the same
flags, leader election and leases off. A policy enforces one ConfigMap with two values from the hub: one that all policies read,
and one of its own. "As they come" means default settings, with upstream's limit of 30 requests per second; "limits lifted":
10,000 for both, and 10 concurrent evaluations. Requests are counted in the audit log; a watch counts when it begins. "Hub away"
means that connections to it are refused.
"""
DATA: Final = "hub-data"
SHARED: Final = "shared"
HUB_ACCOUNT: Final = "hub-templates"
AGENT_ACCOUNT: Final = "policy-controller"
WITHIN: Final = 1800.0
GATHERED: Final = 70.0
"""Seconds after which nothing more is written of a change: how often an Event was repeated is written once a minute."""


@dataclass(frozen=True)
class Case:
    policies: int
    clusters: int
    lifted: bool = True
    rest: float = 0.0
    away: float = 0.0

    def words(self) -> str:
        clusters = f" × {self.clusters} clusters" if self.clusters > 1 else ""
        return f"{self.policies:,} policies{clusters}, {'limits lifted' if self.lifted else 'as they come'}"


@dataclass
class Measured:
    cold: float = 0.0
    requests: int = 0
    watches: int = 0
    changed: float = 0.0
    """Until the last object had the new value."""
    at_rest: float = 0.0
    """Until the first had it, after a rest."""
    cpu: float = 0.0
    memory: float = 0.0
    """MiB of all controllers."""
    connections: float = 0.0
    """To the hub, per cluster."""
    resting_requests: float = 0.0
    attempts: float = 0.0
    """Per second and cluster, while the hub is away, after the first minute."""
    complaints: float = 0.0
    """Log lines per cluster meanwhile."""
    healed: float = 0.0
    """Until a value that changed meanwhile had arrived everywhere, after the hub was back."""


def _policy(namespace: str, name: str) -> Object:
    values = {
        "shared": f'{{{{hub fromConfigMap "{DATA}" "{SHARED}" "value" hub}}}}',
        "own": f'{{{{hub fromConfigMap "{DATA}" "{namespace}-{name}" "value" hub}}}}',
    }
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": values}
    spec = {"remediationAction": "enforce", "object-templates": [{"complianceType": "musthave", "objectDefinition": wanted}]}
    resource = ConfigurationPolicy.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


class PolicyControllers(abc.ABC):
    """One API server, a way to it that is the hub's, and the controllers of one side."""

    name: str

    def __init__(self, directory: Path, case: Case) -> None:
        self.directory = directory
        self.case = case
        self.plane = KubePlane(directory / "plane", KubeOptions(audit_log=True))
        self.audit = AuditLog(directory / "plane" / "audit.log")
        self.servers: list[Server] = []
        self.link: Link | None = None

    @property
    def clusters(self) -> list[str]:
        return [f"cluster{number}" for number in range(1, self.case.clusters + 1)]

    @property
    def server(self) -> Server:
        """One that has ended, where there is such a one."""
        return next((one for one in self.servers if not one.running), self.servers[0])

    @abc.abstractmethod
    def command(self) -> list[str | Path]: ...

    def prepare(self) -> None:
        self.plane.start()
        self.link = Link(self.plane.url)
        admin = self.plane.client()
        ocm.create(admin, "/api/v1/namespaces", {"metadata": {"name": DATA}})
        for account in (HUB_ACCOUNT, AGENT_ACCOUNT):
            ocm.create(admin, f"/api/v1/namespaces/{DATA}/serviceaccounts", {"metadata": {"name": account}})
            subject = {"kind": "ServiceAccount", "namespace": DATA, "name": account}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
            binding = {"metadata": {"name": account}, "subjects": [subject], "roleRef": role}
            ocm.create(admin, f"{ocm.RBAC}/clusterrolebindings", binding)
            file = self.directory / f"{account}.kubeconfig"
            ocm.service_account_kubeconfig(self.plane.cluster, admin, DATA, account, file)
        admin.close()
        hub = self.directory / f"{HUB_ACCOUNT}.kubeconfig"
        hub.write_text(hub.read_text().replace(self.plane.url, self.link.url(self.plane.url)))

    def start(self) -> None:
        for cluster in self.clusters:
            health, metrics = free_ports(2)
            flags = [
                f"--cluster-name={cluster}",
                f"--standalone-hub-templates-kubeconfig-path={self.directory / HUB_ACCOUNT}.kubeconfig",
                "--leader-elect=false",
                "--enable-metrics=false",
                f"--health-probe-bind-address=127.0.0.1:{health}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
            ]
            if self.case.lifted:
                flags += ["--evaluation-concurrency=10", "--client-max-qps=10000", "--client-burst=10000"]
            environment = {"WATCH_NAMESPACE": cluster, "KUBECONFIG": str(self.directory / f"{AGENT_ACCOUNT}.kubeconfig")}
            log = self.directory / f"{cluster}.log"
            self.servers.append(Server(f"{self.name} {cluster}", [*self.command(), *flags], log, environment))
            self.servers[-1].start()

    def requests(self, mark: int) -> Counter[str]:
        """By verb, of all controllers on both sides; leases are left out."""
        prefix = f"system:serviceaccount:{DATA}:"
        found = (one for one in self.audit.requests(mark) if one.user.startswith(prefix) and one.resource != "leases")
        return Counter(one.verb for one in found)

    def memory(self) -> float:
        return sum(resident(server.pid) for server in self.servers) / 2**20

    def cpu(self) -> float:
        return sum(cpu_seconds(server.pid) for server in self.servers)

    def log_lines(self) -> int:
        return sum(server.log.read_bytes().count(b"\n") for server in self.servers if server.log.exists())

    def discard(self) -> None:
        for server in self.servers:
            server.stop(timeout=5)
        if self.link is not None:
            self.link.close()
        self.plane.discard()


class Ours(PolicyControllers):
    name = "muster"

    def command(self) -> list[str | Path]:
        return [MUSTER, "policy"]


class Upstream(PolicyControllers):
    name = "upstream"

    def command(self) -> list[str | Path]:
        return [peers.own_program("policy", "controller"), "controller"]


@dataclass
class Load:
    """The API server as its administrator sees it."""

    controllers: PolicyControllers
    admin: HttpClient
    news: asyncio.Event = field(default_factory=asyncio.Event)
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    """By namespace and name, the shared value of an object that a policy wants."""

    def seen(self, old: Object | None, new: Object | None) -> None:
        one = new or old
        assert one is not None
        metadata, data = one["metadata"], (new or {}).get("data") or {}
        if metadata["namespace"] in self.controllers.clusters and "own" in data:
            self.values[metadata["namespace"], metadata["name"]] = data["shared"]
            self.news.set()

    def showing(self, value: str) -> int:
        return sum(found == value for found in self.values.values())

    async def until_all(self, value: str) -> float:
        wanted = self.controllers.case.policies * self.controllers.case.clusters
        return await self._until(lambda: self.showing(value) >= wanted, f"{value!r} in all {wanted} objects")

    async def until_first(self, value: str) -> float:
        return await self._until(lambda: self.showing(value) >= 1, f"{value!r} in one object")

    async def _until(self, done: Callable[[], bool], what: str) -> float:
        return await until(self.controllers, self.news, done, what, WITHIN)

    async def share(self, value: str) -> None:
        await self.admin.patch(CONFIG_MAPS, SHARED, {"data": {"value": value}}, DATA)


@asynccontextmanager
async def _loaded(controllers: PolicyControllers) -> AsyncIterator[Load]:
    admin = HttpClient(load_kubeconfig(controllers.plane.kubeconfig, environ={}), agent="bench")
    load = Load(controllers, admin)
    informer = Informer(admin, CONFIG_MAPS, decode=CONFIG_MAPS.decode)
    informer.on_change(load.seen)
    following = asyncio.create_task(informer.run())
    try:
        yield load
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await admin.close()


async def _make(load: Load, case: Case) -> None:
    made = definitions(kind for kind in POLICY if kind.name != "policies.policy.open-cluster-management.io")
    for definition in made:
        await load.admin.create(CRDS, definition)
    await await_definitions(load.admin, [definition["metadata"]["name"] for definition in made], SYSTEM)
    await load.admin.create(CONFIG_MAPS, {"metadata": {"name": SHARED, "namespace": DATA}, "data": {"value": "first"}})
    names = [(cluster, f"policy{number:05d}") for cluster in load.controllers.clusters for number in range(case.policies)]
    for cluster in [*load.controllers.clusters, "open-cluster-management-policies"]:
        try:
            await load.admin.create(NAMESPACES, {"metadata": {"name": cluster}})
        except AlreadyExists:
            continue

    async def make(where: tuple[str, str]) -> None:
        own = {"metadata": {"name": "-".join(where), "namespace": DATA}, "data": {"value": where[1]}}
        await load.admin.create(CONFIG_MAPS, own)
        await load.admin.create(served(ConfigurationPolicy), _policy(*where))

    await each(names, make)


async def _measure(controllers: PolicyControllers, case: Case) -> Measured:
    found = Measured()
    try:
        await asyncio.to_thread(controllers.prepare)
        async with _loaded(controllers) as load:
            await _make(load, case)
            mark, began = controllers.audit.mark(), time.monotonic()
            controllers.start()
            found.cold = await load.until_all("first") - began
            await asyncio.sleep(6)
            asked = controllers.requests(mark)
            found.requests, found.watches = asked.total(), asked["watch"]
            found.cpu, found.memory = controllers.cpu(), controllers.memory()
            assert controllers.link is not None
            found.connections = controllers.link.open / case.clusters
            began = time.monotonic()
            await load.share("second")
            found.changed = await load.until_all("second") - began
            await _at_rest(load, case, found)
            if case.away:
                await _away(load, case, found)
            return found
    finally:
        await asyncio.to_thread(controllers.discard)


async def _at_rest(load: Load, case: Case, found: Measured) -> None:
    times = []
    for number in range(3):
        # Twice the pause between evaluations: what a policy wrote itself is looked at once more.
        await asyncio.sleep(12)
        began = time.monotonic()
        await load.share(f"rested{number}")
        times.append(await load.until_first(f"rested{number}") - began)
        await load.until_all(f"rested{number}")
    found.at_rest = median(times)
    if case.rest:
        await asyncio.sleep(min(GATHERED, 2 * case.rest))
        mark = load.controllers.audit.mark()
        await asyncio.sleep(case.rest)
        found.resting_requests = load.controllers.requests(mark).total() * 60 / case.rest / case.clusters


async def _away(load: Load, case: Case, found: Measured) -> None:
    link = load.controllers.link
    assert link is not None
    lines = load.controllers.log_lines()
    link.cut()
    await asyncio.sleep(min(60.0, case.away / 2))
    attempts, began = link.attempts, time.monotonic()
    await asyncio.sleep(case.away - min(60.0, case.away / 2))
    found.attempts = (link.attempts - attempts) / (time.monotonic() - began) / case.clusters
    found.complaints = (load.controllers.log_lines() - lines) / case.clusters
    await load.share("back")
    began = time.monotonic()
    link.mend()
    found.healed = await load.until_all("back") - began


def _rows(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    words = case.words()

    def row(
        title: str, unit: str, pick: Callable[[Measured], float], target: float | None = None, limit: float | None = None
    ) -> Row:
        return Row(f"{words}: {title}", unit, pick(ours), pick(theirs), "less", target, limit)

    rows = [
        row("all objects as wanted, cold", "s", lambda one: one.cold, 1.0),
        row("requests until then", "", lambda one: one.requests, 1.0),
        row("watches among them", "", lambda one: one.watches, 1.0),
        row("CPU until then", "s", lambda one: one.cpu),
        row("memory of a controller", "MiB", lambda one: one.memory / case.clusters),
        row("connections to the hub per cluster", "", lambda one: one.connections),
        row("one value of the hub changed: last object", "s", lambda one: one.changed, 1.0),
        row("the same at rest: first object", "s", lambda one: one.at_rest, None, 1.0),
    ]
    if case.rest:
        rows.append(row("requests at rest, per cluster", "/min", lambda one: one.resting_requests))
    if case.away:
        rows += [
            row("hub away: attempts per second and cluster", "/s", lambda one: one.attempts, None, 0.1),
            row("hub away: log lines per cluster", "", lambda one: one.complaints, None, 2.0),
            row("hub back: a changed value everywhere after", "s", lambda one: one.healed),
        ]
    return rows


def _cases(short: bool) -> list[Case]:
    if short:
        return [Case(5, 2, rest=5.0, away=6.0)]
    return [Case(500, 3), Case(500, 3, lifted=False), Case(1000, 1, rest=120.0), Case(100, 1, away=600.0)]


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    made: list[Row] = []
    memory: dict[str, dict[int, float]] = {Ours.name: {}, Upstream.name: {}}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        for number, case in enumerate(_cases(short)):
            found = []
            for kind in (Ours, Upstream):
                say(f"{kind.name}: {case.words()} …")
                found.append(asyncio.run(_measure(kind(Path(name) / f"{kind.name}-{number}", case), case)))
                say(f"  {found[-1]}")
                if case.clusters == 1:
                    memory[kind.name][case.policies] = found[-1].memory
            made += _rows(case, *found)
    return made + _memory_rows(memory)


def _memory_rows(memory: dict[str, dict[int, float]]) -> list[Row]:
    """What the larger of two fleets takes more, for each policy that it has more."""
    sizes = sorted(memory[Ours.name])
    if len(sizes) < 2:
        return []
    few, many = sizes[0], sizes[-1]
    ours, theirs = ((memory[side][many] - memory[side][few]) * 1024 / (many - few) for side in (Ours.name, Upstream.name))
    return [Row("memory for one policy more, with its watch of the hub and of the cluster", "KiB", ours, theirs, "less", 1.0)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.policy", description="One side, one case.")
    parser.add_argument("side", choices=[Ours.name, Upstream.name])
    parser.add_argument("--policies", type=int, default=500)
    parser.add_argument("--clusters", type=int, default=3)
    parser.add_argument("--default-limits", action="store_true")
    parser.add_argument("--rest", type=float, default=0.0)
    parser.add_argument("--away", type=float, default=0.0)
    given = parser.parse_args()
    case = Case(given.policies, given.clusters, not given.default_limits, given.rest, given.away)
    kind: Any = Ours if given.side == Ours.name else Upstream
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        print(asyncio.run(_measure(kind(Path(name) / "side", case), case)))


if __name__ == "__main__":
    main()
