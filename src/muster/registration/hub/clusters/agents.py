"""The users of a cluster's agents: those that got a credential under this very ManagedCluster, and none of an earlier one.

A certificate outlives the ManagedCluster that it was issued for, by up to a year, and names only the cluster. If permissions were
bound to the group in it, agents of a former cluster would have them again when another cluster takes the name. So a driver that
knows its agents names them (`HubDriver.agents`), and they are bound as users. This must outlive their signing requests, which
Kubernetes deletes after an hour: it is recorded in the cluster's ClusterRoleBinding, which only administrators may write, with the
uid of its ManagedCluster in an annotation. A binding for another uid is ignored.

A binding without the annotation was made by an upstream hub, or by an earlier Muster; it binds the group, and those agents can no
longer be named. If the ManagedCluster was accepted at that time, the group stays bound as long as the ManagedCluster exists.
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
        """By cluster: the last known users. The binding may be missing: not created yet, or deleted by another client."""

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
    # A new ManagedCluster has no conditions, and no client yet that may write any.
    made_for = (binding["metadata"].get("annotations") or {}).get(CLUSTER_UID)
    if made_for != uid and (made_for or condition_of(cluster.status.conditions, ACCEPTED) is None):
        return AgentSubjects(uid)
    named = [(subject.get("kind"), subject.get("name") or "") for subject in binding.get("subjects") or ()]
    users = frozenset(
        user for kind, user in named if kind == "User" and (parsed := parse_common_name(user)) and parsed.cluster == name
    )
    return AgentSubjects(uid, users, by_group=("Group", cluster_group(name)) in named)
