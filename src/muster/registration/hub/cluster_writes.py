"""How controllers of the hub write ManagedClusters: the difference of two versions, valid only for the version that was read."""

from __future__ import annotations

import msgspec

from muster.api import Condition, condition_of, merge_patch, with_condition
from muster.api.cluster.v1 import ManagedCluster
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.resource import Object
from muster.runtime.verbs import KubeClient


async def patch_cluster(
    client: KubeClient, before: ManagedCluster, after: ManagedCluster, *, status: bool = False
) -> Object | None:
    """Write what differs, status or all but status; None when nothing does. Raises Conflict when somebody wrote in between."""
    if status:
        after = msgspec.structs.replace(before, status=after.status)
    else:
        after = msgspec.structs.replace(after, status=before.status)
    patch = merge_patch(before, after)
    if not patch:
        return None
    metadata = before.metadata
    pinned = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    patch["metadata"] = {**patch.get("metadata", {}), **pinned}
    return await client.patch(MANAGED_CLUSTERS, metadata.name, patch, subresource="status" if status else "")


def with_cluster_condition(cluster: ManagedCluster, condition: Condition, now: str) -> ManagedCluster:
    conditions = with_condition(cluster.status.conditions, condition, now)
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, conditions=conditions))


def redated(cluster: ManagedCluster, condition: Condition, now: str) -> ManagedCluster:
    """Like `with_cluster_condition`, but another reason counts as a transition too: its time tells since when the reason holds."""
    changed = with_cluster_condition(cluster, condition, now)
    old = condition_of(cluster.status.conditions, condition.type)
    if old is None or old.reason == condition.reason:
        return changed
    dated = msgspec.structs.replace(condition, last_transition_time=now)
    conditions = tuple(dated if one.type == dated.type else one for one in changed.status.conditions)
    return msgspec.structs.replace(changed, status=msgspec.structs.replace(changed.status, conditions=conditions))


def with_finalizers(cluster: ManagedCluster, *, add: str = "", remove: str = "") -> ManagedCluster:
    finalizers = [name for name in cluster.metadata.finalizers if name != remove]
    if add and add not in finalizers:
        finalizers.append(add)
    return msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, finalizers=tuple(finalizers)))
