"""The RBAC of an accepted cluster on the hub, as objects; sends no requests.

A cluster has a namespace of its name, a ClusterRole with its binding, and two RoleBindings in its namespace to roles that all
clusters share. Every binding names the cluster's agents (`AgentSubjects`): each user that got a certificate, or, if a driver cannot
tell its agents apart, the group of all agents and the group for identity providers that forbid groups beginning with `system:`. A
cluster that is no longer accepted keeps a ClusterRole that allows only reading its own ManagedCluster, so that the agent can see
the reason.

Invariant: the objects of a cluster never coincide with those of another cluster or of the hub. The names leave three gaps, which
`name_problem` closes: clusters called `registration` or `work` would have the name of a common role, and one called
`managed-clusters` the group of all agents. Namespaces of Kubernetes and of the hub are refused too: an agent may update every Lease
in its namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.machinery.objects import GVR, Object, ObjectKey, key_of
from muster.registration.names import (
    ALL_CLUSTERS_GROUP,
    BOOTSTRAP_NAMESPACE,
    CLUSTER_LABEL,
    CLUSTER_UID,
    REGISTER_GROUP,
    REGISTRATION_ROLE,
    WORK_CLEANUP,
    WORK_ROLE,
    cluster_group,
    cluster_role,
    external_group,
    is_cluster_name,
    registration_binding,
    reserved_name_problem,
    work_binding,
)
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
CLUSTER_GROUP: Final = "cluster.open-cluster-management.io"
ADDON_GROUP: Final = "addon.open-cluster-management.io"
WORK_GROUP: Final = "work.open-cluster-management.io"
Labels = Mapping[str, str]


@dataclass(frozen=True)
class AgentSubjects:
    """The subjects of a cluster's bindings."""

    uid: str = ""
    """The uid of the ManagedCluster under which they got their credentials."""
    users: frozenset[str] = frozenset()
    by_group: bool = False
    """Whether all holders of a credential with the cluster's group are included."""

    def __or__(self, other: AgentSubjects) -> AgentSubjects:
        return AgentSubjects(self.uid, self.users | other.users, self.by_group or other.by_group)


@dataclass(frozen=True)
class DesiredObject:
    """An object that must exist."""

    resource: GVR
    body: Object

    @property
    def key(self) -> ObjectKey:
        return key_of(self.body)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


def rule(group: str | list[str], resources: str, *verbs: str, names: tuple[str, ...] = ()) -> Object:
    groups = group if isinstance(group, list) else [group]
    return {
        "apiGroups": groups,
        "resources": [resources],
        **({"resourceNames": list(names)} if names else {}),
        "verbs": list(verbs),
    }


def common_roles(labels: Labels) -> tuple[DesiredObject, DesiredObject]:
    """The permissions of agents in their own namespaces, shared by all clusters."""
    registration = [
        rule("coordination.k8s.io", "leases", "get", "list", "watch", "update"),
        rule(ADDON_GROUP, "managedclusteraddons", "get", "list", "watch"),
        rule(ADDON_GROUP, "managedclusteraddons/status", "patch", "update"),
        rule("events.k8s.io", "events", "create"),
    ]
    work = [
        rule(["", "events.k8s.io"], "events", "create", "patch", "update"),
        rule(WORK_GROUP, "manifestworks", "get", "list", "watch", "update", "patch"),
        rule(WORK_GROUP, "manifestworks/status", "patch", "update"),
    ]
    return (_role(REGISTRATION_ROLE, "", registration, labels), _role(WORK_ROLE, "", work, labels))


def namespace(cluster: str, labels: Labels) -> DesiredObject:
    return DesiredObject(NAMESPACES, {"metadata": {"name": cluster, "labels": _labels(cluster, labels)}})


def own_role(cluster: str, labels: Labels, *, accepted: bool) -> DesiredObject:
    """The permissions of a cluster outside its namespace; once denied, only reading itself."""
    names = (cluster,)
    if not accepted:
        looking = [rule(CLUSTER_GROUP, "managedclusters", "get", "list", "watch", names=names)]
        return _role(cluster_role(cluster), cluster, looking, labels)
    rules = [
        rule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
        rule(REGISTER_GROUP, "managedclusters/clientcertificates", "renew"),
        rule(CLUSTER_GROUP, "managedclusters", "get", "list", "update", "watch", names=names),
        rule(CLUSTER_GROUP, "managedclusters/status", "patch", "update", names=names),
    ]
    return _role(cluster_role(cluster), cluster, rules, labels)


