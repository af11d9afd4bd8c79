"""Clusters that are reached by a client, over HTTP or otherwise: informers cache their state and drive their controllers.

A cache is always a little behind. Writes through `Followed.noting` are therefore recorded with the server's answer, and reads
return whichever version is newer (as client-go's MutationCache), so a controller sees its own writes at once, as with a local
store. Writes of other clients come with the watch.
"""

from __future__ import annotations

import random as chance
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from muster.fleet.attached import Attached, Change, Controller
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.runtime.cache import Informers, MutationCache, Snapshot
from muster.runtime.client import DelegatingClient, KubeClient, Send, Write
from muster.runtime.controller import Controller as Queued

LONGEST_DELAY = 60.0


class Followed:
    """The view. `run` keeps it up to date until cancelled; before `synced`, a missing object may exist."""

    def __init__(
        self, client: KubeClient, resources: Iterable[GVR], *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._informers = Informers(client, clock=clock, random=random)
        self._latest: dict[GVR, MutationCache[Snapshot]] = {}
        for resource in resources:
            informer = self._informers.of(resource)
            latest = self._latest[resource] = MutationCache(informer, clock=clock)
            informer.on_change(partial(_vanish, latest))

    async def run(self) -> None:
        await self._informers.run()

    async def synced(self) -> None:
        await self._informers.synced()

    def read(self, resource: GVR, key: str) -> Object | None:
        namespace, _, name = key.rpartition("/")
        found = self._latest[resource].snapshot(ObjectKey(namespace, name))
        return None if found is None else found.data

    def scan(self, resource: GVR, namespace: str = "") -> Iterable[Object]:
        return [snapshot.data for snapshot in self._latest[resource].snapshots(namespace)]

    def noting(self, client: KubeClient) -> KubeClient:
        """The client, whose writes are visible here at once."""
        return _Noting(client, self._latest)

    def queued(
        self, controller: Controller, attached: Attached, *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> Queued[str]:
        """The work queue of a controller of the fleet for this view."""
        reconcile = partial(controller.reconcile, attached)
        made: Queued[str] = Queued(controller.name, reconcile, timeout=None, max_delay=LONGEST_DELAY, clock=clock, random=random)
        for resource in controller.resources:
            informer = self._informers.of(resource)
            made.depend(informer)
            informer.on_change(partial(_enqueue, made, controller, attached, resource))
        return made


def _vanish(latest: MutationCache[Snapshot], old: Snapshot | None, new: Snapshot | None) -> None:
    if old is not None and (new is None or new.uid != old.uid):
        latest.confirm_delete(old.key, old.uid)


def _enqueue(
    queued: Queued[str], controller: Controller, attached: Attached, resource: GVR, old: Snapshot | None, new: Snapshot | None
) -> None:
    sides: Sequence[Snapshot] = [side for side in (new, old) if side is not None]
    change = Change(resource, str(sides[0].key), new is None, lambda: [side.data for side in sides])
    for key in controller.keys(attached, change):
        queued.enqueue(key)


class _Noting(DelegatingClient):
    """Delegates all calls, and records the server's answer to writes of watched objects."""

    def __init__(self, client: KubeClient, latest: Mapping[GVR, MutationCache[Snapshot]]) -> None:
        super().__init__(client)
        self._latest = latest

    def as_user(self, name: str) -> _Noting:
        return _Noting(self._inner.as_user(name), self._latest)

    async def write(self, write: Write, send: Send, dry_run: bool) -> Object:
        answer = await send(dry_run)
        target = write.target
        latest = self._latest.get(target.resource)
        if latest is None:
            return answer
        if write.verb == "delete":
            gone = (answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid")
            if gone and target.name:
                latest.record_delete(ObjectKey(target.namespace, target.name), gone, answer)
        elif (answer.get("apiVersion"), answer.get("kind")) == (target.resource.api_version, target.resource.kind):
            # A subresource may answer with another kind, such as a token.
            latest.record_write(answer)
        return answer
