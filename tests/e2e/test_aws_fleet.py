"""`muster up --auth aws-irsa`: a fleet whose agents are known to the hub by AWS identities, through all that befalls a fleet."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.fleet.local.cloud import CLUSTERS_ACCOUNT, HUB_ACCOUNT
from tests.support.aws_fleet import client, pair, roles, told, up_on_aws
from tests.support.local_fleet import Fleet, names
from tests.support.processes import free_ports
from tests.support.sites import beside_kube

pytestmark = beside_kube

AGENTS = "open-cluster-management-agent"
ASK = """
import json, sys
import botocore.session
service, operation = sys.argv[1:]
answer = getattr(botocore.session.Session().create_client(service), operation)()
del answer["ResponseMetadata"]
print(json.dumps(answer, default=str))
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("aws-fleet") / "data")
    up_on_aws(made)
    yield made
    made.end()


def ask(fleet: Fleet, service: str, operation: str) -> dict[str, object]:
    """By AWS' own library, in a process of its own that knows no more than what was said."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, service, operation],
        env={**os.environ, **told(fleet)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def kubeconfig(fleet: Fleet, cluster: str = "cluster1") -> str:
    words = ("get", "secret", "hub-kubeconfig-secret", "-n", AGENTS, "-o", "jsonpath={.data.kubeconfig}")
    return base64.b64decode(fleet.kubectl(*words, context=cluster)).decode()


def test_clusters_of_another_account_are_available_by_roles_of_the_hubs(fleet: Fleet) -> None:
    assert [(one["name"], one["available"]) for one in fleet.status()["clusters"]] == [("cluster1", True), ("cluster2", True)]
    assert roles(fleet, "hub") == {"hub_managed-cluster-identity-creator", pair("cluster1").hub_role, pair("cluster2").hub_role}
    assert roles(fleet, "clusters") == {pair("cluster1").managed_role, pair("cluster2").managed_role}
    (user,) = yaml.safe_load(kubeconfig(fleet))["users"]
    assert user["user"]["exec"]["command"] == "muster"
    assert pair("cluster1").hub_role_arn in user["user"]["exec"]["args"]
    assert fleet.kubectl("get", "csr", "-o", "name") == ""
    mapped = fleet.kubectl("get", "configmap", "aws-auth", "-n", "kube-system", "-o", "jsonpath={.data.mapRoles}")
    assert {one["rolearn"] for one in yaml.safe_load(mapped)} == {pair("cluster1").hub_role_arn, pair("cluster2").hub_role_arn}


def test_aws_own_library_finds_it_by_what_was_said(fleet: Fleet) -> None:
    assert ask(fleet, "eks", "list_clusters") == {"clusters": ["hub"]}
    for profile, account in (("hub", HUB_ACCOUNT), ("clusters", CLUSTERS_ACCOUNT)):
        assert client(fleet, "sts", profile).get_caller_identity()["Account"] == account
    assert fleet.status()["aws"]["endpoint"] == told(fleet)["AWS_ENDPOINT_URL"]
    assert "AWS at https://127.0.0.1:" in fleet("status").out


def test_objects_do_not_say_where_aws_is(fleet: Fleet) -> None:
    """Pods learn it from their node."""
    where = told(fleet)["AWS_ENDPOINT_URL"].removeprefix("https://")
    for context, kinds in (
        ("hub", "clustermanager,deployment,pod,secret,configmap"),
        ("cluster1", "klusterlet,deployment,pod,secret"),
    ):
        assert where not in fleet.kubectl("get", kinds, "-A", "-o", "json", context=context)


def test_a_cluster_can_be_added_and_removed_again_and_leaves_nothing_on_aws(fleet: Fleet) -> None:
    fleet("cluster", "add", "edge")
    assert names(fleet) == ["cluster1", "cluster2", "edge"]
    fleet.work("edge")
    assert pair("edge").hub_role in roles(fleet, "hub")
    fleet("cluster", "remove", "edge")
    assert pair("edge").hub_role not in roles(fleet, "hub")
    assert pair("edge").managed_role not in roles(fleet, "clusters")
    assert client(fleet, "eks", "clusters").list_clusters()["clusters"] == ["cluster1", "cluster2"]
    assert "edge" not in fleet.kubectl("get", "configmap", "aws-auth", "-n", "kube-system", "-o", "yaml")


def test_after_a_kill_everything_goes_on_where_it_ended(fleet: Fleet) -> None:
    before, on_aws = kubeconfig(fleet), roles(fleet, "hub")
    fleet.kill()
    fleet("up", "-d", "--auth", "awsirsa")
    assert kubeconfig(fleet) == before
    assert roles(fleet, "hub") == on_aws, "where it was, with what it had"
    assert fleet("status").code == 0
    fleet.work("cluster1")


def test_a_fleet_moves_to_another_port_and_its_roles_stay(fleet: Fleet) -> None:
    before = roles(fleet, "hub")
    fleet("down")
    (port,) = free_ports(1)
    fleet("up", "-d", "--port", str(port))
    address = f"https://127.0.0.1:{port}"
    assert fleet.status()["url"] == address
    assert all(one["available"] for one in fleet.status()["clusters"])
    assert address in kubeconfig(fleet)
    assert roles(fleet, "hub") == before
    assert fleet.kubectl("get", "csr", "-o", "name") == ""
    fleet.work("cluster1")
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")


def test_how_clusters_register_is_decided_once(fleet: Fleet) -> None:
    port = int(told(fleet)["AWS_ENDPOINT_URL"].rpartition(":")[2])
    fleet("down")
    assert "register by awsirsa" in fleet("up", "-d", "--auth", "csr", code=1).err
    assert "is API_AND_CONFIG_MAP" in fleet("up", "-d", "--aws-authentication-mode", "API", code=1).err
    with socket.create_server(("127.0.0.1", port)):
        assert f"port {port}, where this fleet is at home, is taken" in fleet("up", "-d", code=1).err
    fleet("up", "-d", "--auth", "aws-irsa")


def test_only_a_fleet_on_aws_has_an_authentication_mode(tmp_path: Path) -> None:
    fresh = Fleet(tmp_path / "data")
    assert "is for --auth awsirsa" in fresh("up", "-d", "--port", "0", "--aws-authentication-mode", "API", code=1).err
    assert not (fresh.directory / "fleet.json").exists()
