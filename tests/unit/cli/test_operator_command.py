"""`muster operator`: its options, its refusals, a clean start and a clean end."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from click.testing import CliRunner

from muster.cli.operator import command, serve, settings
from muster.cli.process import FoundCluster, ProcessEnv
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, bundle
from muster.runtime.client.kubeconfig import ClientConfig
from tests.unit.operator.conftest import Cluster, here

__all__ = ["here"]
POD = {"POD_NAME": "operator-1", "POD_NAMESPACE": "open-cluster-management"}


def read(*arguments: str, process_env: ProcessEnv | None = None) -> Any:
    context = command.make_context("operator", list(arguments))
    return settings(context.params, process_env or ProcessEnv(environ={"KUBECONFIG": ""}))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Missing argument"),
        (["gardener"], "'gardener' is not one of"),
        (["klusterlet", "--health-port=70000"], "--health-port"),
        (["cluster-manager", "--kubeconfig=/nowhere/config"], "/nowhere/config"),
    ],
)
def test_a_wrong_value_is_refused(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code != 0
    assert problem in result.output


def test_in_a_pod_it_belongs_to_the_pods_namespace() -> None:
    inside = ProcessEnv(environ=POD, ip="127.9.9.9", cluster=FoundCluster(ClientConfig("https://server"), in_pod=True))
    found = read("klusterlet", process_env=inside)
    assert (found.kind, found.namespace, found.health) == ("klusterlet", "open-cluster-management", ("127.9.9.9", 8081))
    assert found.elect


async def test_it_deploys_the_image_of_its_own_pod_and_ends_when_told(here: Cluster) -> None:
    await here.surround(CLUSTER_MANAGER_OPERATOR)
    (deployment,) = (document for _, document in bundle(CLUSTER_MANAGER_OPERATOR) if "template" in document.get("spec", {}))
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = "example.com/muster:mine"
    metadata = {"name": POD["POD_NAME"], "namespace": POD["POD_NAMESPACE"]}
    await here.admin.raw(
        "POST",
        f"/api/v1/namespaces/{POD['POD_NAMESPACE']}/pods",
        body={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )
    client = here.account(POD["POD_NAMESPACE"], CLUSTER_MANAGER_OPERATOR.name)
    said: list[str] = []
    direct = FoundCluster(ClientConfig("https://server"), in_pod=True, direct=lambda: client)
    inside = ProcessEnv(environ=POD, info=said.append, ip="127.0.0.1", cluster=direct)
    task = asyncio.create_task(serve(read("cluster-manager", "--health-port=0", process_env=inside), inside))
    try:

        async def begun() -> bool:
            return bool(said)

        await here.until(begun, "it says that it runs")
        assert "example.com/muster:mine" in said[0]
        port = int(re.findall(r"port (\d+)", said[0])[0])

        async def ready() -> bool:
            return await answer(port, "/readyz") == 200

        await here.until(ready, "it is ready")
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()


async def answer(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])
