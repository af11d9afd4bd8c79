"""A node for a server elsewhere keeps away from clusters that have machines."""

from pathlib import Path

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.fleet.node import RemoteNode
from muster.fleet.node.remote import HasKubelets, kubelets
from muster.machinery.objects import Object
from muster.runtime.client.builtin import NODES


def node(name: str, ready: str, runtime: str) -> Object:
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"containerRuntimeVersion": runtime}}
    return {"metadata": {"name": name}, "status": status}


def test_only_nodes_that_run_pods_of_others_count() -> None:
    ours, gone, bare = node("ours", "True", "muster://3.11"), node("gone", "Unknown", "containerd://2"), {"metadata": {"name": "x"}}
    assert kubelets([ours, gone, bare]) == []
    assert kubelets([ours, node("b", "True", "containerd://2"), node("a", "True", "cri-o://1")]) == ["a", "b"]


async def test_a_cluster_with_machines_is_left_alone(tmp_path: Path) -> None:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    try:
        client = InProcessClient(server.client(server.clusters["default"]))
        await client.create(NODES, {"metadata": {"name": "machine"}})
        status = node("machine", "True", "containerd://2")["status"]
        await client.patch(NODES, "machine", {"status": status}, subresource="status")
        with pytest.raises(ExceptionGroup) as refused:
            await RemoteNode(client, "https://nowhere.example", {}, tmp_path, name="ours").run()
        (why,) = refused.value.exceptions
        assert isinstance(why, HasKubelets)
        assert why.nodes == ("machine",)
        assert [one["metadata"]["name"] for one in (await client.list(NODES)).items] == ["machine"]
    finally:
        await server.stop(grace=0.1)
