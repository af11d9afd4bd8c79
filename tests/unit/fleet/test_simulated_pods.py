"""Deployments of simulated clusters: nobody runs their pods, and they are ready when a kubelet could have started them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.fleet.simulated_pods import SimulatedPods
from muster.runtime.client.builtin import DEPLOYMENTS, SECRETS
from tests.support.eventually import eventually
from tests.support.in_process import serving

MOUNTED: dict[str, Any] = {"volumes": [{"name": "hub", "secret": {"secretName": "credential"}}]}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("a") as server:
        pods = SimulatedPods.controller_manager(server)
        pods.start()
        yield server
        await pods.stop()


@pytest.fixture
def client(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["a"]))


async def deploy(client: InProcessClient, replicas: int = 1, **pod: Any) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}], **pod}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "x", "namespace": "default"}
    await client.create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


async def ready(client: InProcessClient) -> int:
    status = (await client.get(DEPLOYMENTS, "x", "default")).get("status") or {}
    return int(status.get("readyReplicas") or 0) if status.get("observedGeneration") else 0


async def test_a_deployment_without_secrets_is_ready_at_once(client: InProcessClient) -> None:
    await deploy(client, 3)

    async def all_ready() -> bool:
        return await ready(client) == 3

    await eventually(all_ready, "three replicas")


async def test_a_deployment_waits_for_the_secrets_that_it_mounts(client: InProcessClient) -> None:
    await deploy(client, **MOUNTED)
    assert await ready(client) == 0
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credential", "namespace": "default"}}
    await client.create(SECRETS, secret)
    await eventually(lambda: ready(client), "the replica")
