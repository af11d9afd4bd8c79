"""The Klusterlet operator over the wire, on embedded and real API servers: made, changed, broken, killed, taken away, hosted.

Nobody runs the agents here; that the agents that an operator deploys really work is shown by `test_whole_managed_cluster.py`.
"""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api.crds import SPOKE
from muster.machinery.objects import GVR
from muster.operator.bundle import KLUSTERLET_OPERATOR
from muster.operator.klusterlet.controller import KlusterletOperator, KlusterletOptions
from muster.operator.names import ADDON_NAMESPACE, EXTERNAL_MANAGED_SECRET, KLUSTERLETS
from muster.registration.kinds import CLUSTER_CLAIMS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET
from muster.runtime.client import AuthInfo, ClientConfig, dump_kubeconfig, load_kubeconfig
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.client.errors import Forbidden, KubeError, NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.install import ensure_namespace
from tests.e2e.operator.conftest import PATIENT, World, administrator
from tests.e2e.operator.sequences import PROCESS_SEEDS, SEEDS, Mortal, MortalProcess, Operator, play
from tests.support.operating import Observed
from tests.support.planes import Cluster, ControlPlane
from tests.support.sites import beside_kube

pytestmark = pytest.mark.timeout(300)
K, H = "klusterlet", "hosted-klusterlet"
AGENT = f"{K}-registration-agent"
OTHER_NAMESPACE = "open-cluster-management-other"
IMAGES = ("example.com/muster:one", "example.com/muster:two")


def kubeconfig(cluster: Cluster) -> bytes:
    """The administrator's, with everything in it."""
    return dump_kubeconfig(load_kubeconfig(cluster.kubeconfig, environ={})).encode()


class Spoke:
    def __init__(self, world: World) -> None:
        self.world = world
        self.operator: Operator = Mortal(self._make)

    async def _make(self) -> tuple[Awaitable[None], Callable[[], Awaitable[None]]]:
        client = await self.world.operator(KLUSTERLET_OPERATOR)
        return KlusterletOperator(client, KlusterletOptions(image=IMAGES[0])).manager.run(), client.close

    async def create(self, name: str = K, **spec: Any) -> None:
        document = {"apiVersion": KLUSTERLETS.api_version, "kind": "Klusterlet", "metadata": {"name": name}, "spec": spec}
        await self.world.admin.create(KLUSTERLETS, document)

    async def delete(self, name: str = K) -> None:
        await self.world.admin.delete(KLUSTERLETS, name)

    async def says(self, kind: str, status: str, reason: str = "", name: str = K) -> None:
        await self.world.until_condition(KLUSTERLETS, name, kind, status, reason, PATIENT)

    async def at_rest(self) -> None:
        self.world.well |= {AGENT_NAMESPACE, OTHER_NAMESPACE}
        await self.says("Applied", "True", "KlusterletApplied")
        await self.says("Available", "True", "KlusterletAvailable")
        await self.says("RegistrationDesiredDegraded", "False", "DeploymentsFunctional")

    async def gone(self, name: str = K) -> None:
        await self.world.until_gone(KLUSTERLETS, name, seconds=PATIENT)

    async def secret(self, name: str, content: Mapping[str, bytes], namespace: str) -> None:
        await ensure_namespace(self.world.admin, namespace)
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        await self.world.admin.apply(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data}, manager="test")


@pytest.fixture
async def spoke(world: World) -> AsyncIterator[Spoke]:
    async with tended(Spoke(world)) as made:
        yield made


@asynccontextmanager
async def tended(made: Spoke) -> AsyncIterator[Spoke]:
    """With its operator running, and everything gone in the end."""
    await made.operator.start()
    yield made
    await made.operator.start()
    for found in (await made.world.admin.list(KLUSTERLETS)).items:
        name = found["metadata"]["name"]
        try:
            await made.world.admin.delete(KLUSTERLETS, name)
        except NotFound:
            continue
        await made.gone(name)
    await made.operator.kill()


@pytest.fixture
async def far(ground: ControlPlane) -> AsyncIterator[Observed]:
    admin = administrator(ground.extra("far"))
    yield Observed(admin)
    await admin.close()


async def remains(world: Observed) -> list[str]:
    """What has OCM's name, but for what is around the operator."""
    found = []
    for resource in (CRDS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, NAMESPACES):
        for obj in (await world.admin.list(resource)).items:
            name = obj["metadata"]["name"]
            operators = name == "open-cluster-management" or name.endswith(".operator.open-cluster-management.io")
            if "open-cluster-management" in name and not operators:
                found.append(f"{resource}/{name}")
    return found


