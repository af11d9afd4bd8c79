"""Clusters of an API server in this process: read directly from its store, with controllers driven by its event stream.

The state is in this process already, decoded once for all, and a write is visible there as soon as it is answered. So there are no
further caches, and clusters at rest cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.apiserver.cluster import Cluster
from muster.apiserver.objects import shared, stored
from muster.fleet.attached import Attached, Change, Controller
from muster.machinery.objects import GVR, Object
from muster.store.api import Event


class StoreView:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, resource: GVR, key: str) -> Object | None:
        return self._cluster.read(stored(resource), key)

    def scan(self, resource: GVR, namespace: str = "") -> Iterable[Object]:
        return self._cluster.scan(stored(resource), namespace)


class StoreDriven:
    """Wraps a controller of the fleet as one of the server's, for the attached clusters; other clusters are ignored."""

    def __init__(self, controller: Controller, attachments: dict[str, Attached]) -> None:
        self.name = controller.name
        self._resources = {stored(resource): resource for resource in controller.resources}
        self.resources = tuple(self._resources)
        self._controller = controller
        self._attachments = attachments

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        attached = self._attachments.get(cluster.name)
        if attached is None:
            return ()
        return self._controller.keys(attached, self._change(event))

    def _change(self, event: Event) -> Change:
        def versions() -> list[Object]:
            entries = (event.entry, event.previous) if event.previous is not None else (event.entry,)
            return [shared(entry) for entry in entries]

        return Change(self._resources[event.resource], event.entry.key, event.deleted, versions)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, self.resources[0])]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        attached = self._attachments.get(cluster.name)
        return None if attached is None else await self._controller.reconcile(attached, key)
