"""`muster up` and its companions, as a person uses them: one command to a working fleet, and no end from which it cannot go on."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.operator.pod_namespaces import MAY_RUN
from tests.support.client import Client
from tests.support.local_fleet import MUSTER, Fleet, eventually, hub_certificate, names
from tests.support.processes import free_ports
from tests.support.sites import embedded_only

pytestmark = embedded_only

OPERATED = ("open-cluster-management", "open-cluster-management-hub")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One that runs; tests leave it so."""
    made = Fleet(tmp_path_factory.mktemp("fleet") / "data")
    made("up", "--detach", "--port", str(free_ports(1)[0]))
    yield made
    made.end()


def test_up_returns_when_every_cluster_is_joined_and_available(fleet: Fleet) -> None:
    found = fleet.status()
    assert found["running"]
    assert [(one["name"], one["accepted"], one["joined"], one["available"]) for one in found["clusters"]] == [
        ("cluster1", True, True, True),
        ("cluster2", True, True, True),
    ]
    assert fleet.kubectl("get", "managedclusters", "-o", "jsonpath={.items[*].metadata.name}") == "cluster1 cluster2"


def test_up_says_what_to_try_and_that_works(tmp_path: Path) -> None:
    other = Fleet(tmp_path / "data")
    try:
        said = other("up", "-d", "--port", "0", "--clusters", "1").out
        assert "cluster1 is available" in said
        exported = next(line for line in said.splitlines() if "export KUBECONFIG=" in line).partition("=")[2]
        assert Path(exported) == other.directory / "kubeconfig"
        assert "kubectl get managedclusters" in said
        assert "cluster1" in other.kubectl("get", "managedclusters")
        assert "Running" in other.kubectl("get", "pods", "-A", context="cluster1")
    finally:
        other("down", "--purge")
    assert not other.directory.exists()


def test_the_directory_is_its_owners_alone(fleet: Fleet) -> None:
    assert fleet.directory.stat().st_mode & 0o077 == 0
    assert (fleet.directory / "kubeconfig").stat().st_mode & 0o077 == 0


def test_components_run_as_pods_that_say_how_they_are(fleet: Fleet) -> None:
    def available(context: str) -> set[str]:
        deployments = json.loads(fleet.kubectl("get", "deployments", "-A", "-o", "json", context=context))["items"]
        return {one["metadata"]["name"] for one in deployments if one["status"].get("availableReplicas") == one["spec"]["replicas"]}

    hub = {"cluster-manager", *(f"cluster-manager-{part}" for part in ("registration-controller", "registration-webhook"))}
    hub |= {f"cluster-manager-{part}" for part in ("work-webhook", "placement-controller", "addon-manager-controller")}
    assert available("hub") == hub | {"cluster-manager-hub-addons-controller", "cluster-manager-cluster-gateway"}
    agents = {"klusterlet", "klusterlet-registration-agent", "klusterlet-work-agent", "managed-serviceaccount-addon-agent"}
    eventually(lambda: available("cluster1") == agents, "the agent of works, too, which comes when its cluster has joined")


def test_logs_of_a_component_of_a_cluster_and_of_all(fleet: Fleet) -> None:
    named = fleet("logs", "hub/cluster-manager-registration-controller").out
    assert "ready: hub of" in named
    assert " | " not in named.splitlines()[0]
    everything = fleet("logs", "--tail", "3").out
    assert "hub/cluster-manager " in everything
    assert "cluster2/" in everything
    assert "fleet" in everything
    one = fleet("logs", "cluster1").out
    assert "cluster1" in one
    assert "hub/cluster-manager" not in one
    unknown = fleet("logs", "nobody", code=1).err
    assert "hub/cluster-manager-registration-controller" in unknown
    for component, says in (
        ("hub/cluster-manager-work-webhook", "ready: webhooks of"),
        ("hub/cluster-manager-placement-controller", "ready: placement of"),
        ("hub/cluster-manager-addon-manager-controller", "ready: addon manager of"),
        ("cluster1/klusterlet-work-agent", "started: work agent of cluster1"),
    ):
        assert says in fleet("logs", component).out


def test_a_healthy_start_warns_of_nothing(fleet: Fleet) -> None:
    """And whatever was logged begins with the time, the level and what happened."""
    lines = fleet("logs", "--tail", "200").out.splitlines()
    logged = [line.partition(" | ")[2] for line in lines if "level=" in line]
    assert logged
    assert all(re.match(r"timestamp=\S+ level=\w+ event=", line) for line in logged)
    # Writers that meet each other on a busy machine try again.
    settled = [line for line in logged if "the object has been modified" not in line]
    assert [line for line in settled if re.search(r"level=(warning|error)", line)] == []


