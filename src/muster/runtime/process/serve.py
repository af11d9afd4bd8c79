"""The main part of every controller process: health checks and metrics on a port, one line once it is up, and the manager.

The health server listens before the manager runs, so that a standby replica answers its checks, and stops after the manager has
ended. What happens before (installation, webhooks) and flags are the caller's; signals and exit codes are those of the command.
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
    """Runs until cancelled. `announce` is called with the port of the health server once that listens, or (`once_synced`) once the
    caches are synced too. Metrics that are None are served elsewhere. Raises OSError if it cannot listen, and what `Manager.run`
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
