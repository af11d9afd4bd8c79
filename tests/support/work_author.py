"""Somebody on the hub who makes, changes and removes works at random, and says in the end whether all is as it was left.

The author always finishes the change that is under way: `wanted` is what the hub was told, and nothing that was only begun. If the
clusters do not become so, the failure says what the hub, the cluster and its agent have of each work, because that cannot be looked
at afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from muster.machinery.objects import Object
from muster.runtime.client import KubeClient
from muster.work.kinds import MANIFEST_WORKS
from tests.support.grpc_crowd import ENTRY, GrpcCrowd, ManagedCluster
from tests.support.working import condition, config_map

PAUSE = 0.05
"""Between two changes of works."""
MOST_WORKS = 6
"""Of one cluster."""
TOLD = ("Applied", "Available")
"""The conditions that a work has when its agent is done with it."""


class WorkAuthor:
    def __init__(self, hub: KubeClient, clusters: list[str], chance: random.Random) -> None:
        self._hub = hub
        self._chance = chance
        self._numbers = itertools.count(1)
        self.wanted: dict[str, dict[str, str]] = {name: {} for name in clusters}
        """Of each cluster: by work, what its ConfigMap says."""
        self.changes = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """One change after the other, beside whatever is done in there."""
        enough = asyncio.Event()
        task = asyncio.create_task(self._act_until(enough))
        try:
            yield
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        enough.set()
        await task

    async def _act_until(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await self._act()
            await asyncio.sleep(PAUSE)

    async def _act(self) -> None:
        cluster = self._chance.choice(list(self.wanted))
        works, fate = self.wanted[cluster], self._chance.random()
        self.changes += 1
        if not works or (fate < 0.3 and len(works) < MOST_WORKS):
            name = f"work-{next(self._numbers)}"
            works[name] = self._content()
            body = {"metadata": {"name": name, "namespace": cluster}, "spec": self._spec(name, works[name])}
            await self._hub.create(MANIFEST_WORKS, {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind, **body})
        elif fate < 0.8:
            name = self._chance.choice(list(works))
            works[name] = self._content()
            await self._hub.patch(MANIFEST_WORKS, name, {"spec": self._spec(name, works[name])}, cluster)
        else:
            name = self._chance.choice(list(works))
            del works[name]
            await self._hub.delete(MANIFEST_WORKS, name, cluster)

    def _content(self) -> str:
        return f"version {next(self._numbers)}"

    def _spec(self, name: str, content: str) -> Object:
        return {"workload": {"manifests": [config_map(name, "default", **{ENTRY: content})]}}

    async def until_right(self, crowd: GrpcCrowd, timeout: float) -> None:
        """Until the hub has just the wanted works and was told that they are applied as they are now, and the clusters have them;
        so many seconds for each cluster."""
        for name in self.wanted:
            cluster = crowd.clusters[name]
            try:
                await crowd.until(partial(self._is_right, cluster), f"{name} to be right", timeout)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{await self._describe(cluster)}") from None

    async def _is_right(self, cluster: ManagedCluster) -> bool:
        wanted, works = self.wanted[cluster.name], await self._works(cluster)
        if works.keys() != wanted.keys() or not all(is_told(work) for work in works.values()):
            return False
        return await cluster.contents() == wanted and await cluster.records() == set(wanted)

    async def _works(self, cluster: ManagedCluster) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in (await self._hub.list(MANIFEST_WORKS, cluster.name)).items}

    async def _describe(self, cluster: ManagedCluster) -> str:
        works = [f"hub: {_described(work)}" for work in (await self._works(cluster)).values()]
        return "\n".join([f"wanted: {self.wanted[cluster.name]}", *works, *await cluster.describe()])


def is_told(work: Object) -> bool:
    generation = work["metadata"]["generation"]
    conditions = [condition(work.get("status") or {}, kind) for kind in TOLD]
    return all(one.get("status") == "True" and one.get("observedGeneration") == generation for one in conditions)


def _described(work: Object) -> str:
    metadata, conditions = work["metadata"], (work.get("status") or {}).get("conditions") or []
    said = [manifest["data"][ENTRY] for manifest in work["spec"]["workload"]["manifests"]]
    told = [f"{one['type']}={one['status']}@{one.get('observedGeneration')} ({one.get('reason')})" for one in conditions]
    state = f"finalizers={metadata.get('finalizers')} deleted={metadata.get('deletionTimestamp')} conditions={told}"
    return f"{metadata['name']} uid={metadata['uid']} generation={metadata['generation']} says={said} {state}"
