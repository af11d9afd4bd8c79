"""The ClusterManager operator over the wire, on embedded and real API servers: made, changed, broken, killed, taken away.

Nobody runs the hub's pods here; that the hub that an operator deploys really works is shown by `test_whole_hub.py`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api.crds import HUB
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, bundle
from muster.operator.cluster_manager.components import HOOKS, WEBHOOK_SECRETS
from muster.operator.cluster_manager.controller import ClusterManagerOperator
from muster.operator.cluster_manager.grpc_certificates import GRPC_SECRETS, SERVING_SECRET
from muster.operator.names import CLUSTER_MANAGERS
from muster.operator.options import OperatorOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import COLLECTION_CLEANUP, HUB_NAMESPACE, RESOURCE_CLEANUP
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, DEPLOYMENTS, NAMESPACES, SECRETS, SERVICES
from muster.runtime.client.errors import KubeError, NotFound
from tests.e2e.operator.conftest import PATIENT, World
from tests.e2e.operator.sequences import PROCESS_SEEDS, SEEDS, Mortal, MortalProcess, Operator, play
from tests.support.sites import beside_kube

pytestmark = pytest.mark.timeout(300)
CM = "cluster-manager"
CONTROLLER, WEBHOOK = f"{CM}-registration-controller", f"{CM}-registration-webhook"
WORK_CONTROLLER, WORK_WEBHOOK = f"{CM}-work-controller", f"{CM}-work-webhook"
PLACEMENT = f"{CM}-placement-controller"
ADDON_MANAGER = f"{CM}-addon-manager-controller"
GRPC_SERVER = f"{CM}-grpc-server"
AROUND = {(resource, document["metadata"]["name"]) for resource, document in bundle(CLUSTER_MANAGER_OPERATOR)}
IMAGES = ("example.com/muster:one", "example.com/muster:two")


class Hub:
    def __init__(self, world: World) -> None:
        self.world = world
        self.operator: Operator = Mortal(self._make)

    async def _make(self) -> tuple[Awaitable[None], Callable[[], Awaitable[None]]]:
        client = await self.world.operator(CLUSTER_MANAGER_OPERATOR)
        options = OperatorOptions(image=IMAGES[0], removal_timeout=timedelta(seconds=2))
        return ClusterManagerOperator(client, options).manager.run(), client.close

    async def create(self, **spec: Any) -> None:
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": CM}, "spec": spec}
        await self.world.admin.create(CLUSTER_MANAGERS, document)

    async def says(self, kind: str, status: str, reason: str = "") -> None:
        await self.world.until_condition(CLUSTER_MANAGERS, CM, kind, status, reason, PATIENT)

    async def at_rest(self) -> None:
        self.world.well.add(HUB_NAMESPACE)
        await self.says("Applied", "True", "ClusterManagerApplied")
        await self.says("Progressing", "False", "ClusterManagerUpToDate")
        for hook in HOOKS:
            await self.world.until_found(hook.resource, hook.name, seconds=PATIENT)

    async def gone(self) -> None:
        await self.world.until_gone(CLUSTER_MANAGERS, CM, seconds=PATIENT)

    async def remains(self) -> list[str]:
        """What has OCM's name, but for what is around the operator."""
        found = []
        for resource in (CRDS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *{hook.resource for hook in HOOKS}):
            for obj in (await self.world.admin.list(resource)).items:
                name = obj["metadata"]["name"]
                around = ".operator.open-cluster-management" in name or (resource, name) in AROUND
                if "open-cluster-management" in name and not around:
                    found.append(f"{resource}/{name}")
        if await self.world.find(NAMESPACES, HUB_NAMESPACE):
            found.append(f"namespaces/{HUB_NAMESPACE}")
        return found


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    async with tended(Hub(world)) as made:
        yield made


@asynccontextmanager
async def tended(made: Hub) -> AsyncIterator[Hub]:
    """With its operator running, and gone in the end."""
    await made.operator.start()
    yield made
    await made.operator.start()
    try:
        await made.world.admin.delete(CLUSTER_MANAGERS, CM)
        await made.gone()
    except NotFound:
        pass
    await made.operator.kill()


async def test_a_hub_is_made_and_taken_away(hub: Hub) -> None:
    world = hub.world
    await hub.create()
    await hub.at_rest()
    for kind in HUB:
        definition = await world.admin.get(CRDS, kind.name)
        assert ("webhook" in (definition["spec"].get("conversion") or {})) == kind.converted
    status = (await world.admin.get(CLUSTER_MANAGERS, CM))["status"]
    assert {one["name"] for one in status["generations"]} == {CONTROLLER, WEBHOOK, WORK_WEBHOOK, PLACEMENT, ADDON_MANAGER}
    await world.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.gone()
    assert await hub.remains() == []


