"""How every process of controllers serves: health checks and metrics on a port, one line when it is up, its manager until the end.

The health server listens before the manager runs, so that a replica which stands by for leader election answers its checks, and
stops after the manager has ended. What the process does before (install something, start webhooks) and its flags are its own
business; signals and exit codes are those of the command around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from muster.machinery.metrics import Metrics
from muster.runtime.controller.leader_election import LeaderElection
from muster.runtime.controller.manager import Manager, RunnableFunc
from muster.runtime.process.health import HealthServer


async def serve(
    manager: Manager,
    metrics: Metrics | None,
    health_address: tuple[str, int],
    announce: Callable[[int], None],
    *,
    once_synced: bool = False,
    election: LeaderElection | None = None,
) -> NoReturn:
    """Until cancelled. `announce` is called with the port of the health server: when that listens, or (`once_synced`) when the
    caches are complete too. Metrics that are None are shown elsewhere. Raises OSError when it cannot listen, and what `Manager.run`
    raises."""
    if metrics is not None and election is not None and manager.has_elected_only:
        text = "Whether this replica leads: 1 from when its controllers began."
        metrics.gauge("leader_election_master_status", text, lambda: float(manager.elected), name=election.lease)
    health = HealthServer(metrics)
    for name, check in manager.live_checks.items():
        health.live(name, check)
    for name, check in manager.ready_checks.items():
        health.ready(name, check)
    await health.start(*health_address)

    async def announce_synced() -> None:
        await manager.synced()
        announce(health.port)
        await asyncio.Event().wait()

    try:
        if once_synced:
            manager.add("the announcement", RunnableFunc(announce_synced), needs_leader_election=False)
        else:
            announce(health.port)
        await manager.run(election)
    finally:
        await health.stop()