def test_logs_can_be_followed(fleet: Fleet) -> None:
    command = [*MUSTER, "logs", "hub", "-f", "--data-dir", str(fleet.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        assert following.poll() is None
        following.send_signal(signal.SIGINT)
        assert following.wait(10) in (0, 1, 130)


def test_a_second_up_says_how_the_fleet_is(fleet: Fleet) -> None:
    before = fleet.pid
    for words in (("up",), ("up", "--detach"), ("up", "--clusters", "2")):
        said = fleet(*words).out
        assert f"running (process {before})" in said
        assert "cluster2" in said
    assert "--clusters asks for 1" in (said := fleet("up", "--clusters", "1").out)
    assert "muster cluster remove cluster2" in said
    assert "muster up with --port" in fleet("up", "--port", "1", code=1).err
    assert fleet.pid == before


def test_a_second_up_adds_the_clusters_that_are_missing(fleet: Fleet) -> None:
    before = fleet.pid
    assert "cluster3 is available" in fleet("up", "--clusters", "3").out
    assert [one["name"] for one in fleet.status()["clusters"] if one["available"]] == ["cluster1", "cluster2", "cluster3"]
    assert fleet.pid == before
    fleet("cluster", "remove", "cluster3")


def test_a_cluster_can_be_added_and_removed_again(fleet: Fleet) -> None:
    fleet("cluster", "add", "edge")
    assert names(fleet) == ["cluster1", "cluster2", "edge"]
    assert fleet.kubectl("get", "namespace", "default", "-o", "name", context="edge") == "namespace/default"
    fleet.work("edge")
    assert "already" in fleet("cluster", "add", "edge", code=1).err
    fleet("cluster", "remove", "edge")
    assert names(fleet) == ["cluster1", "cluster2"]
    assert "edge" not in fleet.kubectl("get", "managedclusters,namespaces")
    assert "edge" not in fleet.kubectl("config", "get-contexts", "-o", "name")
    assert not (fleet.directory / "nodes/edge").exists()
    assert "no cluster edge" in fleet("cluster", "remove", "edge", code=1).err


def test_a_cluster_whose_agent_writes_nonsense_is_shown_and_can_be_removed(fleet: Fleet) -> None:
    fleet("cluster", "add", "hostile")
    nonsense = {"type": "Evil", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": [[]]}
    patch = json.dumps([{"op": "add", "path": "/status/conditions/-", "value": nonsense}])
    fleet.kubectl("patch", "managedcluster", "hostile", "--subresource", "status", "--type", "json", "-p", patch)
    assert "Traceback" not in fleet("status", code=None).err
    assert names(fleet) == ["cluster1", "cluster2", "hostile"]
    fleet("cluster", "remove", "hostile")
    assert "hostile" not in fleet.kubectl("get", "managedclusters,namespaces")


def test_a_cluster_of_the_same_name_starts_anew(fleet: Fleet, tmp_path: Path) -> None:
    """And its former administrator has no rights there, not even on a connection that is open all the time."""
    fleet("cluster", "add", "again")
    fleet.kubectl("create", "configmap", "kept", context="again")
    kubeconfig = tmp_path / "again.kubeconfig"
    kubeconfig.write_text(fleet.kubectl("config", "view", "--raw", "--minify", context="again"))
    administrator = Client.of_kubeconfig(kubeconfig, tmp_path)
    assert administrator.get("/api/v1/namespaces").status == 200
    uid = administrator.get("/api/v1/namespaces/kube-system").json["metadata"]["uid"]
    fleet("cluster", "remove", "again")
    assert administrator.get("/api/v1/namespaces").status == 404
    fleet("cluster", "add", "again")
    assert fleet.kubectl("get", "configmap", "kept", "--ignore-not-found", context="again") == ""
    assert fleet.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}", context="again") != uid
    assert administrator.get("/api/v1/namespaces").status == 401
    administrator.close()
    assert administrator.get("/api/v1/namespaces").status == 401
    administrator.close()
    fleet("cluster", "remove", "again")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("hub", "already"), ("Not_A_Name", "cannot name"), ("kube-system", "cannot name"), ("default", "cannot name")],
)
def test_names_that_no_cluster_can_have_are_refused(fleet: Fleet, name: str, problem: str) -> None:
    assert problem in fleet("cluster", "add", name, code=None).err
    assert names(fleet) == ["cluster1", "cluster2"]


def test_the_hub_cannot_be_removed(fleet: Fleet) -> None:
    assert "muster down --purge" in fleet("cluster", "remove", "hub", code=1).err


def test_after_down_everything_goes_on_where_it_ended(fleet: Fleet) -> None:
    versions = json.loads(fleet("version", "-o", "json").out)
    assert versions["server"].startswith("v1.35")
    assert versions["hub"] == versions["client"]
    fleet.kubectl("create", "configmap", "mine", "--from-literal=a=b", context="cluster1")
    certificate = hub_certificate(fleet)
    fleet.work("cluster1")
    fleet("down")
    stopped = fleet.status()
    assert not stopped["running"]
    kept = fleet("logs", "hub/cluster-manager-registration-controller")
    assert "ready: hub of" in kept.out
    assert "not running" in kept.err
    assert "cluster1/klusterlet-work-agent " in fleet("logs").out
    assert "klusterlet-work-agent" in fleet("logs", "nobody", code=1).err
    assert "muster up" in fleet("logs", "hub", "-f", code=1).err
    assert fleet("status", code=1).out.startswith("not running")
    assert "not running" in fleet("down").out
    fleet("up", "-d")
    assert fleet.kubectl("get", "configmap", "mine", "-o", "jsonpath={.data.a}", context="cluster1") == "b"
    assert hub_certificate(fleet) == certificate
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")
    assert "hello" not in fleet.kubectl("get", "configmap,appliedmanifestwork", "-o", "name", context="cluster1")
    assert names(fleet) == ["cluster1", "cluster2"]


