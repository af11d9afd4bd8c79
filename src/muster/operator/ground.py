"""A cluster on which an operator keeps things: a client, caches of what carries the operator's label, and an `Applier` over them.

Everything that an operator makes is labelled with the name of the object it is made for, so one watch per kind shows all of it and
nothing else, and every change wakes the one object it belongs to. Secrets are watched by name, since an operator may read no
others, and so are ConfigMaps that users make. `run` follows the cluster until cancelled; until its caches are complete, and where
the cluster cannot be watched, everything is simply applied again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.applying import Applier
from muster.runtime.cache import Informer, Informers, Snapshot
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS

Wake = Callable[[str], None]


class Ground:
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
        """`wake` is told the label's value of what changed; whose a Secret or ConfigMap is that is watched by name, `owner` says:
        an empty name is nobody's."""
        self.client = informers.client
        self.informers = informers
        self._kinds = {kind: self.informers.of(kind, label_selector=label) for kind in kinds}
        self._secrets, self.config_maps = (
            [self.informers.of(resource, field_selector=f"metadata.name={name}") for name in names]
            for resource, names in ((SECRETS, secrets), (CONFIG_MAPS, config_maps))
        )
        for informer in self._kinds.values():
            _follow(informer, lambda found: found.labels.get(label, ""), wake)
        for informer in (*self._secrets, *self.config_maps):
            _follow(informer, owner or (lambda found: found.labels.get(label, "")), wake)
        self.applier = Applier(self.client, manager, self.find)
        self._chosen: Informer[Snapshot] | None = None

    def follow_namespaces(self, label_selector: str, wake: Callable[[], None]) -> None:
        """Follow namespaces that others have chosen by a label, too."""
        self._chosen = self.informers.of(NAMESPACES, label_selector=label_selector)
        self._chosen.on_change(lambda old, new: wake())

    @property
    def chosen_namespaces(self) -> list[str]:
        """Those that stay, by name."""
        found = self._chosen.cache if self._chosen is not None else ()
        return sorted(one.name for one in found if not one.data["metadata"].get("deletionTimestamp"))

    def find(self, resource: GVR, key: ObjectKey) -> Object | None:
        """What the caches know of an object of ours."""
        informer = self._kinds.get(resource)
        if informer is None or not informer.has_synced:
            return None
        found = informer.cache.get(key)
        return None if found is None else found.data

    def has_secret(self, name: str, namespace: str) -> bool:
        """Whether the caches know of a Secret that is watched by its name."""
        return any(informer.cache.get(ObjectKey(namespace, name)) is not None for informer in self._secrets)

    def config_map(self, name: str, namespace: str) -> Object | None:
        """What the caches know of a ConfigMap that is watched by its name."""
        found = (informer.cache.get(ObjectKey(namespace, name)) for informer in self.config_maps)
        return next((one.data for one in found if one is not None), None)

    def all(self, resource: GVR) -> list[Snapshot]:
        return list(self._kinds[resource].cache)

    @property
    def synced(self) -> bool:
        return self.informers.has_synced

    async def run(self) -> None:
        await self.informers.run()


def _follow(informer: Informer[Snapshot], owner: Callable[[Snapshot], str], wake: Wake) -> None:
    def told(old: Snapshot | None, new: Snapshot | None) -> None:
        for side in (old, new):
            if side is not None and (name := owner(side)):
                wake(name)

    informer.on_change(told)


class Grounds:
    """Clusters of objects whose things are elsewhere, by the object's name; followed for as long as the way there is the same."""

    def __init__(self, make: Callable[[str, KubeClient], Ground]) -> None:
        self._make = make
        self._open: dict[str, tuple[bytes, Ground, asyncio.Task[None]]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def at(self, name: str, way: bytes, connect: Callable[[bytes], KubeClient]) -> Ground:
        """The ground that `way`, a kubeconfig, leads to. Raises what `connect` raises."""
        known = self._open.get(name)
        if known is not None and known[0] == way:
            return known[1]
        client = connect(way)
        await self.leave(name)
        ground = self._make(name, client)
        assert self._tasks is not None, "running"
        self._open[name] = (way, ground, self._tasks.create_task(ground.run(), name=f"ground of {name}"))
        return ground

    async def leave(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is None:
            return
        _, ground, task = known
        task.cancel()
        await asyncio.wait({task})
        await ground.client.close()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                for name in list(self._open):
                    await self.leave(name)
