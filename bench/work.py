"""Works, ours and upstream's: 1,000 works of 10 ConfigMaps each, with and without an executor, and what comes after.

    python -m bench work [--short]
    python -m bench.work muster|upstream [--executor] [--unlimited] [--works N] [--after]

The works are there before the agent starts. Time runs from its start until the hub shows every work Applied, and Available;
requests are counted in the server's audit log over the same time, by account. Then the agent is left alone for a minute. The second
form measures one agent once; with `--after` also what a restart costs, and how long the agent takes to notice objects that were
deleted or edited, or with `--executor` that its rights changed. Upstream takes minutes for that.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.audit import by_party
from bench.report import Row
from bench.workers import Ours, Upstream, Worker, party
from bench.workload import LATE, PLACES, binding, config_map, loaded, work
from muster.runtime.client.builtin import CONFIG_MAPS, ROLE_BINDINGS
from muster.work.kinds import MANIFEST_WORKS

TITLE = "Works"
TEXT = """
`muster work-agent` and upstream's work agent (OCM v1.2.1), each on its own kube-apiserver 1.35 + etcd that starts empty and is
both hub and managed cluster, with the same flags; the agents share the machine's cores with it. The works exist before the
agent starts. "As they come" means default settings: upstream limits itself to 50 requests per second and client, ours has no
limit; "limits lifted": upstream with 10,000. Requests are counted in the audit log by account, until all works are Available
unless the row specifies otherwise. With an executor, works are permitted by RoleBindings in ten namespaces; upstream with its
defaults would need more than 20 minutes for 1,000 such works, so these rows have 200. "Idle" is the minute that begins 15 s
after all works are Available. Requests that an agent still has to send then are in the rows of the idle minute: ours completes
its records (decision 0013), one request per work; upstream's continues to read every object every 10 to 19 seconds. An agent
that keeps OCM's records needs at least eleven requests for such a work, ten objects and the record that owns them: 1.10 per
manifest. How many upstream sends until all works are Available depends on how long that takes; on this machine, with limits
lifted, it finishes so soon that 1.10 is more than a fifth of them.
"""
WITHIN = 1800.0
RESTART = 30.0
NOTICED_WITHIN = 600.0


@dataclass(frozen=True)
class Case:
    works: int
    manifests: int
    executor: bool = False
    unlimited: bool = False
    settle: float = 15.0
    idle: float = 60.0
    after: bool = False
    """Also see how long the agent takes to notice what happens on the managed cluster, and what a restart costs."""

    @property
    def total(self) -> int:
        return self.works * self.manifests


@dataclass
class Measured:
    applied: float
    available: float
    hub: Counter[str]
    own: Counter[str]
    memory: float
    cpu: float
    idle: float
    """Requests per second to hub and managed cluster."""
    idle_cpu: float
    """Of a core."""
    later: int = 0
    """Requests to the managed cluster until the idle time was over."""
    restart: int = 0
    """Requests to the managed cluster within `RESTART` seconds after the agent was started again."""
    noticed: dict[str, float] = field(default_factory=dict)


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        for number, (case, make_rows) in enumerate(_cases(short)):
            found = []
            for kind in (Ours, Upstream):
                say(f"{kind.name}: {case.works} works × {case.manifests}, {_words(case)} …")
                measured = asyncio.run(_measure(kind(Path(name) / f"{kind.__name__}-{number}", case.unlimited), case))
                say(_summary(measured))
                found.append(measured)
            rows += make_rows(case, *found)
    return rows


def _cases(short: bool) -> list[tuple[Case, Callable[[Case, Measured, Measured], list[Row]]]]:
    if short:
        small = Case(4, 2, settle=1, idle=2, unlimited=True)
        return [(small, _plain), (Case(4, 2, executor=True, unlimited=True, settle=1, idle=2), _executed)]
    return [
        (Case(1000, 10, idle=0, settle=0), _as_they_come),
        (Case(1000, 10, unlimited=True), _plain),
        (Case(200, 10, executor=True, idle=0, settle=0), _as_they_come),
        (Case(1000, 10, executor=True, unlimited=True), _executed),
    ]


def _words(case: Case) -> str:
    return ", ".join(["limits lifted" if case.unlimited else "as they come", *(["with an executor"] if case.executor else [])])


def _size(case: Case) -> str:
    return f"{case.works:,} works × {case.manifests} ConfigMaps"


def _row(title: str, unit: str, ours: float, theirs: float, target: float | None = None, limit: float | None = None) -> Row:
    return Row(title, unit, ours, theirs, "less", target, limit)


def _times(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    title = f"{_size(case)}, {_words(case)}: all"
    return [
        _row(f"{title} Applied after", "s", ours.applied, theirs.applied, 2),
        _row(f"{title} Available after", "s", ours.available, theirs.available, 2),
    ]


def _per_manifest(case: Case, title: str, ours: int, theirs: int, target: float | None = None) -> Row:
    return _row(title + _suffix(case), "", ours / case.total, theirs / case.total, target)


def _suffix(case: Case) -> str:
    return ", with an executor" if case.executor else ""


def _as_they_come(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    requests = f"{_words(case)}: requests to the managed cluster per manifest"
    return [
        *_times(case, ours, theirs),
        _row(requests, "", ours.own.total() / case.total, theirs.own.total() / case.total, 5),
        _row(f"{_words(case)}: memory", "MiB", ours.memory, theirs.memory, 1),
    ]


def _costs(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    suffix = _suffix(case)
    return [
        _per_manifest(case, "requests to the managed cluster per manifest", ours.own.total(), theirs.own.total(), 5),
        _per_manifest(case, "the same, idle minute included", ours.later, theirs.later, 5),
        _row(f"requests to the hub per work{suffix}", "", ours.hub.total() / case.works, theirs.hub.total() / case.works, 1),
        _row(f"memory{suffix}", "MiB", ours.memory, theirs.memory, 1),
        _row(f"CPU time per manifest{suffix}", "ms", ours.cpu * 1000 / case.total, theirs.cpu * 1000 / case.total),
        _row(f"requests when idle{suffix}", "/s", ours.idle, theirs.idle, limit=5),
        _row(f"CPU when idle{suffix}", "% of a core", ours.idle_cpu * 100, theirs.idle_cpu * 100),
    ]


def _plain(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    return [*_times(case, ours, theirs), *_costs(case, ours, theirs)]


def _executed(case: Case, ours: Measured, theirs: Measured) -> list[Row]:
    reviews = "create subjectaccessreviews"
    asked = _row("access reviews per manifest", "", ours.own[reviews] / case.total, theirs.own[reviews] / case.total)
    return [*_times(case, ours, theirs), asked, *_costs(case, ours, theirs)]


def _summary(measured: Measured) -> str:
    times = f"Applied {measured.applied:.1f} s, Available {measured.available:.1f} s"
    requests = f"own {_most(measured.own)}; hub {_most(measured.hub)}"
    resources = f"{measured.memory:.0f} MiB, {measured.cpu:.1f} s CPU"
    idle = f"idle {measured.idle:.1f}/s, {measured.idle_cpu * 100:.1f} % CPU"
    idle += f", {measured.later} until then; {measured.restart} after a restart"
    noticed = "; ".join(f"{what} {seconds:.1f} s" for what, seconds in measured.noticed.items())
    return f"  {times}; {resources}; {idle}; {noticed}\n  {requests}"


def _most(asked: Counter[str]) -> str:
    return f"{asked.total()} ({', '.join(f'{what} {times}' for what, times in asked.most_common(8))})"


async def _measure(worker: Worker, case: Case) -> Measured:
    try:
        await asyncio.to_thread(worker.prepare)
        async with loaded(worker) as load:
            await load.make(case.works, case.manifests, case.executor)
            mark = worker.audit.mark()
            began = time.monotonic()
            worker.start()
            applied = await load.until(lambda: load.count("Applied") == case.works, "all works to be Applied", WITHIN)
            available = await load.until(lambda: load.count("Available") == case.works, "all works to be Available", WITHIN)
            asked = by_party(worker.audit.requests(mark, worker.audit.mark()), party)
            cpu = worker.cpu()
            await asyncio.sleep(case.settle)
            idle, idle_cpu = await _idle(worker, case.idle) if case.idle else (0.0, 0.0)
            measured = Measured(
                applied - began,
                available - began,
                asked.get("hub", Counter()),
                asked.get("own", Counter()),
                worker.memory(),
                cpu,
                idle,
                idle_cpu,
                _own(worker, mark),
            )
            if case.after:
                measured.restart = await _restarted(worker)
                measured.noticed = await (_rights(worker) if case.executor else _repairs(worker))
            return measured
    finally:
        await asyncio.to_thread(worker.discard)


def _own(worker: Worker, mark: int) -> int:
    return by_party(worker.audit.requests(mark), party).get("own", Counter()).total()


async def _restarted(worker: Worker) -> int:
    await asyncio.to_thread(worker.server.stop, timeout=10)
    mark = worker.audit.mark()
    worker.start()
    await asyncio.sleep(RESTART)
    return _own(worker, mark)


async def _idle(worker: Worker, seconds: float) -> tuple[float, float]:
    mark, cpu = worker.audit.mark(), worker.cpu()
    await asyncio.sleep(seconds)
    asked = by_party(worker.audit.requests(mark), party)
    return sum(one.total() for one in asked.values()) / seconds, (worker.cpu() - cpu) / seconds


async def _repairs(worker: Worker) -> dict[str, float]:
    """A ConfigMap is deleted and another edited, at the same time."""
    async with loaded(worker) as load:
        place = PLACES[0]
        await load.client.delete(CONFIG_MAPS, "work0000-0", place)
        await load.client.patch(CONFIG_MAPS, "work0000-1", {"data": {"name": "somebody else's"}}, place)
        deleted, edited = await asyncio.gather(
            load.repaired("work0000-0", place, NOTICED_WITHIN), load.repaired("work0000-1", place, NOTICED_WITHIN)
        )
        return {"a deleted object is back after": deleted, "an edited object is restored after": edited}


async def _rights(worker: Worker) -> dict[str, float]:
    """The executor of a denied work is granted what it lacks, and loses it again."""
    async with loaded(worker) as load:

        async def says(status: str) -> float:
            began = time.monotonic()
            done = await load.until(
                lambda: load.states.get("late", {}).get("Applied") == status, f"Applied={status}", NOTICED_WITHIN
            )
            return done - began

        await load.client.create(MANIFEST_WORKS, work("late", [config_map("late", LATE)], True))
        await says("False")
        # As an administrator would need some time to notice.
        await asyncio.sleep(5)
        await load.client.create(ROLE_BINDINGS, binding(LATE))
        granted = await says("True")
        await asyncio.sleep(5)
        await load.client.delete(ROLE_BINDINGS, "deployer", LATE)
        revoked = await says("False")
        return {"a granted right is used after": granted, "a revoked right is reported after": revoked}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.work", description="One agent, one case.")
    parser.add_argument("agent", choices=[Ours.name, Upstream.name])
    parser.add_argument("--works", type=int, default=1000)
    parser.add_argument("--manifests", type=int, default=10)
    parser.add_argument("--idle", type=float, default=20.0)
    for flag in ("executor", "unlimited", "after"):
        parser.add_argument(f"--{flag}", action="store_true")
    given = parser.parse_args()
    case = Case(given.works, given.manifests, given.executor, given.unlimited, settle=5, idle=given.idle, after=given.after)
    kind = Ours if given.agent == Ours.name else Upstream
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        print(_summary(asyncio.run(_measure(kind(Path(name) / "worker", case.unlimited), case))))


if __name__ == "__main__":
    main()
