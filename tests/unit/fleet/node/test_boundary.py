"""Which pods run, decided by their Namespace, and what they may dial on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from muster.fleet.node import PodEnvironment
from muster.fleet.node.boundary import LocalEndpoints, PodNetwork
from muster.machinery.confinement import current
from muster.machinery.objects import GVR, Object
from muster.operator.pod_namespaces import MAY_DIAL, MAY_RUN, not_running
from muster.runtime.client.builtin import NAMESPACES
from tests.support.stage import PODS, Stage, condition, let_pods_run

SERVER = "https://127.0.0.1:6443/clusters/c1"


class View:
    def __init__(self, dialled: str = "") -> None:
        self.dialled = dialled

    def read(self, resource: GVR, key: str) -> Object | None:
        return {"metadata": {"name": key, "annotations": {MAY_DIAL: self.dialled}}}

    def scan(self, resource: GVR, namespace: str = "") -> Sequence[Object]:
        return ()


def test_a_pod_dials_its_server_programs_of_pods_and_what_its_namespace_allows() -> None:
    local_endpoints, view = LocalEndpoints(), View("127.0.0.1:7443,localhost:9")
    network = PodNetwork("ns", view, SERVER, local_endpoints, [("127.0.0.1", 5443)])

    def may(host: str, port: int, name: str = "") -> bool:
        return network.may_dial(name or host, ip_address(host), port)

    assert may("127.0.0.1", 6443)
    assert not may("127.0.0.1", 6444)
    assert may("127.0.0.1", 5443)
    assert not may("127.0.0.2", 5443)
    assert not may("127.0.0.2", 6443)
    assert may("127.0.0.1", 7443)
    assert may("127.0.0.1", 9, "localhost")
    assert not may("127.0.0.1", 9)
    assert not may("127.64.1.1", 8000)
    local_endpoints.opened("127.64.1.1", 8000)
    local_endpoints.opened("127.64.1.1", 8000)
    assert may("127.64.1.1", 8000)
    assert not may("127.64.1.1", 22), "whatever of the machine listens on all addresses"
    local_endpoints.closed("127.64.1.1", 8000)
    assert may("127.64.1.1", 8000)
    local_endpoints.closed("127.64.1.1", 8000)
    assert not may("127.64.1.1", 8000)
    local_endpoints.opened("127.64.1.1", 8001)
    local_endpoints.vacated("127.64.1.1")
    assert not may("127.64.1.1", 8001)
    view.dialled = ""
    assert not may("127.0.0.1", 7443), "as it is when it is dialled"
    assert network.remedy("::1", 5) == "kubectl annotate namespace ns open-cluster-management.io/pods-may-dial=[::1]:5"


async def unlabel(stage: Stage) -> None:
    await stage.client.patch(NAMESPACES, "default", {"metadata": {"labels": {MAY_RUN: None}}})


def reason(stage: Stage, name: str, kind: str = "Ready") -> tuple[str, str]:
    found = [one for one in stage.status(name).get("conditions") or () if one["type"] == kind]
    return (found[0].get("reason", ""), found[0].get("message", "")) if found else ("", "")


async def test_a_pod_waits_until_its_namespace_is_labelled(stage: Stage) -> None:
    await unlabel(stage)
    await stage.pod("web", "serve")
    await stage.pod("bound", "serve", nodeName="default-node")
    words = not_running("default")
    await stage.until(lambda: reason(stage, "web", "PodScheduled") == ("Unschedulable", words), "it says why it waits")
    await stage.until(lambda: reason(stage, "bound") == ("NamespaceNotLabelled", words), "so does one that was bound by hand")
    assert [stage.status(name)["phase"] for name in ("web", "bound")] == ["Pending", "Pending"]
    await stage.until(lambda: ("FailedScheduling", words) in stage.events("web"), "an event says so too")
    await stage.until(lambda: ("NamespaceNotLabelled", words) in stage.events("bound"), "of both")
    await let_pods_run(stage.client)
    await stage.ready("web")
    await stage.ready("bound")


async def test_pods_are_stopped_with_the_label_and_go_on_with_it(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    await unlabel(stage)
    await stage.until(lambda: reason(stage, "web")[0] == "NamespaceNotLabelled", "it was stopped")
    assert "tidied up" in await stage.log("web")
    assert "terminated" in stage.container("web")["state"]
    await let_pods_run(stage.client)
    await stage.ready("web")
    assert stage.container("web")["restartCount"] == 1


async def test_what_ran_before_the_node_came_back_is_not_taken_up_without_the_label(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    await stage.stop()
    await unlabel(stage)
    running = [{**stage.container("web"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
    await stage.client.patch(PODS, "web", {"status": {"containerStatuses": running}}, "default", subresource="status")
    await stage.start()
    await stage.until(lambda: reason(stage, "web")[0] == "NamespaceNotLabelled", "it says why it does not run")
    assert "running" not in stage.container("web")["state"]
    await let_pods_run(stage.client)
    await stage.ready("web")


async def test_a_pod_that_may_not_run_can_be_deleted(stage: Stage) -> None:
    await unlabel(stage)
    await stage.pod("bound", "serve", nodeName="default-node")
    await stage.until(lambda: reason(stage, "bound")[0], "it is known to the node")
    await stage.client.delete(PODS, "bound", "default")
    await stage.gone("bound")


async def test_too_many_containers_are_turned_down_whoever_binds_them(stage: Stage) -> None:
    many = [{"name": f"c{number}", "image": "muster", "args": ["serve"]} for number in range(33)]
    await stage.pod("waiting", "serve", initContainers=many[:32])
    await stage.pod("bound", "serve", initContainers=many[:32], nodeName="default-node")
    await stage.phase("bound", "Failed")
    assert "33 containers" in stage.status("bound")["message"]
    await stage.until(lambda: "33 containers" in reason(stage, "waiting", "PodScheduled")[1], "the other waits")


async def test_a_program_and_its_tasks_are_inside_and_what_serves_them_is_not(stage: Stage) -> None:
    seen: list[Any] = []

    async def look(args: Sequence[str], env: PodEnvironment) -> int:
        seen.append(current())
        return 0

    stage.programs[("look",)] = look
    await stage.pod("web", "look", restartPolicy="Never")
    await stage.phase("web", "Succeeded")
    assert [one.pod for one in seen] == ["default/web"]
    assert current() is None


async def test_an_identity_that_was_not_mounted_is_not_had(stage: Stage) -> None:
    found: list[bool] = []

    async def look(args: Sequence[str], env: PodEnvironment) -> int:
        found.append(env.has_identity)
        return 0

    stage.programs[("look",)] = look
    await stage.pod("with", "look", restartPolicy="Never")
    await stage.phase("with", "Succeeded")
    await stage.pod("without", "look", restartPolicy="Never", automountServiceAccountToken=False)
    await stage.phase("without", "Succeeded")
    assert found == [True, False]
    assert condition(stage.read("with"), "Ready") == "False"
