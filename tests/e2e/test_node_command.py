"""`muster node --workloads` beside an API server that has neither nodes nor controllers of workloads: Deployments live there.

What runs is the Klusterlet operator as its bundle deploys it, so the node gives it its account's token, its address and its probes.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.operator.bundle import KLUSTERLET_OPERATOR
from muster.operator.names import OPERATOR_NAMESPACE
from muster.runtime.client.builtin import DEPLOYMENTS, NODES, PODS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from tests.support.kubectl import kubectl
from tests.support.operating import Observed
from tests.support.planes import ControlPlane, KubePlane, lent
from tests.support.processes import Server, complaints
from tests.support.registration import MUSTER
from tests.support.stage import condition

pytestmark = pytest.mark.timeout(200)
SECONDS = 60.0
NAME = KLUSTERLET_OPERATOR.name


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("rig"))


class Rig(Observed):
    async def deployment(self) -> Object:
        return await self.admin.get(DEPLOYMENTS, NAME, OPERATOR_NAMESPACE)

    async def until_available(self, replicas: int) -> None:
        async def so() -> bool:
            status = (await self.deployment()).get("status") or {}
            return (status.get("availableReplicas", 0), status.get("replicas", 0)) == (replicas, replicas)

        await self.until(so, f"{replicas} replicas are available", SECONDS)

    async def pods(self) -> list[Object]:
        return (await self.admin.list(PODS, OPERATOR_NAMESPACE)).items

    async def until_restarts(self, wanted: list[int]) -> None:
        async def so() -> bool:
            statuses: list[Any] = [(pod["status"].get("containerStatuses") or [{}])[0] for pod in await self.pods()]
            return [one.get("restartCount") for one in statuses if one.get("ready")] == wanted

        await self.until(so, f"restarts are {wanted}", SECONDS)


@asynccontextmanager
async def observed(ground: ControlPlane) -> AsyncIterator[Rig]:
    admin = HttpClient(load_kubeconfig(Path(ground.kubeconfig), environ={}))
    try:
        yield Rig(admin)
    finally:
        await admin.close()


async def test_deployments_come_to_life_survive_node_and_server_and_go(ground: ControlPlane, tmp_path: Path) -> None:
    command: list[str | Path] = [MUSTER, "node", "--kubeconfig", ground.kubeconfig, "--node-name", "rig", "--workloads"]
    node = Server("node", [*command, "--client-ca-file", ground.ca, "--directory", tmp_path / "rig"], tmp_path / "node.log")
    node.start()
    try:
        async with observed(ground) as rig:
            await scenes(rig, node, ground)
    finally:
        node.stop(kill=True)
    assert [line for line in complaints(node.log) if "Unreachable" not in line] == [], "of more than that the server was away"


async def scenes(rig: Rig, node: Server, ground: ControlPlane) -> None:
    await rig.surround(KLUSTERLET_OPERATOR)
    await rig.until_available(1)
    assert (await rig.admin.get(NODES, "rig"))["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("muster")
    if isinstance(ground, KubePlane):
        said = await asyncio.to_thread(kubectl, ground.cluster, "-n", OPERATOR_NAMESPACE, "logs", f"deployment/{NAME}")
        assert "event=" in said.expect(0).out, "the API server reads logs at the node's door"
    await rig.admin.patch(DEPLOYMENTS, NAME, {"spec": {"replicas": 2}}, OPERATOR_NAMESPACE)
    await rig.until_available(2)
    names = {pod["metadata"]["name"] for pod in await rig.pods()}
    await asyncio.to_thread(node.stop, kill=True)
    node.start()
    await rig.until_restarts([1, 1])
    assert {pod["metadata"]["name"] for pod in await rig.pods()} == names
    await asyncio.to_thread(ground.restart, kill=True)
    await rig.admin.patch(DEPLOYMENTS, NAME, {"spec": {"replicas": 3}}, OPERATOR_NAMESPACE)

    async def joined_by_another() -> bool:
        ready = {pod["metadata"]["name"] for pod in await rig.pods() if condition(pod, "Ready") == "True"}
        return bool(ready - names)

    await rig.until(joined_by_another, "a third pod is ready", SECONDS)
    assert names < {pod["metadata"]["name"] for pod in await rig.pods()}, "what runs goes on while the server is away"
    await asyncio.to_thread(node.stop)
    assert not (await rig.deployment())["status"].get("availableReplicas"), "the node says what ended with it"
    await rig.admin.delete(DEPLOYMENTS, NAME, OPERATOR_NAMESPACE)
    node.start()

    async def gone() -> bool:
        return not await rig.pods()

    await rig.until(gone, "the pods are gone", SECONDS)


async def test_a_cluster_with_machines_is_refused_in_words(ground: ControlPlane, tmp_path: Path) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"containerRuntimeVersion": "containerd://2"}}
    async with observed(ground) as rig:
        await rig.admin.create(NODES, {"metadata": {"name": "machine"}})
        await rig.admin.patch(NODES, "machine", {"status": status}, subresource="status")
        try:
            command = [str(MUSTER), "node", "--kubeconfig", str(ground.kubeconfig), "--directory", str(tmp_path / "rig")]
            refused = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
        finally:
            await rig.admin.delete(NODES, "machine")
    assert refused.returncode == 1
    assert "the cluster has nodes that run pods already (machine)" in refused.stderr
    assert "Traceback" not in refused.stderr
