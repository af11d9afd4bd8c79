"""Works from the hub's API: those of the managed cluster's namespace, from one informer.

A write applies to the version that was read: if another client wrote in between, it fails with `Conflict`. Events of our own writes
are not reported as changes.
"""

from __future__ import annotations

import hashlib
import random as chance
from collections.abc import Callable

import msgspec

from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import KubeClient, NotFound, patch_object
from muster.runtime.controller import with_finalizer, without_finalizer
from muster.work.agent.echoes import Echoes
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import WORK_FINALIZER


def hash_of(url: str) -> str:
    """Names a hub by its address."""
    return hashlib.sha256(url.encode()).hexdigest()


class KubeWorkSource:
    """`url` is the hub's address as its kubeconfig has it; without one, the client's."""

    def __init__(
        self, client: KubeClient, cluster: str, *, url: str = "", clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._hub_hash = hash_of(url or client.server)
        self._informer: Informer[ManifestWork] = Informer(
            client, MANIFEST_WORKS, cluster, decode=ManifestWork.decode, clock=clock, random=random
        )
        self._latest = MutationCache(self._informer, clock=clock)
        self._echoes = Echoes()
        self._informer.on_change(self._seen)

    @property
    def hub_hash(self) -> str:
        return self._hub_hash

    @property
    def synced(self) -> bool:
        return self._informer.has_synced

    async def until_synced(self) -> None:
        await self._informer.synced()

    def get(self, name: str) -> ManifestWork | None:
        return self._latest.get(ObjectKey(self._cluster, name))

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def names(self) -> list[str]:
        return [key.name for key in self._informer.cache.all_keys()]

    def on_change(self, handler: Callable[[str], None]) -> None:
        self._echoes.on_change(handler)
        for name in self.names():
            handler(name)

    async def hold(self, work: ManifestWork) -> ManifestWork:
        held = await self._write(work, with_finalizer(work, WORK_FINALIZER))
        if held is None:
            raise NotFound(404, "NotFound", f"the work {work.metadata.name} is gone")
        return held

    async def release(self, work: ManifestWork) -> None:
        await self._write(work, without_finalizer(work, WORK_FINALIZER))

    async def report(self, work: ManifestWork, status: ManifestWorkStatus) -> ManifestWork:
        return await self._write(work, msgspec.structs.replace(work, status=status), status=True) or work

    async def run(self) -> None:
        await self._informer.run()

    async def _write(self, work: ManifestWork, wanted: ManifestWork, *, status: bool = False) -> ManifestWork | None:
        """The work as it is then; None if nothing was to be written, or the work is gone."""
        with self._echoes.writing(work.metadata.name) as wrote:
            answer = await patch_object(self._client, work, wanted, status=status)
            if answer is None:
                return None
            wrote(answer["metadata"]["resourceVersion"])
            self._latest.record_write(answer)
        return ManifestWork.decode(answer)

    def _seen(self, old: ManifestWork | None, new: ManifestWork | None) -> None:
        if new is not None:
            self._echoes.came(new.metadata.name, new.metadata.resource_version)
        elif old is not None:
            self._latest.confirm_delete(ObjectKey(self._cluster, old.metadata.name), old.metadata.uid)
            self._echoes.went(old.metadata.name)
