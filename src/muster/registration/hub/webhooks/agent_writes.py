"""What the agents of a cluster, and whoever introduces a cluster, may not write to its ManagedCluster.

Never finalizers and owner references: with them an agent could have its ManagedCluster collected as garbage, cut short the hub's
cleaning up after it, or keep it from ever going. Upstream's agents write neither.

With feature gate ManagedClusterAgentRestriction, also not what clusters are selected by: labels, by which label selectors of
cluster sets and of placements choose, the cluster set at creation, and taints, which keep placements away. Labels that begin with
`agent.open-cluster-management.io` stay the agents' own, as such annotations are.
"""

from __future__ import annotations

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.authentication import UserInfo
from muster.registration.names import AGENT_ANNOTATIONS, CLUSTER_SET_LABEL, agent_groups


def is_agent_of(who: UserInfo, cluster: str) -> bool:
    return not agent_groups(cluster).isdisjoint(who.groups)


def life_changes(new: ManagedCluster, old: ManagedCluster | None) -> list[str]:
    """The fields by which an object lives and dies that differ."""
    before = ManagedCluster() if old is None else old
    fields = []
    if new.metadata.finalizers != before.metadata.finalizers:
        fields.append("metadata.finalizers")
    if new.metadata.owner_references != before.metadata.owner_references:
        fields.append("metadata.ownerReferences")
    return fields


def selection_changes(new: ManagedCluster, old: ManagedCluster | None, default_set: str) -> list[str]:
    """The fields that clusters are selected by that differ. `default_set` is what the hub itself fills in for no set."""
    fields = []
    before = {} if old is None else _labels(old, default_set)
    after = _labels(new, default_set)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            fields.append(f"metadata.labels[{name}]")
    if old is not None and _taints(new) != _taints(old):
        fields.append("spec.taints")
    return fields


def _labels(cluster: ManagedCluster, default_set: str) -> dict[str, str]:
    labels = {name: value for name, value in cluster.metadata.labels.items() if not name.startswith(AGENT_ANNOTATIONS)}
    if labels.get(CLUSTER_SET_LABEL, "") in ("", default_set):
        labels.pop(CLUSTER_SET_LABEL, None)
    return labels


def _taints(cluster: ManagedCluster) -> set[tuple[str, str, str]]:
    return {(taint.key, taint.value, taint.effect) for taint in cluster.spec.taints}
