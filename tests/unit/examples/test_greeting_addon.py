"""The addon of docs/addons.md: what its readers copy says the right things of a cluster, and its agent answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from examples.greeting_addon import NAMESPACE, Greeting, agents_role, answer, definition

from muster.addon.agent_addon import AddonError, AgentAddon, ConfigObject, Installation, KubeClient, StaticAddons
from muster.api.addon.v1alpha1 import GROUP, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import HUB
from muster.fleet.in_process import InProcessClient, embedded_cluster
from muster.runtime.client import served
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES

SOURCE = Path(__file__).parents[3] / "examples" / "greeting_addon.py"


def installation(*variables: tuple[str, str]) -> Installation:
    cluster = ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": {}})
    addon = ManagedClusterAddOn.decode({"metadata": {"name": "greeting", "namespace": "c1"}, "spec": {}})
    listed = [{"name": name, "value": value} for name, value in variables]
    config = ConfigObject(GROUP, "addondeploymentconfigs", {"spec": {"customizedVariables": listed}}, "hash")
    return Installation(cluster, addon, (config,) if variables else ())


def greeted(*variables: tuple[str, str]) -> str:
    text: str = Greeting().agent(installation(*variables)).manifests[1]["data"]["text"]
    return text


def test_it_is_an_addon() -> None:
    addon: AgentAddon = Greeting()
    assert StaticAddons.of(addon).find("greeting") is addon


def test_every_cluster_is_greeted_by_its_name_or_as_its_configuration_says() -> None:
    assert greeted() == "Hello, c1!"
    assert greeted(("WHOM", "world")) == "Hello, world!"
    with pytest.raises(AddonError, match="WHOM"):
        greeted(("WHOM", "a\nb"))


def test_its_agent_gets_one_credential_with_one_role_in_a_labelled_namespace() -> None:
    agent = Greeting().agent(installation())
    assert agent == Greeting().agent(installation()), "the same cluster gives the same agent"
    assert agent.manifests[0]["metadata"]["labels"] == {"addon.open-cluster-management.io/namespace": "true"}
    (credential,) = agent.registrations
    assert isinstance(credential, KubeClient)
    (permission,) = credential.permissions
    assert (permission.kind, permission.role, permission.whole_addon) == ("ClusterRole", agents_role()["metadata"]["name"], False)
    assert agent.namespace == NAMESPACE


@pytest.fixture
async def client() -> AsyncIterator[InProcessClient]:
    async with embedded_cluster([kind for kind in HUB if kind.resource.kind == "ClusterManagementAddOn"]) as cluster:
        yield cluster


async def test_what_it_brings_is_taken_by_a_hub_and_its_agent_answers(client: InProcessClient) -> None:
    await client.apply(served(ClusterManagementAddOn), definition(), manager="test")
    await client.apply(CLUSTER_ROLES, agents_role(), manager="test")
    for name in (NAMESPACE, "c1"):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(CONFIG_MAPS, {"metadata": {"name": "greeting", "namespace": NAMESPACE}, "data": {"text": "Hello, c1!"}})
    assert await answer(client, client, "c1") == "Hello, c1!"
    assert (await client.get(CONFIG_MAPS, "greeting-answer", "c1"))["data"] == {"text": "c1 heard: Hello, c1!"}


def test_it_stays_small() -> None:
    assert len(SOURCE.read_text().splitlines()) < 150