async def test_upstreams_sample_is_accepted(hub: Hub) -> None:
    images = "quay.io/open-cluster-management"
    await hub.create(
        registrationImagePullSpec=f"{images}/registration:latest",
        workImagePullSpec=f"{images}/work:latest",
        placementImagePullSpec=f"{images}/placement:latest",
        addOnManagerImagePullSpec=f"{images}/addon-manager:latest",
        deployOption={"mode": "Default"},
        registrationConfiguration={"featureGates": [{"feature": "DefaultClusterSet", "mode": "Enable"}]},
        workConfiguration={"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}], "workDriver": "kube"},
    )
    await hub.at_rest()
    await hub.says("ValidFeatureGates", "True", "FeatureGatesAllValid")
    for name in (CONTROLLER, WORK_CONTROLLER, WORK_WEBHOOK):
        found = await hub.world.admin.get(DEPLOYMENTS, name, HUB_NAMESPACE)
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGES[0]


async def test_clusters_that_nobody_finalizes_do_not_hold_a_removal_up(hub: Hub) -> None:
    world = hub.world
    world.well.clear()
    await hub.create()
    await hub.says("Applied", "True")
    await add_cluster(world, "left-behind")
    await world.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.gone()
    assert await hub.remains() == []


async def test_the_namespace_and_the_definition_may_go_first(hub: Hub) -> None:
    world = hub.world
    await hub.create()
    await hub.at_rest()
    await world.admin.delete(NAMESPACES, HUB_NAMESPACE)
    definition = "clustermanagers.operator.open-cluster-management.io"
    await world.admin.delete(CRDS, definition)
    await world.until_gone(CRDS, definition, seconds=PATIENT)
    assert await hub.remains() == []


async def add_cluster(world: World, name: str) -> None:
    document = {
        "apiVersion": MANAGED_CLUSTERS.api_version,
        "kind": MANAGED_CLUSTERS.kind,
        "metadata": {"name": name, "finalizers": [RESOURCE_CLEANUP, COLLECTION_CLEANUP]},
        "spec": {"hubAcceptsClient": False},
    }
    await world.admin.create(MANAGED_CLUSTERS, document)


class Troubles:
    """What may happen to a hub. None of it may fail: what is not there, or may not be done now, is passed over."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.admin = hub.world.admin

    async def create(self, chance: random.Random) -> None:
        await self._try(self.hub.create())

    async def delete(self, chance: random.Random) -> None:
        await self._try(self.admin.delete(CLUSTER_MANAGERS, CM))

    async def change_image(self, chance: random.Random) -> None:
        await self._change({"registrationImagePullSpec": chance.choice(IMAGES)})

    async def change_gates(self, chance: random.Random) -> None:
        mode = chance.choice(["Enable", "Disable"])
        await self._change({"registrationConfiguration": {"featureGates": [{"feature": "DefaultClusterSet", "mode": mode}]}})
        mode = chance.choice(["Enable", "Disable"])
        await self._change({"workConfiguration": {"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": mode}]}})

    async def change_drivers(self, chance: random.Random) -> None:
        names = chance.choice((("csr",), ("csr", "grpc"), ("grpc",)))
        await self._change({"registrationConfiguration": {"registrationDrivers": [{"authType": name} for name in names]}})
        kind, host = chance.choice((("hostname", "a.example.com"), ("hostname", "b.example.com"), ("loadBalancer", "")))
        exposure = {"type": kind, **({kind: {"host": host}} if host else {})}
        await self._change({"serverConfiguration": {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}})

    async def spoil(self, chance: random.Random) -> None:
        await self._change({"registrationConfiguration": {"registrationDrivers": [{"authType": "awsirsa"}]}})

    async def mend(self, chance: random.Random) -> None:
        await self._change({"registrationConfiguration": None})

    async def kill(self, chance: random.Random) -> None:
        await self.hub.operator.kill()

    async def start(self, chance: random.Random) -> None:
        await self.hub.operator.start()

    async def fall_ill(self, chance: random.Random) -> None:
        """The hub's pods are gone."""
        self.hub.world.well.discard(HUB_NAMESPACE)
        for name in (CONTROLLER, WEBHOOK, WORK_CONTROLLER, WORK_WEBHOOK, PLACEMENT, ADDON_MANAGER, GRPC_SERVER):
            if await self.hub.world.find(DEPLOYMENTS, name, HUB_NAMESPACE):
                await self._try(self.hub.world.set_available(name, HUB_NAMESPACE, available=False))

    async def recover(self, chance: random.Random) -> None:
        self.hub.world.well.add(HUB_NAMESPACE)

    async def join(self, chance: random.Random) -> None:
        await self._try(add_cluster(self.hub.world, f"cluster-{chance.randrange(1000)}"))

    async def break_something(self, chance: random.Random) -> None:
        kind, hook = chance.choice(HUB), chance.choice(HOOKS)
        resource, name, namespace = chance.choice(
            [
                (DEPLOYMENTS, chance.choice((CONTROLLER, WORK_WEBHOOK)), HUB_NAMESPACE),
                (SECRETS, chance.choice((*WEBHOOK_SECRETS, *GRPC_SECRETS)), HUB_NAMESPACE),
                (CLUSTER_ROLES, f"open-cluster-management:{CM}-registration:controller", ""),
                (hook.resource, hook.name, ""),
                (NAMESPACES, HUB_NAMESPACE, ""),
                (CRDS, kind.name, ""),
            ]
        )
        await self._try(self.admin.delete(resource, name, namespace))

    async def _change(self, spec: dict[str, Any]) -> None:
        await self._try(self.admin.patch(CLUSTER_MANAGERS, CM, {"spec": spec}))

    async def _try(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except KubeError:
            return

    def steps(self) -> dict[str, Callable[[random.Random], Awaitable[None]]]:
        return {
            "create": self.create,
            "delete": self.delete,
            "another image": self.change_image,
            "other gates": self.change_gates,
            "other drivers": self.change_drivers,
            "bad spec": self.spoil,
            "good spec": self.mend,
            "kill": self.kill,
            "start": self.start,
            "pods die": self.fall_ill,
            "pods live": self.recover,
            "a cluster": self.join,
            "break": self.break_something,
        }


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_it_ends_as_it_should_with_nothing_left_behind(hub: Hub, seed: int) -> None:
    troubles = Troubles(hub)
    chance = random.Random(seed)

    async def end() -> None:
        await hub.operator.start()
        if chance.random() < 0.7:
            found = await hub.world.find(CLUSTER_MANAGERS, CM)
            if found is not None and found["metadata"].get("deletionTimestamp"):
                await hub.gone()
            await troubles.create(chance)
            await troubles.mend(chance)
            await hub.at_rest()
            for kind in HUB:
                await hub.world.until_found(CRDS, kind.name)
            for resource, name in ((DEPLOYMENTS, GRPC_SERVER), (SERVICES, GRPC_SERVER), (SECRETS, SERVING_SECRET)):
                await hub.world.until_gone(resource, name, HUB_NAMESPACE, seconds=PATIENT)
        if chance.random() < 0.5:
            await troubles.fall_ill(chance)
        await troubles.delete(chance)
        await hub.gone()
        assert await hub.remains() == []

    await play(seed, troubles.steps(), end, weights={"create": 3, "start": 3})


@beside_kube
@pytest.mark.parametrize("seed", PROCESS_SEEDS)
async def test_a_process_that_is_killed_in_the_middle_goes_on_where_it_was(world: World, tmp_path: Path, seed: int) -> None:
    hub = Hub(world)
    operator = MortalProcess(
        lambda: world.operator_command(CLUSTER_MANAGER_OPERATOR, IMAGES[0], tmp_path), tmp_path / "operator.log"
    )
    hub.operator = operator
    troubles, chance = Troubles(hub), random.Random(seed)
    # Clusters that nobody finalizes are waited for longer than a test has time.
    steps = {name: step for name, step in troubles.steps().items() if name != "a cluster"}

    async def end() -> None:
        found = await world.find(CLUSTER_MANAGERS, CM)
        if found is not None and found["metadata"].get("deletionTimestamp"):
            await operator.die_at_work(chance)
            await hub.gone()
        await troubles.create(chance)
        await troubles.mend(chance)
        await operator.die_at_work(chance)
        await hub.at_rest()
        await troubles.delete(chance)
        await operator.die_at_work(chance)
        await hub.gone()
        assert await hub.remains() == []
        assert operator.killed >= 2
        assert operator.complaints() == []

    async with tended(hub):
        await play(seed, steps, end, weights={"create": 3, "start": 3, "kill": 3})
