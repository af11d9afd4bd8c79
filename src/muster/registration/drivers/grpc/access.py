"""Whether a hub lets an agent in over gRPC: there are no access reviews there, so what the agent has to follow is tried.

A hub that refuses to tell of a kind says so at once, on subscribing or on the resync that follows. What else an agent does there is
allowed by the same rules, which the hub makes as a whole.
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
    """What the hub does not permit, in words. Raises KubeError when it does not answer, or does not know who asks."""
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
