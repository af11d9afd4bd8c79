"""Checks an agent's permissions over gRPC: there are no access reviews, so it subscribes to the kinds that it must watch.

A hub that denies a kind answers so at once, on subscribing or on the resync that follows. The agent's other permissions come from
the same rules, which the hub creates as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.machinery.objects import GVR
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import Forbidden, KubeClient
from muster.runtime.client.builtin import LEASES, SIGNING_REQUESTS

FOLLOWED_TO_REGISTER: Final = (MANAGED_CLUSTERS, SIGNING_REQUESTS)
FOLLOWED_TO_SERVE: Final = (MANAGED_CLUSTERS, SIGNING_REQUESTS, LEASES, MANIFEST_WORKS)


async def refused_kinds(hub: KubeClient, cluster: str, kinds: Sequence[GVR]) -> tuple[str, ...]:
    """The kinds that the hub denies. Raises KubeError if it does not answer, or does not authenticate the agent."""
    refused = []
    for kind in kinds:
        try:
            await _follow(hub, cluster, kind)
        except Forbidden:
            refused.append(f"list and watch {kind.plural}")
    return tuple(refused)


async def _follow(hub: KubeClient, cluster: str, kind: GVR) -> None:
    if kind == MANAGED_CLUSTERS:
        await hub.list(kind, field_selector=f"metadata.name={cluster}")
    elif kind == SIGNING_REQUESTS:
        await hub.list(kind, label_selector=f"{CLUSTER_LABEL}={cluster}")
    else:
        await hub.list(kind, cluster)
