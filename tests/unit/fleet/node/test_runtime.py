"""The runtime as a whole: several clusters, coming and going, and pods that do harm."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.fleet.node import NodeRuntime
from muster.fleet.node import addresses as addresses_module
from muster.fleet.node import pod as pod_module
from muster.fleet.node.addresses import LoopbackAddresses
from muster.fleet.node.environment import resolve_environ
from muster.fleet.node.podspec import Pod
from muster.fleet.node.scheduler_filters import obstacle
from muster.runtime.client.builtin import LEASES
from tests.support.fake_clock import FakeClock
from tests.support.stage import IMAGE, PODS, Stage, condition, let_pods_run, open_stage, pod_manifest
from tests.unit.fleet.node.conftest import PROGRAMS


async def test_each_cluster_has_a_node_of_its_own_and_only_attached_ones_run_pods(tmp_path: Path) -> None:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("a", "b", "c")))
    await server.start()
    runtime = NodeRuntime(server, PROGRAMS, tmp_path / "nodes", grace=1)
    runtime.attach("a")
    running = asyncio.create_task(runtime.run())
    manifest = pod_manifest("web", {"name": "main", "image": IMAGE, "args": ["serve"]})
    for cluster in server.clusters.values():
        client = InProcessClient(server.client(cluster))
        await let_pods_run(client)
        await client.create(PODS, manifest, "default")

    async def ready(name: str) -> None:
        async with asyncio.timeout(10):
            while condition(server.clusters[name].read("/pods", "default/web") or {}, "Ready") != "True":  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    await ready("a")
    runtime.attach("b")
    await ready("b")
    assert [cluster.node is not None for cluster in server.clusters.values()] == [True, True, False]
    assert not (server.clusters["c"].read("/pods", "default/web") or {})["spec"].get("nodeName")
    addresses = {(server.clusters[name].read("/pods", "default/web") or {})["status"]["podIP"] for name in "ab"}
    assert len(addresses) == 2
    await runtime.detach("a")
    assert server.clusters["a"].node is None
    assert condition(server.clusters["a"].read("/pods", "default/web") or {}, "Ready") == "False"
    assert condition(server.clusters["b"].read("/pods", "default/web") or {}, "Ready") == "True"
    running.cancel()
    await asyncio.wait({running})
    await server.stop(grace=0.1)


async def test_the_heartbeat_is_a_lease_and_the_node_is_left_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_stage(PROGRAMS, tmp_path, clock) as stage:
        lease = await stage.until(
            lambda: (
                stage.cluster.read("/nodes", "default-node")
                and stage.cluster.read("coordination.k8s.io/leases", "kube-node-lease/default-node")
            ),
            "there is a lease",
        )
        node = stage.cluster.read("/nodes", "default-node") or {}
        for _ in range(3):
            await clock.advance(10)
        later = await stage.client.get(LEASES, "default-node", "kube-node-lease")
        assert later["spec"]["renewTime"] > lease["spec"]["renewTime"]
        assert (stage.cluster.read("/nodes", "default-node") or {})["metadata"]["resourceVersion"] == node["metadata"][
            "resourceVersion"
        ]
        await clock.advance(300)
        reported = stage.cluster.read("/nodes", "default-node") or {}
        assert reported["status"]["conditions"][-1]["lastHeartbeatTime"] > node["status"]["conditions"][-1]["lastHeartbeatTime"]
        assert reported["status"]["conditions"][-1]["lastTransitionTime"] == node["status"]["conditions"][-1]["lastTransitionTime"]
        assert reported["status"]["capacity"]["pods"] == "250"


async def test_a_worker_that_breaks_is_replaced_and_hurts_no_other_pod(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real, broken = resolve_environ, 1

    def fragile(pod: Pod, *rest: object) -> dict[str, str]:
        nonlocal broken
        if pod.metadata.name == "odd" and broken:
            broken -= 1
            raise KeyError("a mistake of the node")
        return real(pod, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pod_module, "resolve_environ", fragile)
    await stage.pod("odd", "serve")
    await stage.pod("even", "serve")
    await stage.ready("even")
    await stage.ready("odd")
    await stage.until(lambda: "FailedSync" in dict(stage.events("odd")), "an event tells")


async def test_a_program_that_hangs_at_shutdown_does_not_hold_up_the_others_or_the_end(stage: Stage) -> None:
    await stage.pod("deaf", "stubborn")
    await stage.pod("web", "serve")
    await stage.ready("deaf")
    await stage.ready("web")
    async with asyncio.timeout(10):
        await stage.stop()
    assert stage.container("deaf")["state"]["terminated"]["exitCode"] == 137
    assert stage.container("web")["state"]["terminated"]["exitCode"] == 143
    assert stage.read("deaf")
    assert condition(stage.read("web"), "Ready") == "False"


async def test_nulls_in_a_pod_are_nothing(stage: Stage) -> None:
    container = {"env": None, "envFrom": None, "command": None, "volumeMounts": None, "resources": None, "ports": None}
    await stage.pod("p", "serve", container=container, volumes=None, initContainers=None, nodeSelector=None)
    await stage.ready("p")


def test_addresses_are_unique_and_come_back() -> None:
    addresses = LoopbackAddresses(lambda: 0.5)
    first, second = addresses.take(), addresses.take()
    assert first != second
    assert addresses.take(first) not in (first, second)
    addresses.give_back(first)
    assert addresses.take(first) == first
    assert addresses.take("10.0.0.1").startswith("127.")


def test_where_only_one_address_can_be_bound_all_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses_module, "_can_bind", lambda address: False)
    addresses = LoopbackAddresses()
    assert [addresses.take(), addresses.take("127.64.0.9")] == ["127.0.0.1", "127.0.0.1"]


def test_a_node_takes_what_its_labels_allow() -> None:
    node = {"metadata": {"labels": {"arch": "amd64", "size": "9"}}}

    def affine(operator: str, key: str, *values: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return {"spec": {"affinity": {"nodeAffinity": required}}}

    allowed = [affine("In", "arch", "amd64", "arm64"), affine("Exists", "arch"), affine("Gt", "size", "8"), {"spec": {}}]
    assert [obstacle(pod, node, 0, 1) for pod in allowed] == [""] * 4
    refused = [affine("In", "arch", "arm64"), affine("DoesNotExist", "arch"), {"spec": {"nodeSelector": {"a": "b"}}}]
    assert all("didn't match" in obstacle(pod, node, 0, 1) for pod in refused)
    assert "Too many pods" in obstacle({"spec": {}}, node, 1, 1)
    assert "unschedulable" in obstacle({"spec": {}}, {**node, "spec": {"unschedulable": True}}, 0, 1)
    assert "no nodes" in obstacle({"spec": {}}, None, 0, 1)
