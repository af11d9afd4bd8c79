"""Registration, ours and upstream's: 200 clusters that join at once, and what one agent costs.

    python -m bench registration [--short]

Joining: each hub in turn gets an empty kube-apiserver and the same load (`bench.joiners`: our agents, in one process). Time runs
from the agents' start until the hub's API shows every cluster Available; requests are counted in the server's audit log from the
same moment until `SETTLE` seconds later, so that a hub's aftermath counts too. What an agent costs is in `bench.agents`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import tail

from bench import agents
from bench.audit import by_party
from bench.hubs import Hub, Ours, Unlimited, Upstream, party
from bench.report import ROOT, Row, median
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.api.meta import is_true
from muster.fleet.availability import Availability
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache.informer import Informer
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

TITLE = "Registration"
TEXT = """
`muster hub` and upstream's registration controller (OCM v1.2.1), each on its own kube-apiserver 1.35 + etcd that starts empty,
with the same flags. All clusters join at the same time; they are logical clusters with our agents in one load process, the same
for both hubs. Both hubs accept clusters and approve their certificates automatically; leader election and webhooks are off.
Everything else is each side's default, including upstream's limit of 50 requests per second (one row is without it). Requests
per cluster are counted in the API server's audit log, until 10 s after the last cluster is Available. For one agent, `muster
agent` and upstream's registration agent run in one process each and are idle after joining.
"""
JOIN_WITHIN = 600.0
SETTLE = 10.0


@dataclass(frozen=True)
class Joining:
    """What one hub needed."""

    seconds: float
    hub_requests: float
    """Per cluster, as all others."""
    agent_requests: float
    memory: float
    cpu: float
    asked: Counter[str]


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    count, rounds = (5, 1) if short else (200, 2)
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        directory = Path(name)
        found: dict[type[Hub], list[Joining]] = {Ours: [], Upstream: [], Unlimited: []}
        for number in range(rounds):
            for kind in list(found) if number % 2 == 0 else list(found)[::-1]:
                say(f"{count} clusters join {kind.name} …")
                joining = _join(kind(directory / f"{kind.__name__}-{number}"), count)
                say(f"  {joining.seconds:.1f} s; the hub asked: {_most(joining.asked)}")
                found[kind].append(joining)
        say("one agent of each side …")
        alone = agents.rows(directory / "agents", short)
    return [*_rows(count, found[Ours], found[Upstream], found[Unlimited]), *alone]


def _rows(count: int, ours: list[Joining], theirs: list[Joining], unlimited: list[Joining]) -> list[Row]:
    def row(
        title: str, unit: str, figure: Callable[[Joining], float], target: float | None = 1.0, peer: list[Joining] = theirs
    ) -> Row:
        return Row(title, unit, median([*map(figure, ours)]), median([*map(figure, peer)]), "less", target)

    return [
        row(f"{count} clusters join: all Available after", "s", lambda joining: joining.seconds),
        row("the same, upstream's rate limit lifted", "s", lambda joining: joining.seconds, None, unlimited),
        row("requests of the hub, per cluster", "", lambda joining: joining.hub_requests),
        row("requests of hub and agents, per cluster", "", lambda joining: joining.hub_requests + joining.agent_requests),
        row("the hub's CPU time, per cluster", "ms", lambda joining: joining.cpu * 1000, None),
        row(f"the hub's memory with {count} clusters", "MiB", lambda joining: joining.memory),
    ]


def _most(asked: Counter[str]) -> str:
    return ", ".join(f"{what} {times}" for what, times in asked.most_common(12))


def _join(hub: Hub, count: int) -> Joining:
    try:
        hub.start()
        with _load(hub.bootstrap, count, hub.directory / "joiners") as process:
            # Its caches are full before the first cluster comes, as on a hub that has been up for long.
            time.sleep(3)
            mark, cpu = hub.audit.mark(), hub.cpu()
            assert process.stdin is not None, "piped"
            process.stdin.write(b"go\n")
            process.stdin.flush()
            seconds = asyncio.run(_all_available(hub, count))
            time.sleep(SETTLE)
            asked = by_party(hub.audit.requests(mark), party)
            memory, cpu = hub.memory(), hub.cpu() - cpu
        own = asked.get("hub", Counter())
        return Joining(seconds, own.total() / count, asked.get("agents", Counter()).total() / count, memory, cpu / count, own)
    finally:
        hub.discard()


@contextmanager
def _load(bootstrap: Path, count: int, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.joiners", str(bootstrap), str(count), str(directory)]
    with (directory.parent / "joiners.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT)
    try:
        assert process.stdout is not None, "piped"
        if process.stdout.readline().strip() != b"ready":
            raise RuntimeError(f"the joining clusters did not start: {(directory.parent / 'joiners.log').read_text()[-2000:]}")
        yield process
    finally:
        assert process.stdin is not None, "piped"
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _all_available(hub: Hub, count: int) -> float:
    """Seconds from now until every cluster was Available at once."""
    began = time.monotonic()
    state = Availability(count)
    client = HttpClient(load_kubeconfig(hub.plane.kubeconfig), agent="bench")
    informer = Informer(client, MANAGED_CLUSTERS, decode=ManagedCluster.decode)

    def saw(_: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if new is not None:
            state.saw(new.metadata.name, is_true(new.status.conditions, AVAILABLE), time.monotonic())

    informer.on_change(saw)
    running = asyncio.create_task(informer.run())
    try:
        while state.complete_at is None:
            await asyncio.sleep(0.05)
            if not hub.server.running:
                raise RuntimeError(f"{hub.name} ended: {tail(hub.server.log)}")
            if time.monotonic() > began + JOIN_WITHIN:
                raise RuntimeError(f"{hub.name}: only {state.available} of {count} Available after {JOIN_WITHIN:.0f} s")
        return state.complete_at - began
    finally:
        running.cancel()
        await asyncio.wait({running})
        await client.close()
