"""What one agent costs: `muster agent` and upstream's registration agent, a process each, joined to one hub, then left alone.

Each has a logical cluster of one embedded control plane as its own, with the account and the rights that its side installs there.
Both live through the same minutes on the same hub, so neither has a quieter machine. Requests are counted in both servers' audit
logs; those to the hub are what a fleet multiplies.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import ocm
from tests.support import peers
from tests.support.administrator import managed_cluster
from tests.support.planes import EmbeddedPlane
from tests.support.processes import Server, free_ports

from bench.audit import AuditLog, Request, by_party
from bench.hubs import AGENT_PREFIX, MUSTER, Hub, Upstream
from bench.report import Row
from bench.sides import cpu_seconds, resident

OURS, THEIRS = "agent-muster", "agent-upstream"
"""Both the clusters' names and the logical clusters'."""
AVAILABLE = "ManagedClusterConditionAvailable"


@dataclass(frozen=True)
class Pair:
    """An agent of each side, by cluster, on one hub."""

    hub: Hub
    plane: EmbeddedPlane
    own_log: AuditLog
    agents: dict[str, Server]


@contextmanager
def joined(directory: Path) -> Iterator[Pair]:
    """Both are Available."""
    hub = Upstream(directory / "hub")
    log = directory / "spokes-audit.log"
    plane = EmbeddedPlane(directory / "spokes", (OURS, THEIRS), flags=("--audit-log", str(log)))
    agents: dict[str, Server] = {}
    try:
        hub.start()
        plane.start()
        for name in (OURS, THEIRS):
            # Upstream's agent that is certified before it has introduced its cluster never does, and waits for ever.
            ocm.create(hub.admin, ocm.MANAGED_CLUSTERS, managed_cluster(name, accepted=True))
            agents[name] = _agent(name, hub, plane, directory / name)
            agents[name].start()
        for name, server in agents.items():
            server.wait_until(lambda name=name: _available(hub, name), 120, poll=0.2)  # type: ignore[misc]
        yield Pair(hub, plane, AuditLog(log, stage=""), agents)
    finally:
        for server in agents.values():
            server.stop(timeout=5)
        plane.discard()
        hub.discard()


def rows(directory: Path, short: bool) -> list[Row]:
    settle, idle = (2.0, 5.0) if short else (60.0, 300.0)
    with joined(directory) as pair:
        time.sleep(settle)
        return _measured(pair.hub, pair.own_log, pair.agents, idle)


def _agent(name: str, hub: Hub, plane: EmbeddedPlane, directory: Path) -> Server:
    directory.mkdir(parents=True)
    cluster = plane.extra(name)
    admin = cluster.client()
    if name == OURS:
        installing: list[str | Path] = [MUSTER, "agent", "--install-only", f"--kubeconfig={cluster.kubeconfig}"]
        subprocess.run(installing, check=True, timeout=60, stdout=subprocess.DEVNULL)
    else:
        ocm.install(admin, "agent", ocm.AGENT_NAMESPACE)
    own = ocm.service_account_kubeconfig(
        cluster, admin, ocm.AGENT_NAMESPACE, "klusterlet-registration-sa", directory / "own.kubeconfig"
    )
    secret = {"metadata": {"name": "bootstrap-hub-kubeconfig"}, "stringData": {"kubeconfig": hub.bootstrap.read_text()}}
    ocm.create(admin, f"/api/v1/namespaces/{ocm.AGENT_NAMESPACE}/secrets", secret)
    admin.close()
    command: list[str | Path] = [
        *_program(name),
        f"--kubeconfig={own}",
        f"--namespace={ocm.AGENT_NAMESPACE}",
        f"--spoke-cluster-name={name}",
        f"--bootstrap-kubeconfig={hub.bootstrap}",
        f"--hub-kubeconfig-dir={directory / 'hub-kubeconfig'}",
    ]
    return Server(name, command, directory / "agent.log", {"POD_NAME": name, "KUBECONFIG": ""})


def _program(name: str) -> list[str | Path]:
    """The program, and the flags that are not the same on both sides: we elect no leader."""
    if name == OURS:
        return [MUSTER, "agent", "--health-port=0"]
    (port,) = free_ports(1)
    return [peers.need("registration"), "agent", "--disable-leader-election", f"--listen=127.0.0.1:{port}"]


def _available(hub: Hub, name: str) -> bool:
    reply = hub.admin.get(f"{ocm.MANAGED_CLUSTERS}/{name}")
    if reply.status != 200:
        return False
    conditions = reply.json.get("status", {}).get("conditions", ())
    return any(one["type"] == AVAILABLE and one["status"] == "True" for one in conditions)


def _measured(hub: Hub, own_log: AuditLog, agents: dict[str, Server], idle: float) -> list[Row]:
    hub_mark, own_mark = hub.audit.mark(), own_log.mark()
    cpu = {name: cpu_seconds(server.pid) for name, server in agents.items()}
    time.sleep(idle)
    minutes = idle / 60
    to_hub = by_party(hub.audit.requests(hub_mark), whose)
    to_own = by_party(own_log.requests(own_mark), lambda request: request.cluster if request.cluster in agents else "")
    for name in agents:
        print(f"  {name} asked the hub {dict(to_hub.get(name, Counter()))}, its own cluster {dict(to_own.get(name, Counter()))}")

    def row(title: str, unit: str, figures: dict[str, float], target: float | None = None) -> Row:
        return Row(title, unit, figures[OURS], figures[THEIRS], "less", target)

    return [
        row("one agent's memory", "MiB", {name: resident(server.pid) / 2**20 for name, server in agents.items()}, 1),
        row("one idle agent's requests to the hub", "/min", _per(minutes, to_hub), 1),
        row("one idle agent's requests to its own cluster", "/min", _per(minutes, to_own)),
        row(
            "one idle agent's CPU time",
            "ms/min",
            {name: (cpu_seconds(server.pid) - cpu[name]) * 1000 / minutes for name, server in agents.items()},
        ),
    ]


def whose(request: Request) -> str:
    """The agent that asked the hub."""
    return next((name for name in (OURS, THEIRS) if request.user.startswith(f"{AGENT_PREFIX}{name}:")), "")


def _per(minutes: float, asked: dict[str, Counter[str]]) -> dict[str, float]:
    return {name: asked.get(name, Counter()).total() / minutes for name in (OURS, THEIRS)}