async def test_agents_are_put_on_a_cluster_and_taken_away(spoke: Spoke) -> None:
    await spoke.create(clusterName="c1")
    await spoke.at_rest()
    for kind in SPOKE:
        assert await spoke.world.find(CRDS, kind.name)
    await spoke.delete()
    await spoke.gone()
    assert await remains(spoke.world) == []


async def test_the_namespace_and_the_definition_may_go_first(spoke: Spoke) -> None:
    await spoke.create()
    await spoke.at_rest()
    await spoke.world.admin.delete(NAMESPACES, AGENT_NAMESPACE)
    definition = "klusterlets.operator.open-cluster-management.io"
    await spoke.world.admin.delete(CRDS, definition)
    await spoke.world.until_gone(CRDS, definition, seconds=PATIENT)
    assert await remains(spoke.world) == []
    await spoke.operator.kill()
    await spoke.operator.start()


async def test_upstreams_sample_is_accepted(spoke: Spoke) -> None:
    images = "quay.io/open-cluster-management"
    await spoke.create(
        deployOption={"mode": "Default"},
        registrationImagePullSpec=f"{images}/registration",
        workImagePullSpec=f"{images}/work",
        imagePullSpec=f"{images}/registration-operator",
        clusterName="cluster1",
        namespace=AGENT_NAMESPACE,
        externalServerURLs=[{"url": "https://localhost"}],
        registrationConfiguration={
            "featureGates": [{"feature": "V1beta1CSRAPICompatibility", "mode": "Disable"}],
            "kubeAPIQPS": 60,
            "bootstrapKubeConfigs": {"type": "None"},
        },
        workConfiguration={"kubeAPIQPS": 60, "statusSyncInterval": "30s"},
    )
    await spoke.at_rest()
    await spoke.says("ValidFeatureGates", "True", "FeatureGatesAllValid")
    found = await spoke.world.admin.get(DEPLOYMENTS, AGENT, AGENT_NAMESPACE)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGES[0]


async def test_the_hub_itself_says_whether_a_connection_works(spoke: Spoke, ground: ControlPlane) -> None:
    far = ground.extra("far")
    nobody = ClientConfig(far.url, far.ca, identity=AuthInfo(token="no.such.token"))
    await spoke.create(clusterName="c1")
    await spoke.says("HubConnectionDegraded", "True", "BootstrapSecretMissing,HubKubeConfigSecretMissing")
    await spoke.secret(BOOTSTRAP_SECRET, {"kubeconfig": dump_kubeconfig(nobody).encode()}, AGENT_NAMESPACE)
    await spoke.says("HubConnectionDegraded", "True", "BootstrapSecretError,HubKubeConfigSecretMissing")
    await spoke.secret(BOOTSTRAP_SECRET, {"kubeconfig": kubeconfig(far)}, AGENT_NAMESPACE)
    await spoke.says("HubConnectionDegraded", "True", "BootstrapSecretFunctional,HubKubeConfigSecretMissing")
    await spoke.secret("hub-kubeconfig-secret", {"kubeconfig": kubeconfig(far)}, AGENT_NAMESPACE)
    await spoke.says("HubConnectionDegraded", "False", "HubConnectionFunctional")


async def test_a_cluster_is_managed_from_elsewhere(spoke: Spoke, far: Observed, ground: ControlPlane, tmp_path: Path) -> None:
    world = spoke.world
    await spoke.create(H, deployOption={"mode": "Hosted"})
    await spoke.says("ReadyToApply", "False", "KlusterletPrepareFailed", H)
    await spoke.secret(EXTERNAL_MANAGED_SECRET, {"kubeconfig": kubeconfig(ground.extra("far"))}, H)
    world.well.add(H)
    await spoke.says("Applied", "True", "KlusterletApplied", H)
    await spoke.says("Available", "True", "KlusterletAvailable", H)
    await agents_reach_their_cluster(world, tmp_path)
    role = f"open-cluster-management:{H}-registration:agent"
    await far.admin.delete(CLUSTER_ROLES, role)
    await far.until_found(CLUSTER_ROLES, role, seconds=PATIENT)
    await spoke.delete(H)
    await spoke.gone(H)
    assert await remains(far) == []
    assert await remains(world) == []
    assert await world.find(NAMESPACES, H) is None


