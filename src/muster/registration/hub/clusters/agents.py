"""Who acts for a cluster: the users that were given a credential under this very ManagedCluster, and nobody of an earlier one.

A certificate outlives the ManagedCluster that it was issued for, by up to a year, and names only the cluster. If rights were
bound to the group in it, whoever had the name before would have them again with the name's next owner. So a driver that knows
its agents one by one names them (`HubDriver.agents`), and they are bound as users. What was learned once must outlive the signing
requests it was learned from, which Kubernetes removes after an hour: the record is the cluster's ClusterRoleBinding, which only
administrators may write, with the uid of the ManagedCluster that it is for in an annotation. A binding for another uid counts for
nothing.

A binding without the annotation is one of an upstream hub, or of a Muster before this; it binds the group, and those agents
cannot be named any more. If the ManagedCluster was accepted then, it is kept for as long as that is there.
"""

from __future__ import annotations

from muster.api import condition_of
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.objects import Object, ObjectKey
from muster.registration.hub.clusters.permissions import Permissions
from muster.registration.hub.clusters.rbac import AgentSubjects
from muster.registration.hub.context import HubControllerContext
from muster.registration.names import CLUSTER_UID, cluster_group, cluster_role, parse_common_name
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS


class ClusterAgents:
    def __init__(self, hub: HubControllerContext, permissions: Permissions) -> None:
        self._drivers = hub.drivers
        self._permissions = permissions
        self._known: dict[str, AgentSubjects] = {}
        """By cluster: what was known last. There may be no binding: not yet, or somebody has deleted it."""

    def of(self, cluster: ManagedCluster) -> AgentSubjects:
        name, uid = cluster.metadata.name, cluster.metadata.uid
        agents = self._known.get(name, AgentSubjects(uid))
        if agents.uid != uid:
            agents = AgentSubjects(uid)
        binding = self._permissions.get(CLUSTER_ROLE_BINDINGS, ObjectKey("", cluster_role(name)))
        if binding is not None:
            agents |= recorded(binding.data, cluster)
        for driver in self._drivers.values():
            if driver.owns(cluster):
                users = driver.agents(cluster)
                agents |= AgentSubjects(uid, frozenset(users or ()), by_group=users is None)
        self._known[name] = agents
        return agents

    def forget(self, name: str) -> None:
        self._known.pop(name, None)


def recorded(binding: Object, cluster: ManagedCluster) -> AgentSubjects:
    """The agents that a ClusterRoleBinding names for this ManagedCluster."""
    name, uid = cluster.metadata.name, cluster.metadata.uid
    # A new ManagedCluster has no conditions, and nobody yet who may write any.
    made_for = (binding["metadata"].get("annotations") or {}).get(CLUSTER_UID)
    if made_for != uid and (made_for or condition_of(cluster.status.conditions, ACCEPTED) is None):
        return AgentSubjects(uid)
    named = [(subject.get("kind"), subject.get("name") or "") for subject in binding.get("subjects") or ()]
    users = frozenset(
        user for kind, user in named if kind == "User" and (parsed := parse_common_name(user)) and parsed.cluster == name
    )
    return AgentSubjects(uid, users, by_group=("Group", cluster_group(name)) in named)
