"""A cluster on which an operator manages objects: a client, caches of objects with the operator's label, and an `Applier`.

All objects that an operator creates are labelled with the name of their owner, so one watch per kind covers all of them and nothing
else, and every change requeues exactly that owner. Secrets are watched by name, since an operator may not read others, and so are
ConfigMaps that users create. `run` watches the cluster until cancelled. Until the caches are synced, or if the cluster cannot be
watched, all objects are applied again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.applier import Applier
from muster.runtime.cache import Informer, Informers, Snapshot
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS

Wake = Callable[[str], None]


class TargetCluster:
    def __init__(
        self,
        informers: Informers,
        label: str,
        manager: str,
        kinds: Sequence[GVR],
        wake: Wake,
        *,
        secrets: Sequence[str] = (),
        config_maps: Sequence[str] = (),
        owner: Callable[[Snapshot], str] | None = None,
    ) -> None:
        """`wake` is called with the owner of a changed object, which is its label's value; `owner` returns the owner of a
        Secret or ConfigMap that is watched by name, or an empty name."""
        self.client = informers.client
        self.informers = informers
        self._kinds = {kind: self.informers.of(kind, label_selector=label) for kind in kinds}
        self._secrets, self.config_maps = (
            [self.informers.of(resource, field_selector=f"metadata.name={name}") for name in names]
            for resource, names in ((SECRETS, secrets), (CONFIG_MAPS, config_maps))
        )
        for informer in self._kinds.values():
            _watch(informer, lambda found: found.labels.get(label, ""), wake)
        for informer in (*self._secrets, *self.config_maps):
            _watch(informer, owner or (lambda found: found.labels.get(label, "")), wake)
        self.applier = Applier(self.client, manager, self.find)
        self._chosen: Informer[Snapshot] | None = None

    def follow_namespaces(self, label_selector: str, wake: Callable[[], None]) -> None:
        """Watch the namespaces that have a label, too."""
        self._chosen = self.informers.of(NAMESPACES, label_selector=label_selector)
        self._chosen.on_change(lambda old, new: wake())

    @property
    def chosen_namespaces(self) -> list[str]:
        """The names of those that are not being deleted."""
        found = self._chosen.cache if self._chosen is not None else ()
        return sorted(one.name for one in found if not one.data["metadata"].get("deletionTimestamp"))

    def find(self, resource: GVR, key: ObjectKey) -> Object | None:
        """The cached object, if it is managed by the operator."""
        informer = self._kinds.get(resource)
        if informer is None or not informer.has_synced:
            return None
        found = informer.cache.get(key)
        return None if found is None else found.data

    def has_secret(self, name: str, namespace: str) -> bool:
        """Whether a Secret that is watched by name exists in the cache."""
        return any(informer.cache.get(ObjectKey(namespace, name)) is not None for informer in self._secrets)

    def config_map(self, name: str, namespace: str) -> Object | None:
        """The cached ConfigMap that is watched by name."""
        found = (informer.cache.get(ObjectKey(namespace, name)) for informer in self.config_maps)
        return next((one.data for one in found if one is not None), None)

    def all(self, resource: GVR) -> list[Snapshot]:
        return list(self._kinds[resource].cache)

    @property
    def synced(self) -> bool:
        return self.informers.has_synced

    async def run(self) -> None:
        await self.informers.run()


def _watch(informer: Informer[Snapshot], owner: Callable[[Snapshot], str], wake: Wake) -> None:
    def enqueue_owners(old: Snapshot | None, new: Snapshot | None) -> None:
        for side in (old, new):
            if side is not None and (name := owner(side)):
                wake(name)

    informer.on_change(enqueue_owners)


class RemoteClusters:
    """Target clusters of hosted objects, by the object's name; each is watched until its kubeconfig changes."""

    def __init__(self, make: Callable[[str, KubeClient], TargetCluster]) -> None:
        self._make = make
        self._open: dict[str, tuple[bytes, TargetCluster, asyncio.Task[None]]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def at(self, name: str, kubeconfig: bytes, connect: Callable[[bytes], KubeClient]) -> TargetCluster:
        """The cluster of this kubeconfig. Raises what `connect` raises."""
        known = self._open.get(name)
        if known is not None and known[0] == kubeconfig:
            return known[1]
        client = connect(kubeconfig)
        await self.leave(name)
        cluster = self._make(name, client)
        assert self._tasks is not None, "running"
        self._open[name] = (kubeconfig, cluster, self._tasks.create_task(cluster.run(), name=f"target cluster of {name}"))
        return cluster

    async def leave(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is None:
            return
        _, cluster, task = known
        task.cancel()
        await asyncio.wait({task})
        await cluster.client.close()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                for name in list(self._open):
                    await self.leave(name)