def own_binding(cluster: str, labels: Labels, agents: AgentSubjects) -> DesiredObject:
    """The binding, which also records the agents, see `agents.py`."""
    name = cluster_role(cluster)
    metadata = {"name": name, "labels": _labels(cluster, labels), "annotations": {CLUSTER_UID: agents.uid}}
    return DesiredObject(CLUSTER_ROLE_BINDINGS, {"metadata": metadata, **_binds(cluster, name, agents)})


def namespace_bindings(cluster: str, labels: Labels, agents: AgentSubjects) -> tuple[DesiredObject, DesiredObject]:
    """The bindings of the registration agent and of the work agent; a finalizer holds the latter while works exist."""
    registration = {"name": registration_binding(cluster), "namespace": cluster, "labels": _labels(cluster, labels)}
    work = {**registration, "name": work_binding(cluster), "finalizers": [WORK_CLEANUP]}
    return (
        DesiredObject(ROLE_BINDINGS, {"metadata": registration, **_binds(cluster, REGISTRATION_ROLE, agents)}),
        DesiredObject(ROLE_BINDINGS, {"metadata": work, **_binds(cluster, WORK_ROLE, agents)}),
    )


def own_keys(cluster: str) -> tuple[tuple[GVR, ObjectKey], ...]:
    """The names of a cluster's permissions; its namespace, which outlives it, is not included."""
    name = cluster_role(cluster)
    return (
        (ROLE_BINDINGS, ObjectKey(cluster, registration_binding(cluster))),
        (ROLE_BINDINGS, ObjectKey(cluster, work_binding(cluster))),
        (CLUSTER_ROLE_BINDINGS, ObjectKey("", name)),
        (CLUSTER_ROLES, ObjectKey("", name)),
    )


def name_problem(cluster: str, hub_namespace: str, *, is_new: bool) -> str:
    """Why no cluster may be accepted under this name; empty if one may. `is_new`: none of this name was accepted before."""
    if not is_cluster_name(cluster):
        return f"{cluster!r} cannot name a cluster: it must be a valid namespace name (a DNS label of at most 63 characters)"
    clashes = cluster_role(cluster) in (REGISTRATION_ROLE, WORK_ROLE) or cluster_group(cluster) == ALL_CLUSTERS_GROUP
    system = ("kube-system", "kube-public", "kube-node-lease", BOOTSTRAP_NAMESPACE, hub_namespace)
    if clashes or cluster in system:
        return f"{cluster!r} cannot name a cluster: the hub uses this name itself; join under another one"
    return reserved_name_problem(cluster) if is_new else ""


def holds(current: Object, wanted: Object) -> bool:
    """Whether an object is as wanted: it may have more labels, annotations and finalizers, but exactly these permissions."""
    have, must = current.get("metadata") or {}, wanted["metadata"]
    return (
        _includes(have.get("labels"), must["labels"])
        and _includes(have.get("annotations"), must.get("annotations", {}))
        and set(must.get("finalizers", ())) <= set(have.get("finalizers") or ())
        and all(current.get(field) == wanted.get(field) for field in ("rules", "subjects", "roleRef", "aggregationRule"))
    )


def _includes(have: Mapping[str, Any] | None, must: Mapping[str, str]) -> bool:
    return all((have or {}).get(name) == value for name, value in must.items())


def fixed(current: Object, wanted: Object) -> bool:
    """Whether an object cannot be corrected in place: its role is immutable, or an aggregation rule determines its rules."""
    return current.get("roleRef") != wanted.get("roleRef") or "aggregationRule" in current


def _role(name: str, cluster: str, rules: list[Object], labels: Labels) -> DesiredObject:
    return DesiredObject(CLUSTER_ROLES, {"metadata": {"name": name, "labels": _labels(cluster, labels)}, "rules": rules})


def _labels(cluster: str, labels: Labels) -> dict[str, str]:
    return {**labels, CLUSTER_LABEL: cluster}


def _binds(cluster: str, role: str, agents: AgentSubjects) -> Object:
    named = [("Group", cluster_group(cluster))] if agents.by_group else []
    named += [("Group", external_group(cluster)), *(("User", user) for user in sorted(agents.users))]
    return {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": kind, "apiGroup": RBAC_GROUP, "name": name} for kind, name in named],
    }