def test_a_fleet_moves_to_another_address_and_everybody_follows(fleet: Fleet) -> None:
    certificate = hub_certificate(fleet)
    fleet("down")
    (port,) = free_ports(1)
    fleet("up", "-d", "--port", str(port), "--advertise", "localhost")
    address = f"https://localhost:{port}"
    assert fleet.status()["url"] == address
    assert all(one["available"] and one["gateway"] for one in fleet.status()["clusters"])
    assert address in fleet.kubectl("config", "view")
    words = ("get", "secret", "hub-kubeconfig-secret", "-n", "open-cluster-management-agent", "-o", "jsonpath={.data.kubeconfig}")
    assert address in base64.b64decode(fleet.kubectl(*words, context="cluster1")).decode()
    assert address in fleet.kubectl("get", "configmap", "cluster-info", "-n", "kube-public", "-o", "yaml")
    urls = "jsonpath={.spec.managedClusterClientConfigs[*].url}"
    assert fleet.kubectl("get", "managedcluster", "cluster1", "-o", urls) == f"{address}/clusters/cluster1"
    assert hub_certificate(fleet) == certificate, "it is the same cluster"
    fleet.work("cluster1")
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")


def test_a_running_fleet_is_backed_up_and_restored_beside_itself(fleet: Fleet, tmp_path: Path) -> None:
    fleet.kubectl("create", "configmap", "kept", context="cluster1")
    file = tmp_path / "fleet.backup"
    fleet("backup", str(file))
    fleet.kubectl("create", "configmap", "later", context="cluster1")
    other = Fleet(tmp_path / "restored")
    (port,) = free_ports(1)
    other("restore", str(file), "--port", str(port))
    try:
        other("up", "-d")
        assert all(one["available"] for one in other.status()["clusters"])
        assert other.kubectl("get", "configmap", "kept", "-o", "name", context="cluster1") == "configmap/kept"
        assert other.kubectl("get", "configmap", "later", "--ignore-not-found", context="cluster1") == ""
        other.work("cluster1")
        assert fleet.kubectl("get", "configmap", "hello", "--ignore-not-found", context="cluster1") == "", "they are two fleets"
        assert all(one["available"] for one in fleet.status()["clusters"])
    finally:
        other("down", "--purge")
    fleet.kubectl("delete", "configmap", "kept", "later", context="cluster1")


def test_after_a_kill_everything_goes_on_where_it_ended(fleet: Fleet) -> None:
    fleet.kubectl("create", "configmap", "survivor", context="hub")
    fleet.kill()
    fleet("up", "-d")
    assert fleet.kubectl("get", "configmap", "survivor", "-o", "name") == "configmap/survivor"
    assert all(one["available"] for one in fleet.status()["clusters"])


def test_a_fleet_of_before_namespaces_were_labelled_goes_on(fleet: Fleet) -> None:
    for context, namespaces in (("hub", OPERATED), ("cluster1", (*OPERATED[:1], "open-cluster-management-agent"))):
        for name in namespaces:
            fleet.kubectl("label", "namespace", name, f"{MAY_RUN}-", context=context)
    fleet("down")
    fleet("up", "-d")
    found = fleet.status()["clusters"]
    assert [one["available"] for one in found] == [True, True]
    assert fleet.kubectl("get", "namespaces", "-l", f"{MAY_RUN}=true", "-o", "name").split() == [
        f"namespace/{name}" for name in OPERATED
    ]


def test_a_taken_port_is_named_and_nothing_is_left_behind(fresh: Fleet) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for words in (("up", "-d"), ("up",)):
            refused = fresh(*words, "--port", str(port), code=1)
            assert f"port {port} is taken" in refused.err
    assert not (fresh.directory / "fleet.json").exists()


def test_a_directory_with_other_things_is_left_alone(fresh: Fleet) -> None:
    fresh.directory.mkdir()
    (fresh.directory / "thesis.txt").write_text("years of work")
    ups = (("up", "-d", "--port", "0"), ("up", "--port", "0"))
    for words in (*ups, ("down", "--purge"), ("status",), ("logs",), ("cluster", "add", "x")):
        assert fresh(*words, code=1).err.startswith("Error: ")
    assert [entry.name for entry in fresh.directory.iterdir()] == ["thesis.txt"]


def test_commands_on_a_fleet_that_does_not_run_say_so(fresh: Fleet) -> None:
    fresh("up", "-d", "--port", "0", "--clusters", "0")
    fresh("down")
    for words in (("cluster", "add", "x"), ("cluster", "remove", "x"), ("logs", "-f")):
        assert "not running" in fresh(*words, code=1).err
    assert fresh("logs", "fleet").out
    fresh("down", "--purge")
    assert not fresh.directory.exists()
