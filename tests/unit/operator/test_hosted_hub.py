"""A hosted hub: components on one cluster, definitions, accounts and webhook configurations on another."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from muster.api.crds import HUB
from muster.kube import yaml
from muster.machinery.objects import Object
from muster.operator.cluster_manager.components import HOOKS
from muster.operator.names import CLUSTER_MANAGERS, EXTERNAL_HUB_SECRET
from muster.registration.hub.install import ACCOUNT
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, DEPLOYMENTS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.work.hub.install import HOOKS as WORK_HOOKS
from tests.unit.operator.conftest import Cluster, CountingClient
from tests.unit.operator.test_cluster_manager import Hub, operated

CM = "elsewhere"
CONTROLLER, WEBHOOK = f"{CM}-registration-controller", f"{CM}-registration-webhook"
WORK_CONTROLLER, WORK_WEBHOOK = f"{CM}-work-controller", f"{CM}-work-webhook"
PLACEMENT = f"{CM}-placement-controller"
ADDON_MANAGER = f"{CM}-addon-manager-controller"
HOSTED: dict[str, Any] = {
    "deployOption": {
        "mode": "Hosted",
        "hosted": {
            "registrationWebhookConfiguration": {"address": "webhooks.example.com", "port": 8443},
            "workWebhookConfiguration": {"address": "works.example.com"},
        },
    }
}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "hub", "cluster": {"server": "https://hub.example.com:6443"}}],
    "users": [{"name": "admin", "user": {"token": "secret"}}],
    "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "admin"}}],
    "current-context": "hub",
}


class Cuttable(CountingClient):
    cut = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if Cuttable.cut:
            raise Unreachable("hub", "no route to host")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


def way() -> Object:
    content = base64.b64encode(yaml.dump(KUBECONFIG).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": EXTERNAL_HUB_SECRET, "namespace": CM},
        "data": {"kubeconfig": content},
    }


@pytest.fixture
async def hub(here: Cluster, far: Cluster) -> AsyncIterator[Hub]:
    Cuttable.cut = False

    def connect(kubeconfig: bytes) -> KubeClient:
        assert b"hub.example.com" in kubeconfig
        return Cuttable(far.server.client(far.server.clusters[far.name]), "hub")

    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(operated(here, removal_timeout=timedelta(seconds=1), connect=connect))


async def up(hub: Hub) -> None:
    await hub.create(CM, **HOSTED)
    missing = await hub.says("Applied", "False", name=CM)
    assert EXTERNAL_HUB_SECRET in missing["message"]
    await hub.place.until_found(NAMESPACES, CM)
    await hub.place.admin.create(SECRETS, way())
    await hub.says("Applied", "True", name=CM)
    for name in (CONTROLLER, WEBHOOK, WORK_WEBHOOK, PLACEMENT, ADDON_MANAGER):
        await hub.place.set_available(name, CM)
    await hub.says("Progressing", "False", name=CM)


async def test_the_hub_is_made_elsewhere_and_its_components_run_here(hub: Hub, far: Cluster) -> None:
    await up(hub)
    for kind in HUB:
        assert await far.find(CRDS, kind.name)
        assert await hub.place.find(CRDS, kind.name) is None
    hook = await far.until_found(HOOKS[0].resource, HOOKS[0].name)
    assert hook["webhooks"][0]["clientConfig"]["url"].startswith("https://webhooks.example.com:8443/")
    works = await far.until_found(WORK_HOOKS[0].resource, WORK_HOOKS[0].name)
    assert works["webhooks"][0]["clientConfig"]["url"].startswith("https://works.example.com:443/")
    assert await far.find(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE)
    assert await far.find(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE) is None
    pod = (await hub.place.until_found(DEPLOYMENTS, CONTROLLER, CM))["spec"]["template"]["spec"]
    assert "--kubeconfig=/hub-kubeconfig/kubeconfig" in pod["containers"][0]["args"]
    assert pod["automountServiceAccountToken"] is False
    assert {"name": "hub-kubeconfig", "secret": {"secretName": f"{ACCOUNT}-kubeconfig", "defaultMode": 420}} in pod["volumes"]


async def test_components_reach_the_hub_as_their_own_accounts(hub: Hub) -> None:
    await up(hub)
    secret = await hub.place.until_found(SECRETS, f"{ACCOUNT}-kubeconfig", CM)
    found = yaml.load(base64.b64decode(secret["data"]["kubeconfig"]))
    assert found["clusters"][0]["cluster"]["server"] == "https://hub.example.com:6443"
    assert found["users"][0]["user"] == {"tokenFile": "token"}
    claims = base64.urlsafe_b64decode(base64.b64decode(secret["data"]["token"]).split(b".")[1] + b"==")
    assert f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}".encode() in claims


async def test_an_account_made_anew_gets_a_new_way(hub: Hub, far: Cluster) -> None:
    await up(hub)
    before = await hub.place.until_found(SECRETS, f"{ACCOUNT}-kubeconfig", CM)
    await far.admin.delete(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE)

    async def renewed() -> bool:
        found = await hub.place.until_found(SECRETS, f"{ACCOUNT}-kubeconfig", CM)
        return bool(found["data"]["token"] != before["data"]["token"])

    await hub.place.until(renewed, "there is a token of the new account")


async def test_drift_on_the_hub_is_repaired(hub: Hub, far: Cluster) -> None:
    await up(hub)
    await far.until_found(HOOKS[0].resource, HOOKS[0].name)
    await far.admin.delete(HOOKS[0].resource, HOOKS[0].name)
    await far.until_found(HOOKS[0].resource, HOOKS[0].name)


async def test_deleted_it_leaves_nothing_on_either_side(hub: Hub, far: Cluster) -> None:
    await up(hub)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone(CM)
    assert await Hub(far, hub.client).remains() == []
    assert await hub.place.find(NAMESPACES, CM) is None


async def test_the_way_to_the_hub_stays_until_nothing_is_left_there(hub: Hub, far: Cluster) -> None:
    await up(hub)
    held = {"metadata": {"name": "held", "namespace": HUB_NAMESPACE, "finalizers": ["example.com/hold"]}}
    await far.admin.create(CONFIG_MAPS, held)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)

    async def waits_for_it() -> bool:
        return f"Namespace {HUB_NAMESPACE}" in (await hub.says("Deleting", "False", name=CM))["message"]

    await hub.place.until(waits_for_it, "the namespace there is what is left")
    assert await hub.place.find(SECRETS, EXTERNAL_HUB_SECRET, CM)
    await far.admin.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, HUB_NAMESPACE)
    await hub.until_gone(CM)
    assert await Hub(far, hub.client).remains() == []
    assert await hub.place.find(NAMESPACES, CM) is None


async def test_a_hub_that_stays_away_does_not_hold_up_removal_for_ever(hub: Hub) -> None:
    await up(hub)
    Cuttable.cut = True
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone(CM)
    assert await hub.place.find(NAMESPACES, CM) is None


@pytest.mark.parametrize("missing", ["registrationWebhookConfiguration", "workWebhookConfiguration"])
async def test_without_an_address_for_some_of_its_webhooks_it_says_for_which(hub: Hub, missing: str) -> None:
    hosted = {name: one for name, one in HOSTED["deployOption"]["hosted"].items() if name != missing}
    await hub.create(CM, deployOption={"mode": "Hosted", "hosted": hosted})
    failed = await hub.says("Applied", "False", name=CM)
    assert f"spec.deployOption.hosted.{missing}.address" in failed["message"]


async def test_a_component_that_is_wanted_no_longer_loses_its_way_to_the_hub(hub: Hub, far: Cluster) -> None:
    await up(hub)
    gates = [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]
    await hub.change({"workConfiguration": {"featureGates": gates}}, CM)
    secret = await hub.place.until_found(SECRETS, "work-controller-sa-kubeconfig", CM)
    assert secret["data"]["token"]
    await hub.place.until_found(DEPLOYMENTS, WORK_CONTROLLER, CM)
    await hub.change({"workConfiguration": {"featureGates": None}}, CM)
    await hub.place.until_gone(SECRETS, "work-controller-sa-kubeconfig", CM)
    await hub.place.until_gone(DEPLOYMENTS, WORK_CONTROLLER, CM)
    await hub.place.until_gone(SERVICE_ACCOUNTS, "work-controller-sa", CM)
    await far.until_gone(SERVICE_ACCOUNTS, "work-controller-sa", HUB_NAMESPACE)


async def test_a_bad_neighbour_harms_nobody(hub: Hub) -> None:
    await hub.create("broken", deployOption={"mode": "Hosted"})
    await hub.says("Applied", "False", name="broken")
    await up(hub)


async def test_a_hub_does_not_move(hub: Hub, far: Cluster) -> None:
    await up(hub)
    await hub.change({"deployOption": {"mode": "Default", "hosted": None}}, CM)
    failed = await hub.says("Applied", "False", name=CM)
    assert "spec.deployOption.mode" in failed["message"]
    assert await far.find(CRDS, HUB[0].name)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone(CM)
    assert await Hub(far, hub.client).remains() == []
    assert await hub.place.find(NAMESPACES, CM) is None
