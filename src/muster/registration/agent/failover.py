"""Selection among several hubs: the checks before joining one, and the list of hubs that failed.

A hub fails an agent when it withdraws its acceptance, or when the lease could not be renewed for too long. It then moves to the end
of the list for a while, so that the others are tried first; it is never removed, for it may be the only one. A hub that has not
decided about the cluster yet has not failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from muster.api import condition_of
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.clock import Clock
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.drivers import find
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeClient, KubeError, NotFound

CHECK_SECONDS = 20.0


def denied(cluster: ManagedCluster) -> bool:
    """Whether the hub has denied the cluster; a hub that has not decided yet has not."""
    return not cluster.spec.hub_accepts_client and condition_of(cluster.status.conditions, ACCEPTED) is not None


class Failover:
    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._failed: dict[HubAddress, float] = {}

    def failed(self, address: HubAddress) -> None:
        self._failed[address] = self._clock.monotonic()

    def is_failed(self, address: HubAddress) -> bool:
        since = self._failed.get(address)
        return since is not None and self._clock.monotonic() - since < self._seconds

    def order(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """In the administrator's order, then those that failed, the one that did so longest ago first."""
        listed = list(candidates)
        late = [candidate for candidate in listed if self.is_failed(candidate.address)]
        late.sort(key=lambda candidate: self._failed[candidate.address])
        return [candidate for candidate in listed if candidate not in late] + late


async def objection(hub: KubeClient, cluster: str, driver: str) -> str:
    """Why this hub, with this identity, is not to be joined now; empty when it may be."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            missing = await find(driver).missing_to_register(hub, cluster)
            if missing:
                return f"the bootstrap identity may not {', '.join(missing)}"
            try:
                known = ManagedCluster.decode(await hub.get(MANAGED_CLUSTERS, cluster))
            except NotFound:
                return ""
            return "the hub has denied this cluster" if denied(known) else ""
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except (KubeError, ValueError) as error:
        return str(error)
