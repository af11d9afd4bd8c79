"""ClusterRole aggregation: a role with an aggregationRule holds the union of the rules of all roles its selectors match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from muster.apiserver.auth.rbac import CLUSTER_ROLES
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.registry.resource import Object
from muster.kube.selectors import SelectorError, from_label_selector_object
from muster.store.api import Event

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer

_MANAGER = "clusterrole-aggregation-controller"


class RoleAggregation:
    name = "cluster role aggregation"
    resources = (CLUSTER_ROLES,)

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return self.initial_keys(cluster)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        """Every aggregating role; none where a cluster has only the bootstrap roles, which are complete as they are."""
        if cluster.store.generation(cluster.name, CLUSTER_ROLES) <= 1:
            return ()
        return [role["metadata"]["name"] for role in cluster.scan(CLUSTER_ROLES) if role.get("aggregationRule")]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        role = cluster.read(CLUSTER_ROLES, key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated_rules(role, cluster.scan(CLUSTER_ROLES))
        if rules != (role.get("rules") or []):
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": key},
                "rules": rules,
            }
            path = object_path("rbac.authorization.k8s.io/v1", "clusterroles", "", key)
            await self._server.client(cluster).apply(path, body, _MANAGER)
        return None


def aggregated_rules(role: Object, roles: Iterable[Object]) -> list[Object]:
    """Rules of all other roles that any selector matches, in name order, each once."""
    found: list[Object] = []
    selectors = []
    for raw in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            selectors.append(from_label_selector_object(raw))
        except SelectorError:
            continue
    for other in sorted(roles, key=lambda r: str(r["metadata"]["name"])):
        if other["metadata"]["name"] == role["metadata"]["name"]:
            continue
        labels = other["metadata"].get("labels") or {}
        if any(selector.matches(labels) for selector in selectors):
            found += [rule for rule in other.get("rules") or () if rule not in found]
    return found
