"""Our addon manager as it runs, on a server in this process, ends where its decisions end when they are played one after the other.

What `test_differential` compares with upstream is played; this is what it stands for. A step is what changes while no manager
runs: it is started then, as after a restart. `python -m tests.interop.addon.test_running FIRST COUNT` lives any number.
"""

from __future__ import annotations

import asyncio
import copy
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from muster.addon.agent_addon import StaticAddons
from muster.addon.config_objects import WatchedConfigObjects
from muster.addon.framework import Framework
from muster.addon.manager import manager_controllers
from muster.addon.plans import Plans
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.api.crds import HUB, definitions
from muster.api.work.v1 import ManifestWork
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import GVR, Object
from muster.runtime.client import AlreadyExists, NotFound, served
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES
from muster.runtime.controller import ControllerContext, Manager
from muster.runtime.install import apply_all, await_definitions
from tests.interop.addon.played import REPORTS, PlayedAddon, PlayedManager
from tests.interop.addon.verdicts import Facts, facts, of_ours
from tests.support.eventually import eventually
from tests.support.in_process import serving
from tests.support.random_addons import NAME, AddonLife, Step

LIVES = 20
KINDS = (
    ClusterManagementAddOn,
    ManagedClusterAddOn,
    AddOnDeploymentConfig,
    ManagedCluster,
    Placement,
    PlacementDecision,
    ManifestWork,
)
RESOURCES: dict[str, GVR] = {kind.resource.kind: served(kind) for kind in KINDS} | {"ConfigMap": CONFIG_MAPS}
OFFERS, ADDONS, WORKS = (served(kind) for kind in (ClusterManagementAddOn, ManagedClusterAddOn, ManifestWork))


def timeless(life: AddonLife) -> list[Step]:
    """Its steps without what time decides, and with an addon that the hub's manager always manages."""
    steps = copy.deepcopy(life.steps)
    for document in (one for step in steps for one in step["set"]):
        if document["kind"] == "ClusterManagementAddOn":
            document["metadata"].pop("annotations")
            for placement in document["spec"]["installStrategy"].get("placements", ()):
                for terms in placement["rolloutStrategy"].values():
                    if isinstance(terms, dict):
                        terms.pop("progressDeadline", None)
                        terms.pop("minSuccessTime", None)
    return steps


@dataclass
class Stage:
    client: InProcessClient
    agents: dict[str, str] = field(default_factory=dict)

    async def set(self, document: Object) -> None:
        resource, metadata = RESOURCES[document["kind"]], dict(document["metadata"])
        metadata.pop("generation", None)
        if document["kind"] == "ManagedCluster":
            with suppress(AlreadyExists):
                await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        body = {"apiVersion": resource.api_version, **document, "metadata": metadata}
        name, namespace = metadata["name"], metadata.get("namespace", "")
        try:
            found = await self.client.get(resource, name, namespace)
            kept = {key: value for key, value in found.items() if key in ("status",)}
            written = await self.client.update(resource, {**kept, **body, "metadata": {**found["metadata"], **metadata}})
        except NotFound:
            written = await self.client.create(resource, body)
        if document["kind"] == "PlacementDecision":
            await self.client.update(resource, {**written, "status": document["status"]}, subresource="status")

    async def report(self) -> None:
        """As work agents do."""
        for work in (await self.client.list(WORKS)).items:
            said = REPORTS[self.agents.get(work["metadata"]["namespace"], "silent")]
            present = (work.get("status") or {}).get("conditions") or []
            generation = work["metadata"].get("generation", 0)
            if {(one["type"], one["status"], one["observedGeneration"]) for one in present} != {
                (kind, status, generation) for kind, status in said.items()
            }:
                now = "2026-11-16T12:00:00Z"
                common = {"reason": "Played", "message": "", "lastTransitionTime": now, "observedGeneration": generation}
                conditions = [{"type": kind, "status": status, **common} for kind, status in said.items()]
                await self.client.update(WORKS, {**work, "status": {"conditions": conditions}}, subresource="status")

    async def facts(self) -> Facts:
        listed = [(await self.client.list(resource)).items for resource in (OFFERS, ADDONS, WORKS)]
        return facts(*listed)

    async def clear(self) -> None:
        for kind, resource in RESOURCES.items():
            for one in (await self.client.list(resource)).items if kind != "ManagedCluster" else ():
                with suppress(NotFound):
                    await self.client.delete(resource, one["metadata"]["name"], one["metadata"].get("namespace", ""))

    @asynccontextmanager
    async def managed(self) -> AsyncIterator[None]:
        """By what the hub's own manager consists of, with the addon that is played instead of those of templates."""
        context, plans, configs = ControllerContext.of(self.client, "test"), Plans(), WatchedConfigObjects(self.client)
        manager = Manager()
        manager.add("the configurations", configs)
        manager.add_controllers(manager_controllers(context, plans, configs))
        manager.add_controllers(Framework(context, StaticAddons.of(PlayedAddon()), plans, configs).controllers)
        manager.add_context(context)
        task = asyncio.create_task(manager.run())
        try:
            # A pass that waits for configurations is not interrupted.
            await eventually(partial(_planned, plans), "the first plan", 30, 0.01)
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    async with serving("hub") as server:
        admin = UserInfo("admin", groups=("system:masters", "system:authenticated"))
        client = InProcessClient(server.client(server.clusters["hub"], admin))
        await apply_all(client, [(CRDS, document) for document in definitions(HUB)], "test")
        await await_definitions(client, [kind.name for kind in HUB], SYSTEM)
        yield Stage(client)


async def _planned(plans: Plans) -> bool:
    return plans.of(NAME) is not None


async def _agrees(stage: Stage, wanted: Facts, what: str) -> None:
    seen: Facts = {}
    try:
        async with asyncio.timeout(30):
            while seen != wanted:
                await asyncio.sleep(0.02)
                with suppress(Exception):
                    await stage.report()
                seen = await stage.facts()
    except TimeoutError:
        places = [place for place in sorted(seen.keys() | wanted.keys()) if seen.get(place) != wanted.get(place)]
        told = "".join(f"\n  {place}\n    seen   {seen.get(place)}\n    played {wanted.get(place)}" for place in places)
        raise AssertionError(f"{what}:{told}") from None


async def run(seeds: Iterable[int]) -> int:
    """Lives these out and gives how many steps they had."""
    steps = 0
    async with staged() as stage:
        for seed in seeds:
            played = PlayedManager()
            for number, step in enumerate(timeless(AddonLife(seed))):
                await _changed(stage, played, step)
                assert played.settle(step["agents"], parse_time(step["now"]))
                async with stage.managed():
                    await _agrees(stage, of_ours(played), f"seed {seed}, step {number}")
                steps += 1
            await stage.clear()
    return steps


@pytest.mark.timeout(240)
async def test_the_running_manager_ends_where_its_decisions_end() -> None:
    assert await run(range(LIVES)) > 0


async def _changed(stage: Stage, played: PlayedManager, step: dict[str, Any]) -> None:
    stage.agents = step["agents"]
    for gone in step["delete"]:
        played.delete(gone)
        await stage.client.delete(RESOURCES[gone["kind"]], gone["name"], gone["namespace"])
    for document in step["set"]:
        played.set(document)
        await stage.set(document)
    await stage.report()


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    begun = time.monotonic()
    steps = asyncio.run(run(range(first, first + count)))
    print(f"{count} addons, {steps} steps in {time.monotonic() - begun:.0f} s: all equal")


if __name__ == "__main__":
    main()
