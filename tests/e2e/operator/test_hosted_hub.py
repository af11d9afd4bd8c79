"""A hosted hub over the wire: the operator here finds the hub there by its Secret, and its components' way there really works."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR
from muster.operator.cluster_manager.components import HOOKS
from muster.operator.cluster_manager.controller import ClusterManagerOperator
from muster.operator.names import CLUSTER_MANAGERS, EXTERNAL_HUB_SECRET
from muster.operator.options import OperatorOptions
from muster.registration.hub.install import ACCOUNT
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Forbidden
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from tests.e2e.operator.conftest import PATIENT, World, administrator
from tests.support.operating import Observed, running
from tests.support.planes import ControlPlane

pytestmark = pytest.mark.timeout(300)
CM = "hosted-hub"
ADDRESSES = ("registrationWebhookConfiguration", "workWebhookConfiguration")
HOSTED = {"mode": "Hosted", "hosted": {name: {"address": "127.0.0.1", "port": 9} for name in ADDRESSES}}


@pytest.fixture
async def far(ground: ControlPlane) -> AsyncIterator[Observed]:
    admin = administrator(ground.extra("far"))
    yield Observed(admin)
    await admin.close()


async def test_a_hub_is_made_elsewhere_reached_by_its_components_and_taken_away(
    world: World, far: Observed, ground: ControlPlane, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        client = await world.operator(CLUSTER_MANAGER_OPERATOR)
        stack.push_async_callback(client.close)
        operator = ClusterManagerOperator(
            client, OperatorOptions(image="example.com/muster:one", removal_timeout=timedelta(seconds=2))
        )
        await stack.enter_async_context(running(operator.manager.run()))
        world.well.add(CM)
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": CM}}
        await world.admin.create(CLUSTER_MANAGERS, {**document, "spec": {"deployOption": HOSTED}})
        await world.until_condition(CLUSTER_MANAGERS, CM, "Applied", "False", "HubResourceApplyFailed", PATIENT)
        await world.admin.create(SECRETS, way(ground))
        await world.until_condition(CLUSTER_MANAGERS, CM, "Applied", "True", "ClusterManagerApplied", PATIENT)
        await world.until_condition(CLUSTER_MANAGERS, CM, "Progressing", "False", "", PATIENT)
        for hook in HOOKS:
            await far.until_found(hook.resource, hook.name, seconds=PATIENT)
        assert await far.find(DEPLOYMENTS, f"{CM}-registration-controller", HUB_NAMESPACE) is None
        await components_reach_the_hub(world, tmp_path)
        await world.admin.delete(CLUSTER_MANAGERS, CM)
        await world.until_gone(CLUSTER_MANAGERS, CM, seconds=PATIENT)
    assert await world.find(NAMESPACES, CM) is None
    assert await far.find(NAMESPACES, HUB_NAMESPACE) is None
    left = [one["metadata"]["name"] for one in (await far.admin.list(CRDS)).items]
    assert not [name for name in left if name.endswith("cluster.open-cluster-management.io")]


def way(ground: ControlPlane) -> dict[str, object]:
    """The administrator's kubeconfig, with everything in it."""
    cluster = ground.extra("far")
    config = load_kubeconfig(cluster.kubeconfig, environ={})
    ca = base64.b64encode(cluster.ca.read_bytes()).decode()
    text = f"""
apiVersion: v1
kind: Config
clusters: [{{name: hub, cluster: {{server: "{cluster.url}", certificate-authority-data: {ca}}}}}]
users: [{{name: admin, user: {user_of(config.identity)}}}]
contexts: [{{name: hub, context: {{cluster: hub, user: admin}}}}]
current-context: hub
"""
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": EXTERNAL_HUB_SECRET, "namespace": CM},
        "data": data,
    }


def user_of(identity: object) -> str:
    token = getattr(identity, "token", "")
    if token:
        return f'{{token: "{token}"}}'
    parts = {"client-certificate-data": "cert", "client-key-data": "key"}
    material = {name: getattr(identity, attribute) for name, attribute in parts.items()}
    content = {name: value.read_bytes() if isinstance(value, Path) else value for name, value in material.items()}
    return "{" + ", ".join(f"{name}: {base64.b64encode(value).decode()}" for name, value in content.items()) + "}"


async def components_reach_the_hub(world: World, directory: Path) -> None:
    """With the files that their pods mount: as their own accounts, and with those rights only."""
    secret = await world.until_found(SECRETS, f"{ACCOUNT}-kubeconfig", CM)
    for name, content in secret["data"].items():
        (directory / name).write_bytes(base64.b64decode(content))
    client = HttpClient(load_kubeconfig(directory / "kubeconfig", environ={}))
    try:
        assert (await client.list(MANAGED_CLUSTERS)).items == []
        with pytest.raises(Forbidden):
            await client.list(SECRETS)
    finally:
        await client.close()
