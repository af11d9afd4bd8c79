"""The rules that users hold in one cluster: an index (`muster.kube.rbac`) over the stored roles and bindings.

It is built on first use and subscribes to the store. Changes are recorded when they become visible and applied before the next
decision, so every decision uses all visible roles and bindings.
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
        """The grants of all visible roles and bindings."""
        if not self._subscriptions:
            self._build()
        while self._changed:
            self._grants.changed(self._changed.pop())
        return self._grants

    def _read(self, reference: RbacRef) -> Mapping[str, Any] | None:
        return self._cluster.read(
            _STORED[reference.kind], f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name
        )

    def _build(self) -> None:
        store, name = self._cluster.store, self._cluster.name
        self._grants = Grants(self._read)
        self._changed.clear()
        for resource in _KINDS:
            self._subscriptions.append(store.subscribe(name, resource, None, self._on_events, self._on_lost))
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for entry in store.list(name, resource):
                self._grants.changed(_reference(resource, entry.key))

    def _on_events(self, events: Sequence[Event]) -> None:
        self._changed.update(_reference(event.resource, event.entry.key) for event in events)

    def _on_lost(self) -> None:
        """Events were missed: rebuild the index before the next decision."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []


def _reference(resource: str, key: str) -> RbacRef:
    namespace, _, name = key.rpartition("/")
    return RbacRef(_KINDS[resource], namespace, name)
