"""Placements as an administrator of a hub makes and sees them, over whichever client."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.api.cluster.v1beta2 import ManagedClusterSet, ManagedClusterSetBinding
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import AlreadyExists, NotFound
from muster.runtime.client.typed import served
from tests.support.eventually import eventually

CLUSTERS, SETS, BINDINGS = served(ManagedCluster), served(ManagedClusterSet), served(ManagedClusterSetBinding)
SCORES, PLACEMENTS, DECISIONS = served(AddOnPlacementScore), served(Placement), served(PlacementDecision)
GROUP = "cluster.open-cluster-management.io"
SATISFIED, MISCONFIGURED = "PlacementSatisfied", "PlacementMisconfigured"
NS = "apps"


class Chooser:
    """`admin` may do everything."""

    admin: KubeClient
    ns: str = NS
    """Where placements are that do not say."""
    own_set: str = "all"
    """Of which set clusters are that do not say."""

    # What there is

    async def namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def cluster(self, name: str, *, of: str = "", taints: Any = None, status: Any = None, **labels: str) -> None:
        body = {
            "metadata": {"name": name, "labels": {f"{GROUP}/clusterset": of or self.own_set, **labels}},
            "spec": {"taints": taints or []},
        }
        await self.admin.create(CLUSTERS, _typed(CLUSTERS, body))
        if status:
            await self.admin.patch(CLUSTERS, name, {"status": status}, subresource="status")

    async def change_cluster(self, name: str, *, taints: list[Object] | None = None, **labels: str | None) -> None:
        patch: Object = {"metadata": {"labels": labels}}
        if taints is not None:
            patch["spec"] = {"taints": taints}
        await self.admin.patch(CLUSTERS, name, patch)

    async def cluster_set(self, name: str, selector: Object | None = None) -> None:
        spec = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": selector}} if selector is not None else {}
        await self.admin.create(SETS, _typed(SETS, {"metadata": {"name": name}, "spec": spec}))

    async def bind(self, name: str, namespace: str = "") -> None:
        body = {"metadata": {"name": name, "namespace": namespace or self.ns}, "spec": {"clusterSet": name}}
        await self.admin.create(BINDINGS, _typed(BINDINGS, body))

    async def score(self, cluster: str, name: str, until: str = "", **values: int) -> None:
        found = await self.find(SCORES, name, cluster)
        if found is None:
            await self.admin.create(SCORES, _typed(SCORES, {"metadata": {"name": name, "namespace": cluster}}))
        status = {"scores": [{"name": key, "value": value} for key, value in values.items()], "validUntil": until or None}
        await self.admin.patch(SCORES, name, {"status": status}, cluster, subresource="status")

    async def place(self, name: str, namespace: str = "", annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
        metadata = {"name": name, "namespace": namespace or self.ns, "annotations": dict(annotations or {})}
        return await self.admin.create(PLACEMENTS, _typed(PLACEMENTS, {"metadata": metadata, "spec": spec}))

    async def change(self, name: str, namespace: str = "", **spec: Any) -> None:
        await self.admin.patch(PLACEMENTS, name, {"spec": spec}, namespace or self.ns)

    # What came of it

    async def find(self, resource: Any, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def find_status(self, placement: str, namespace: str = "") -> Object:
        return (await self.find(PLACEMENTS, placement, namespace or self.ns) or {}).get("status") or {}

    async def decisions(self, placement: str, namespace: str = "") -> dict[str, list[str]]:
        found = await self.admin.list(DECISIONS, namespace or self.ns, label_selector=f"{GROUP}/placement={placement}")
        return {
            one["metadata"]["name"]: [entry["clusterName"] for entry in (one.get("status") or {}).get("decisions") or []]
            for one in found.items
        }

    async def chosen(self, placement: str, namespace: str = "") -> list[str]:
        return sorted(itertools.chain.from_iterable((await self.decisions(placement, namespace)).values()))

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str) -> Any:
        return await eventually(probe, what, poll=0.02)

    async def until_chosen(self, placement: str, *clusters: str, namespace: str = "") -> Object:
        """Decisions and status agree on exactly these."""

        async def look() -> Object | None:
            found = await self.find(PLACEMENTS, placement, namespace or self.ns)
            status = (found or {}).get("status") or {}
            chosen = await self.chosen(placement, namespace)
            agreed = chosen == sorted(clusters) and status.get("numberOfSelectedClusters", 0) == len(clusters)
            return found if agreed and status.get("conditions") else None

        found: Object = await self.until(look, f"{placement} to choose {clusters}")
        return found

    async def until_chosen_any(self, placement: str, namespace: str = "") -> list[str]:
        """Whoever it is."""
        found: list[str] = await self.until(lambda: self.chosen(placement, namespace), f"{placement} to choose")
        return found

    async def until_says(
        self, placement: str, kind: str, status: str, reason: str, message: str = "", namespace: str = ""
    ) -> Object:
        async def look() -> Object | None:
            found = await self.admin.get(PLACEMENTS, placement, namespace or self.ns)
            said = condition(found, kind)
            right = (said.get("status"), said.get("reason")) == (status, reason) and message in said.get("message", "")
            return found if right and said.get("observedGeneration") == found["metadata"]["generation"] else None

        found: Object = await self.until(look, f"{placement} to say {kind} {status} {reason} {message}")
        return found


def condition(found: Object, kind: str) -> Object:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})


def _typed(resource: Any, body: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def labelled(**labels: str) -> list[Object]:
    """A predicate."""
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


def expressed(*expressions: str) -> list[Object]:
    return [{"requiredClusterSelector": {"celSelector": {"celExpressions": list(expressions)}}}]


def scored(resource: str, name: str, weight: int = 1) -> Object:
    coordinate = {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": name}}
    return {"scoreCoordinate": coordinate, "weight": weight}


def built_in(name: str, weight: int = 1) -> Object:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}
