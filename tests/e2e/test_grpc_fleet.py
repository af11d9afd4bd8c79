"""`muster up --auth grpc`: a fleet whose agents reach the hub's gRPC server and nothing else, through all that befalls a fleet."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_fleet import MUSTER, Fleet, eventually, hub_certificate, names
from tests.support.processes import free_ports
from tests.support.sites import beside_kube

pytestmark = beside_kube

AGENTS = "open-cluster-management-agent"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("grpc-fleet") / "data")
    made("up", "--detach", "--port", str(free_ports(1)[0]), "--auth", "grpc", "--clusters", "1")
    yield made
    made.end()


def record(fleet: Fleet) -> dict[str, object]:
    found: dict[str, object] = json.loads((fleet.directory / "fleet.json").read_text())
    return found


def test_an_agents_own_credential_does_not_lead_to_the_api_server(fleet: Fleet) -> None:
    """What it was introduced with does, for the addons of its cluster."""

    def contents(name: str) -> dict[str, str]:
        return dict(json.loads(fleet.kubectl("get", "secret", name, "-n", AGENTS, "-o", "json", context="cluster1"))["data"])

    own = contents("hub-kubeconfig-secret")
    assert "kubeconfig" not in own
    content = b"".join(map(base64.b64decode, own.values())).decode()
    assert f"127.0.0.1:{record(fleet)['grpc_port']}" in content
    assert f":{record(fleet)['port']}" not in content
    assert set(contents("bootstrap-hub-kubeconfig")) == {"config.yaml", "kubeconfig"}
    asked = json.loads(fleet.kubectl("get", "csr", "-o", "json"))["items"]
    of_addons = "open-cluster-management.io/addon-name"
    (own_request,) = [one for one in asked if of_addons not in one["metadata"]["labels"]]
    assert own_request["spec"]["signerName"] == "open-cluster-management.io/grpc"


def test_works_are_applied_changed_and_taken_away(fleet: Fleet) -> None:
    fleet.work("cluster1")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}, "data": {"a": "b"}}
    patch = json.dumps({"spec": {"workload": {"manifests": [manifest]}}})
    fleet.kubectl("patch", "manifestwork", "hello", "-n", "cluster1", "--type=merge", "-p", patch)
    look = ("get", "configmap", "hello", "-o", "jsonpath={.data.a}")
    eventually(lambda: fleet.kubectl(*look, context="cluster1") == "b", "the change is applied")
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")
    assert fleet.kubectl("get", "configmap", "hello", "--ignore-not-found", "-o", "name", context="cluster1") == ""


def test_a_cluster_can_be_added_and_removed_again(fleet: Fleet) -> None:
    fleet("cluster", "add", "edge")
    assert names(fleet) == ["cluster1", "edge"]
    fleet.work("edge")
    fleet("cluster", "remove", "edge")
    assert names(fleet) == ["cluster1"]
    left = fleet.kubectl("get", "serviceaccounts,clusterroles", "-A", "-l", "open-cluster-management.io/bootstraps-cluster=edge")
    assert left == "", "a token of a cluster that has gone lets nobody in"


@pytest.mark.parametrize("end", ["down", "kill"])
def test_after_any_end_everything_goes_on_where_it_ended(fleet: Fleet, end: str) -> None:
    before, port = hub_certificate(fleet), record(fleet)["grpc_port"]
    fleet.kill() if end == "kill" else fleet("down")
    fleet("up", "-d")
    assert record(fleet)["grpc_port"] == port
    assert hub_certificate(fleet) == before
    assert fleet("status").code == 0
    fleet.work("cluster1")


def test_how_clusters_register_is_decided_once(fleet: Fleet) -> None:
    fleet("down")
    assert "register by grpc" in fleet("up", "-d", "--auth", "csr", code=1).err
    port = record(fleet)["grpc_port"]
    assert isinstance(port, int)
    with socket.create_server(("127.0.0.1", port)):
        assert f"port {port}, where this fleet is at home, is taken" in fleet("up", "-d", code=1).err
    fleet("up", "-d", "--auth", "grpc")


def test_ctrl_c_ends_it_well(tmp_path: Path) -> None:
    fresh = Fleet(tmp_path / "data")
    command = [*MUSTER, "up", "--auth", "grpc", "--data-dir", str(fresh.directory), "--clusters", "1", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: fresh("status", code=None).code == 0, "the cluster is available", 90)
        os.kill(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode in (0, 130), errors
    assert "its state is kept" in said
    assert "Traceback" not in said + errors