async def agents_reach_their_cluster(world: World, directory: Path) -> None:
    """With the files that their pods mount: as their own account, and with its rights only."""
    secret = await world.until_found(SECRETS, f"{EXTERNAL_MANAGED_SECRET}-registration", H)
    for name, content in secret["data"].items():
        (directory / name).write_bytes(base64.b64decode(content))
    client = HttpClient(load_kubeconfig(directory / "kubeconfig", environ={}))
    try:
        assert (await client.list(CLUSTER_CLAIMS)).items == []
        with pytest.raises(Forbidden):
            await client.list(SECRETS)
    finally:
        await client.close()


async def test_a_managed_cluster_that_is_away_is_left_when_patience_is_over(
    world: World, far: Observed, ground: ControlPlane
) -> None:
    spoke = Spoke(world)

    async def make() -> tuple[Awaitable[None], Callable[[], Awaitable[None]]]:
        client = await world.operator(KLUSTERLET_OPERATOR)
        return KlusterletOperator(
            client, KlusterletOptions(image=IMAGES[0], removal_timeout=timedelta(seconds=1))
        ).manager.run(), client.close

    spoke.operator = Mortal(make)
    await spoke.operator.start()
    try:
        await spoke.secret(EXTERNAL_MANAGED_SECRET, {"kubeconfig": kubeconfig(ground.extra("far"))}, H)
        await spoke.create(H, deployOption={"mode": "Hosted"})
        await spoke.says("Applied", "True", "KlusterletApplied", H)
        config = load_kubeconfig(ground.extra("far").kubeconfig, environ={})
        nowhere = ClientConfig("https://127.0.0.1:9", config.ca, identity=config.identity)
        await spoke.secret(EXTERNAL_MANAGED_SECRET, {"kubeconfig": dump_kubeconfig(nowhere).encode()}, H)
        await spoke.delete(H)
        await spoke.gone(H)
        assert await world.find(NAMESPACES, H) is None
        assert await far.find(NAMESPACES, AGENT_NAMESPACE) is not None
    finally:
        await spoke.operator.kill()
        for name in (AGENT_NAMESPACE, ADDON_NAMESPACE):
            await far.admin.delete(NAMESPACES, name)
        for kind in SPOKE:
            await far.admin.delete(CRDS, kind.name)
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            await far.admin.delete(resource, f"open-cluster-management:{H}-registration:agent")


class Troubles:
    """What may happen to a Klusterlet. None of it may fail: what is not there, or may not be done now, is passed over."""

    def __init__(self, spoke: Spoke) -> None:
        self.spoke = spoke
        self.admin = spoke.world.admin

    async def create(self, chance: random.Random) -> None:
        await self._try(self.spoke.create())

    async def delete(self, chance: random.Random) -> None:
        await self._try(self.spoke.delete())

    async def change_image(self, chance: random.Random) -> None:
        await self._change({"registrationImagePullSpec": chance.choice(IMAGES)})

    async def change_mode(self, chance: random.Random) -> None:
        await self._change({"deployOption": {"mode": chance.choice(["Default", "Singleton"])}})

    async def move(self, chance: random.Random) -> None:
        await self._change({"namespace": chance.choice([AGENT_NAMESPACE, OTHER_NAMESPACE])})

    async def spoil(self, chance: random.Random) -> None:
        await self._change({"registrationConfiguration": {"registrationDriver": {"authType": "awsirsa"}}})

    async def mend(self, chance: random.Random) -> None:
        await self._change({"registrationConfiguration": None})

    async def kill(self, chance: random.Random) -> None:
        await self.spoke.operator.kill()

    async def start(self, chance: random.Random) -> None:
        await self.spoke.operator.start()

    async def fall_ill(self, chance: random.Random) -> None:
        self.spoke.world.well.clear()
        for namespace in (AGENT_NAMESPACE, OTHER_NAMESPACE):
            for name in (AGENT, f"{K}-agent"):
                if await self.spoke.world.find(DEPLOYMENTS, name, namespace):
                    await self._try(self.spoke.world.set_available(name, namespace, available=False))

    async def recover(self, chance: random.Random) -> None:
        self.spoke.world.well |= {AGENT_NAMESPACE, OTHER_NAMESPACE}

    async def rival(self, chance: random.Random) -> None:
        """Another one that wants the same namespace, or one of its own."""
        spec = chance.choice([{}, {"namespace": "open-cluster-management-rival"}])
        await self._try(self.spoke.create("rival", **spec))

    async def no_rival(self, chance: random.Random) -> None:
        await self._try(self.spoke.delete("rival"))

    async def bootstrap(self, chance: random.Random) -> None:
        await self._try(self.spoke.secret(BOOTSTRAP_SECRET, {"kubeconfig": b"?"}, AGENT_NAMESPACE))

    async def break_something(self, chance: random.Random) -> None:
        things: list[tuple[GVR, str, str]] = [
            (DEPLOYMENTS, AGENT, AGENT_NAMESPACE),
            (SERVICE_ACCOUNTS, f"{K}-registration-sa", AGENT_NAMESPACE),
            (ROLES, f"open-cluster-management:management:{K}-registration:agent", AGENT_NAMESPACE),
            (CLUSTER_ROLES, f"open-cluster-management:{K}-registration:agent", ""),
            (CLUSTER_ROLE_BINDINGS, f"open-cluster-management:{K}-registration:agent", ""),
            (NAMESPACES, AGENT_NAMESPACE, ""),
            (NAMESPACES, ADDON_NAMESPACE, ""),
            (CRDS, chance.choice(SPOKE).name, ""),
        ]
        resource, name, namespace = chance.choice(things)
        await self._try(self.admin.delete(resource, name, namespace))

    async def _change(self, spec: dict[str, Any]) -> None:
        await self._try(self.admin.patch(KLUSTERLETS, K, {"spec": spec}))

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
            "another mode": self.change_mode,
            "another namespace": self.move,
            "bad spec": self.spoil,
            "good spec": self.mend,
            "kill": self.kill,
            "start": self.start,
            "pods die": self.fall_ill,
            "pods live": self.recover,
            "a rival": self.rival,
            "no rival": self.no_rival,
            "a secret": self.bootstrap,
            "break": self.break_something,
        }


