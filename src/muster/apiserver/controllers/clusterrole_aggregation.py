"""ClusterRole aggregation: a role with an aggregationRule has the union of the rules of all roles that its selectors match. Follows
`k8s.io/kubernetes/pkg/controller/clusterroleaggregation`.

The aggregating roles of each cluster are remembered with their selectors, so that a write of any role is only compared with these:
an aggregating role is enqueued if it selects the labels of the written role, before or after the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

from muster.apiserver.auth.grants import CLUSTER_ROLES
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.objects import labels, shared
from muster.kube.selectors import Selector, SelectorError, from_label_selector_object
from muster.machinery.objects import Object
from muster.store.api import Entry, Event

_MANAGER = "clusterrole-aggregation-controller"
_RULE_MARKER = b'"aggregationRule":{'
Aggregating = dict[str, Sequence[Selector]]
"""Name of an aggregating role → its selectors."""


class RoleAggregation:
    name = "cluster role aggregation"
    resources = (CLUSTER_ROLES,)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._aggregating: WeakKeyDictionary[Cluster, Aggregating] = WeakKeyDictionary()

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        known = self._aggregating_roles(cluster)
        name = event.entry.key
        selectors = None if event.deleted else _selectors(event.entry)
        if selectors is None:
            known.pop(name, None)
        else:
            known[name] = selectors
        seen = [labels(entry) for entry in (event.entry, event.previous) if entry is not None]
        found = [role for role, chosen in known.items() if role != name and any(_matches(chosen, each) for each in seen)]
        return found if selectors is None else [name, *found]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        """All aggregating roles; none if the cluster has only the bootstrap roles, which are already aggregated."""
        self._aggregating.pop(cluster, None)
        if cluster.store.generation(cluster.name, CLUSTER_ROLES) <= 1:
            return ()
        return list(self._aggregating_roles(cluster))

    def _aggregating_roles(self, cluster: Cluster) -> Aggregating:
        known = self._aggregating.get(cluster)
        if known is None:
            entries = cluster.store.list(cluster.name, CLUSTER_ROLES)
            found = ((entry.key, _selectors(entry)) for entry in entries)
            known = self._aggregating[cluster] = {key: chosen for key, chosen in found if chosen is not None}
        return known

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        role = cluster.read(CLUSTER_ROLES, key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated_rules(role, cluster.store.list(cluster.name, CLUSTER_ROLES))
        if rules != (role.get("rules") or []):
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": key},
                "rules": rules,
            }
            path = object_path("rbac.authorization.k8s.io/v1", "clusterroles", "", key)
            await self._context.client(cluster).apply(path, body, _MANAGER)
        return None


def _selectors(entry: Entry) -> Sequence[Selector] | None:
    """The selectors of an aggregating role; None for any other."""
    return _selectors_of(shared(entry)) if _RULE_MARKER in entry.value else None


def _selectors_of(role: Object) -> list[Selector]:
    found = []
    for raw in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        try:
            found.append(from_label_selector_object(raw))
        except SelectorError:
            continue
    return found


def _matches(selectors: Sequence[Selector], given: Mapping[str, str]) -> bool:
    return any(selector.matches(given) for selector in selectors)


def aggregated_rules(role: Object, entries: Iterable[Entry]) -> list[Object]:
    """The rules of all other roles that a selector matches, in order of role names and without duplicates."""
    found: list[Object] = []
    selectors = _selectors_of(role)
    for entry in entries:
        if entry.key != role["metadata"]["name"] and _matches(selectors, labels(entry)):
            found += [rule for rule in shared(entry).get("rules") or () if rule not in found]
    return found
