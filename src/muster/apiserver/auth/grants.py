"""Who holds which rules in one cluster: the index of `muster.kube.rbac` over the stored roles and bindings.

It is built when first asked and listens to the store from then on. Changes are noted as they become visible and worked in by the
next question, so an answer always stands on everything visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.apiserver.cluster import Cluster
from muster.kube.rbac import Grants, RbacRef
from muster.store.api import Event, Subscription

ROLES = "rbac.authorization.k8s.io/roles"
CLUSTER_ROLES = "rbac.authorization.k8s.io/clusterroles"
ROLE_BINDINGS = "rbac.authorization.k8s.io/rolebindings"
CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io/clusterrolebindings"
_STORED = {
    "Role": ROLES,
    "ClusterRole": CLUSTER_ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
}
RBAC_RESOURCES = tuple(_STORED.values())
_KINDS = {resource: kind for kind, resource in _STORED.items()}


class GrantIndex:
    """The index of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._subscriptions: list[Subscription] = []
        self._changed: set[RbacRef] = set()
        self._grants = Grants(self._read)

    def current(self) -> Grants:
        """The grants as everything visible makes them."""
        if not self._subscriptions:
            self._build()
        while self._changed:
            self._grants.changed(self._changed.pop())
        return self._grants

    def _read(self, place: RbacRef) -> Mapping[str, Any] | None:
        return self._cluster.read(_STORED[place.kind], f"{place.namespace}/{place.name}" if place.namespace else place.name)

    def _build(self) -> None:
        store, name = self._cluster.store, self._cluster.name
        self._grants = Grants(self._read)
        self._changed.clear()
        for resource in _KINDS:
            self._subscriptions.append(store.subscribe(name, resource, None, self._note, self._forget))
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for entry in store.list(name, resource):
                self._grants.changed(_place(resource, entry.key))

    def _note(self, events: Sequence[Event]) -> None:
        self._changed.update(_place(event.resource, event.entry.key) for event in events)

    def _forget(self) -> None:
        """Events were missed: begin anew with the next question."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []


def _place(resource: str, key: str) -> RbacRef:
    namespace, _, name = key.rpartition("/")
    return RbacRef(_KINDS[resource], namespace, name)
