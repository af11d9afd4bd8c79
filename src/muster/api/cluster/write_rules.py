"""What writing a ManagedCluster takes beyond the plain right to, by who writes and what changes. Pure: nothing here asks anybody.

Four things are rights of their own: accepting a cluster (`managedclusters/accept`), taking that back, changing which identity
outside the hub an accepted cluster names as its own, and moving a cluster between sets (`managedclustersets/join`, of both). The
agents of a cluster may take back its acceptance, which is how a cluster leaves from its own side; they may never give it.

The agents of a cluster, and whoever introduces a cluster, never write finalizers and owner references: with them an agent could
have its ManagedCluster collected as garbage, cut short the hub's cleaning up after it, or keep it from ever going. Upstream's
agents write neither. With feature gate ManagedClusterAgentRestriction they also do not write what clusters are selected by:
labels, by which label selectors of cluster sets and of placements choose, the cluster set at creation, and taints, which keep
placements away. Labels that begin with `agent.open-cluster-management.io` stay the agents' own, as such annotations are.

Webhooks go by this, and so does whoever writes for agents with an account of its own, because a webhook sees that account only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.api.agents import AGENT_ANNOTATIONS, CLUSTER_SET_LABEL, PINNED_ANNOTATIONS, REGISTER_GROUP, agent_groups
from muster.api.cluster.v1 import GROUP, ManagedCluster
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes

DEFAULT_SET: Final = "default"


@dataclass(frozen=True)
class ClusterWriteRules:
    """How a hub is set up, as far as its word on writes depends on it."""

    default_cluster_set: bool = True
    """Clusters that name no set are put into `default`."""
    agent_restriction: bool = False


@dataclass(frozen=True)
class RequiredRight:
    """Somebody may write what they want to only if they hold this."""

    asked: AccessAttributes | None
    """None where no right helps."""
    resource: str
    """What a refusal says is forbidden."""
    name: str
    why: str

    @property
    def refusal(self) -> str:
        return f'{self.resource}.{GROUP} "{self.name}" is forbidden: {self.why}'


def required_rights(
    who: UserInfo, new: ManagedCluster, old: ManagedCluster | None, rules: ClusterWriteRules
) -> tuple[RequiredRight, ...]:
    """All of them are needed. `old` is None for a cluster that is introduced."""
    return (
        *_for_agents(who, new, old, rules),
        *_for_acceptance(who, new, old),
        *_for_identity(who, new, old),
        *_for_sets(who, new, old, rules),
    )


def is_agent_of(who: UserInfo, cluster: str) -> bool:
    return not agent_groups(cluster).isdisjoint(who.groups)


def is_agents_own(name: str) -> bool:
    """Whether a label or an annotation of a ManagedCluster is for its agents to write."""
    return name.startswith(AGENT_ANNOTATIONS)


def _for_agents(
    who: UserInfo, new: ManagedCluster, old: ManagedCluster | None, rules: ClusterWriteRules
) -> tuple[RequiredRight, ...]:
    name = new.metadata.name
    changes = _life_changes(new, old)
    if rules.agent_restriction:
        changes += _selection_changes(new, old, DEFAULT_SET if rules.default_cluster_set else "")
    if not changes:
        return ()
    if old is None:
        why = f'user "{who.name}" introduces a cluster that it cannot accept, and cannot set {", ".join(changes)}'
        return (RequiredRight(_accept(name), "managedclusters", name, why),)
    if is_agent_of(who, name):
        return (RequiredRight(None, "managedclusters", name, f"agents of a cluster cannot change {', '.join(changes)}"),)
    return ()


def _life_changes(new: ManagedCluster, old: ManagedCluster | None) -> list[str]:
    """The fields by which an object lives and dies that differ."""
    before = ManagedCluster() if old is None else old
    fields = []
    if new.metadata.finalizers != before.metadata.finalizers:
        fields.append("metadata.finalizers")
    if new.metadata.owner_references != before.metadata.owner_references:
        fields.append("metadata.ownerReferences")
    return fields


def _selection_changes(new: ManagedCluster, old: ManagedCluster | None, default_set: str) -> list[str]:
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
    labels = {name: value for name, value in cluster.metadata.labels.items() if not is_agents_own(name)}
    if labels.get(CLUSTER_SET_LABEL, "") in ("", default_set):
        labels.pop(CLUSTER_SET_LABEL, None)
    return labels


def _taints(cluster: ManagedCluster) -> set[tuple[str, str, str]]:
    return {(taint.key, taint.value, taint.effect) for taint in cluster.spec.taints}


def _for_acceptance(who: UserInfo, new: ManagedCluster, old: ManagedCluster | None) -> tuple[RequiredRight, ...]:
    name, accepted = new.metadata.name, new.spec.hub_accepts_client
    if accepted == (old is not None and old.spec.hub_accepts_client):
        return ()
    if not accepted and is_agent_of(who, name):
        return ()
    why = f'user "{who.name}" cannot update the HubAcceptsClient field'
    return (RequiredRight(_accept(name), "managedclusters/accept", name, why),)


def _for_identity(who: UserInfo, new: ManagedCluster, old: ManagedCluster | None) -> tuple[RequiredRight, ...]:
    """Else an agent could have another's identity let in, or leave the hub looking after one that is not its own."""
    if old is None or not old.spec.hub_accepts_client:
        return ()
    before, after = old.metadata.annotations, new.metadata.annotations
    changed = sorted(name for name in PINNED_ANNOTATIONS if before.get(name) != after.get(name))
    if not changed:
        return ()
    name = new.metadata.name
    fields = ", ".join(f"metadata.annotations[{one}]" for one in changed)
    why = f'user "{who.name}" cannot change {fields} of a cluster that is accepted'
    return (RequiredRight(_accept(name), "managedclusters", name, why),)


def _for_sets(
    who: UserInfo, new: ManagedCluster, old: ManagedCluster | None, rules: ClusterWriteRules
) -> tuple[RequiredRight, ...]:
    before, after = "" if old is None else _set_of(old), _set_of(new)
    if before == after:
        return ()
    if old is not None and not before and after == DEFAULT_SET and rules.default_cluster_set:
        # The hub puts it there itself: an agent that writes to a cluster from before the default set need not hold the right.
        return ()
    return tuple(
        RequiredRight(
            AccessAttributes("create", GROUP, "*", "managedclustersets", "join", name=name),
            "managedclustersets/join",
            name,
            f'user "{who.name}" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{name}"',
        )
        for name in filter(None, (before, after))
    )


def _set_of(cluster: ManagedCluster) -> str:
    return cluster.metadata.labels.get(CLUSTER_SET_LABEL, "")


def _accept(name: str) -> AccessAttributes:
    return AccessAttributes("update", REGISTER_GROUP, "*", "managedclusters", "accept", name=name)