async def leaves_nothing(troubles: Troubles) -> None:
    spoke = troubles.spoke
    await spoke.gone()
    await spoke.gone("rival")
    # Namespaces that nobody labelled, because a Secret was put there when no Klusterlet wanted them, are the test's own.
    await troubles._try(spoke.world.admin.delete(NAMESPACES, AGENT_NAMESPACE))
    await spoke.world.until_gone(NAMESPACES, AGENT_NAMESPACE, seconds=PATIENT)
    assert await remains(spoke.world) == []


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_it_ends_as_it_should_with_nothing_left_behind(spoke: Spoke, seed: int) -> None:
    troubles = Troubles(spoke)
    chance = random.Random(seed)

    async def end() -> None:
        await spoke.operator.start()
        if chance.random() < 0.7:
            await troubles.no_rival(chance)
            await spoke.gone("rival")
            found = await spoke.world.find(KLUSTERLETS, K)
            if found is not None and found["metadata"].get("deletionTimestamp"):
                await spoke.gone()
            await troubles.create(chance)
            await troubles.mend(chance)
            await spoke.at_rest()
            for kind in SPOKE:
                await spoke.world.until_found(CRDS, kind.name, seconds=PATIENT)
        if chance.random() < 0.5:
            await troubles.fall_ill(chance)
        for name in chance.sample([K, "rival"], 2):
            await troubles._try(spoke.delete(name))
        await leaves_nothing(troubles)

    await play(seed, troubles.steps(), end, weights={"create": 4, "start": 3}, count=10)


@beside_kube
@pytest.mark.parametrize("seed", PROCESS_SEEDS)
async def test_a_process_that_is_killed_in_the_middle_goes_on_where_it_was(world: World, tmp_path: Path, seed: int) -> None:
    spoke = Spoke(world)
    operator = MortalProcess(lambda: world.operator_command(KLUSTERLET_OPERATOR, IMAGES[0], tmp_path), tmp_path / "operator.log")
    spoke.operator = operator
    troubles, chance = Troubles(spoke), random.Random(seed)

    async def end() -> None:
        await troubles.no_rival(chance)
        await operator.die_at_work(chance)
        await spoke.gone("rival")
        found = await world.find(KLUSTERLETS, K)
        if found is not None and found["metadata"].get("deletionTimestamp"):
            await spoke.gone()
        await troubles.create(chance)
        await troubles.mend(chance)
        await operator.die_at_work(chance)
        await spoke.at_rest()
        await troubles.delete(chance)
        await operator.die_at_work(chance)
        await leaves_nothing(troubles)
        assert operator.killed >= 3
        assert operator.complaints() == []

    async with tended(spoke):
        await play(seed, troubles.steps(), end, weights={"create": 4, "start": 3, "kill": 3}, count=10)
