"""Every option of `join`: what it changes in what the cluster then has, or whom it keeps out.

Joins are real, and what came of them is read from the server. Nobody runs the operator here, so the same cluster joins again and
again, each time with other options. What goes through a proxy is in `test_joining_through_a_proxy`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusteradm.claims import row, shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import AGENT_NAMESPACE, BOOTSTRAP_NAMESPACE, MANAGED_CLUSTERS, managed_cluster, read_secret
from tests.support.client import Client
from tests.support.link import Link
from tests.support.pki import Authority

KLUSTERLETS = "/apis/operator.open-cluster-management.io/v1/klusterlets"
OPERATOR = f"/apis/apps/v1/namespaces/{BOOTSTRAP_NAMESPACE}/deployments/klusterlet"
INSIDE = "https://inside.example:6443"
ARNS = [f"arn:aws:eks:us-west-2:{digit * 12}:cluster/c" for digit in "12"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("join")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        yield world


@pytest.fixture(scope="module")
def access(fleet: World) -> dict[str, str]:
    return fleet.told_access()


@dataclass
class Joined:
    """What a cluster has after joining; where agents of another cluster run, `namespace` is theirs."""

    client: Client
    klusterlet_name: str = "klusterlet"
    namespace: str = AGENT_NAMESPACE

    @property
    def klusterlet(self) -> dict[str, Any]:
        return dict(self.client.get(f"{KLUSTERLETS}/{self.klusterlet_name}").expect(200)["spec"])

    @property
    def registration(self) -> dict[str, Any]:
        return dict(self.klusterlet["registrationConfiguration"])

    @property
    def operator(self) -> dict[str, Any]:
        return dict(self.client.get(OPERATOR).expect(200)["spec"]["template"]["spec"]["containers"][0])

    def secret(self, name: str, namespace: str = "") -> dict[str, bytes]:
        return read_secret(self.client, namespace or self.namespace, name)

    def kubeconfig(self, secret: str = "bootstrap-hub-kubeconfig") -> dict[str, Any]:
        """Its cluster and its user, as one."""
        found = yaml.safe_load(self.secret(secret)["kubeconfig"])
        return {**found["clusters"][0]["cluster"], **found["users"][0]["user"]}

    @property
    def authority(self) -> bytes:
        return base64.b64decode(self.kubeconfig()["certificate-authority-data"]).strip()


def words(access: dict[str, str], **changes: str) -> list[str]:
    """Of `join`; a change to nothing leaves an option out."""
    given = {**access, "cluster-name": "here", **{name.replace("_", "-"): value for name, value in changes.items()}}
    return ["join", *(word for name, value in given.items() if value for word in (f"--{name}", value))]


def grpc_way(made: Joined) -> tuple[str, str, bytes]:
    way = yaml.safe_load(made.secret("bootstrap-hub-kubeconfig")["config.yaml"])
    return made.registration["registrationDriver"]["authType"], way["url"], base64.b64decode(way["caData"]).strip()


def pull_credential(made: Joined) -> object:
    return json.loads(made.secret("open-cluster-management-image-pull-credentials", BOOTSTRAP_NAMESPACE)[".dockerconfigjson"])


CREDENTIAL = {"auths": {"example.io": {"auth": "eDp5"}}}
AMOUNTS = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "5m"}}
Look = Callable[[Joined], object]


@pytest.mark.parametrize(
    ("line", "look", "expected"),
    [
        row("join --singleton", lambda made: made.klusterlet["deployOption"]["mode"], "Singleton"),
        row("join --client-cert-expiration-seconds 7200", lambda made: made.registration["clientCertExpirationSeconds"], 7200),
        row(
            f"join --registration-auth awsirsa --hub-cluster-arn {ARNS[0]} --managed-cluster-arn {ARNS[1]}",
            lambda made: made.registration["registrationDriver"],
            {"authType": "awsirsa", "awsIrsa": {"hubClusterArn": ARNS[0], "managedClusterArn": ARNS[1]}},
        ),
        row(
            "join --driver-option csr.client-cert-expiration-seconds=7200 --driver-option csr.other=b",
            lambda made: made.registration["registrationDriver"],
            {"authType": "csr", "driverOptions": {"client-cert-expiration-seconds": ["7200"], "other": ["b"]}},
        ),
        row(
            "join --registration-auth grpc --grpc-server hub:8090 --grpc-ca-file {ca} --force",
            grpc_way,
            ("grpc", "hub:8090", "{ca}"),
        ),
        row(
            "join --addon-kubeclient-registration-auth token --addon-token-expiration-seconds 3600",
            lambda made: made.registration["addOnKubeClientRegistrationDriver"],
            {"authType": "token", "token": {"expirationSeconds": 3600}},
        ),
        row(
            "join --klusterlet-annotation site=north,agent.open-cluster-management.io/rack=r1",
            lambda made: made.registration["clusterAnnotations"],
            {"agent.open-cluster-management.io/site": "north", "agent.open-cluster-management.io/rack": "r1"},
        ),
        row(
            "join --klusterlet-values-file {values}",
            lambda made: (made.klusterlet["externalServerURLs"], made.client.get(OPERATOR).expect(200)["spec"]["replicas"]),
            ([{"url": "https://here"}], 2),
        ),
        row(
            "join --feature-gates ClusterClaim=false,RawFeedbackJsonString=true",
            lambda made: (made.registration["featureGates"], made.klusterlet["workConfiguration"]["featureGates"]),
            ([{"feature": "ClusterClaim", "mode": "Disable"}], [{"feature": "RawFeedbackJsonString", "mode": "Enable"}]),
        ),
        row(
            "join --image-registry example.io/team --bundle-version v9",
            lambda made: made.operator["image"],
            "example.io/team/muster:v9",
        ),
        row("join --bundle-version-overrides {overrides}", lambda made: made.operator["image"], "muster:v8"),
        row("join --image-pull-credential-file {credential}", pull_credential, CREDENTIAL),
        row(
            "join --resource-qos-class ResourceRequirement --resource-limits memory=1Gi --resource-requests cpu=5m",
            lambda made: (made.operator["resources"], made.klusterlet["resourceRequirement"]["resourceRequirements"]),
            (AMOUNTS, AMOUNTS),
        ),
        row("join --resource-qos-class BestEffort", lambda made: made.klusterlet["resourceRequirement"], {"type": "BestEffort"}),
    ],
)
def test_an_option_reaches_what_the_cluster_has(
    fleet: World, access: dict[str, str], tmp_path: Path, line: str, look: Look, expected: object
) -> None:
    contents = {
        "values": {"klusterlet": {"externalServerURLs": [{"url": "https://here"}]}, "replicaCount": 2},
        "overrides": {"ocm": "v8"},
        "credential": CREDENTIAL,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content))
    ca = fleet.hub.cluster.ca
    files = {name: str(tmp_path / name) for name in contents} | {"ca": str(ca)}
    fleet.ok(*words(access), *line.format(**files).split()[1:], context=MANAGED)
    if isinstance(expected, tuple):
        expected = tuple(ca.read_bytes().strip() if one == "{ca}" else one for one in expected)
    assert look(Joined(fleet.managed.client())) == expected


@shows("join", "--hub-token", "--hub-apiserver", "--cluster-name", "--output-file")
def test_agents_are_told_the_hub_the_token_and_their_name(fleet: World, access: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "applied.yaml"
    fleet.ok(*words(access), "--output-file", str(file), context=MANAGED)
    made = Joined(fleet.managed.client())
    assert made.klusterlet["clusterName"] == "here"
    assert (made.kubeconfig()["server"], made.kubeconfig()["token"]) == (access["hub-apiserver"], access["hub-token"])
    written = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(file.read_text())}
    assert {("Klusterlet", "klusterlet"), ("Deployment", "klusterlet"), ("Secret", "bootstrap-hub-kubeconfig")} <= written
    assert file.stat().st_mode & 0o077 == 0, "there is a token in it"


def test_an_option_that_is_not_given_again_is_taken_back(fleet: World, access: dict[str, str]) -> None:
    fleet.ok(*words(access), "--singleton", "--klusterlet-annotation", "site=north", context=MANAGED)
    fleet.ok(*words(access), context=MANAGED)
    made = Joined(fleet.managed.client())
    assert made.klusterlet["deployOption"]["mode"] == "Default"
    assert "clusterAnnotations" not in made.registration


@shows("join", "--ca-file")
def test_an_authority_from_a_file_is_the_one_that_counts(fleet: World, access: dict[str, str], tmp_path: Path) -> None:
    fleet.ok(*words(access, hub_ca_hash="", ca_file=str(fleet.hub.cluster.ca)), context=MANAGED)
    assert Joined(fleet.managed.client()).authority == fleet.hub.cluster.ca.read_bytes().strip()
    other = Authority(tmp_path, "other").pair.cert
    assert "certificate" in fleet.fails(*words(access, hub_ca_hash="", ca_file=str(other)), context=MANAGED)


@shows("join", "--insecure-skip-ca-verification")
def test_whoever_wants_to_may_believe_a_hub_that_is_not_proved(fleet: World, access: dict[str, str]) -> None:
    unproved = words(access, hub_ca_hash="")
    assert "nothing proves" in fleet.fails(*unproved, context=MANAGED)
    told = fleet.run(*unproved, "--insecure-skip-ca-verification", context=MANAGED)
    assert told.exit_code == 0
    assert "is not verified, and receives the token" in told.stderr
    assert Joined(fleet.managed.client()).authority == fleet.hub.cluster.ca.read_bytes().strip()


@shows("join", "--force-internal-endpoint-lookup")
def test_agents_may_go_where_the_hub_says_instead_of_where_it_was_found(fleet: World, access: dict[str, str]) -> None:
    link = Link(fleet.hub.cluster.url)
    try:
        found = link.url(fleet.hub.cluster.url)
        for flags, server in (([], found), (["--force-internal-endpoint-lookup"], fleet.hub.cluster.url)):
            fleet.ok(*words(access, hub_apiserver=found), *flags, context=MANAGED)
            assert Joined(fleet.managed.client()).kubeconfig()["server"] == server
    finally:
        link.close()


@shows("join", "--force")
def test_a_name_and_a_cluster_are_taken_by_force_only(fleet: World, access: dict[str, str]) -> None:
    fleet.ok(*words(access), context=MANAGED)
    fleet.hub.wait_reply(lambda: fleet.hub.admin.post(MANAGED_CLUSTERS, managed_cluster("taken")), "ManagedCluster", 201, 409)
    alive = [
        {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("ManagedClusterJoined", "ManagedClusterConditionAvailable")
    ]
    fleet.hub.admin.patch(f"{MANAGED_CLUSTERS}/taken/status", {"status": {"conditions": alive}}).expect(200)
    made = Joined(fleet.managed.client())
    assert "managed already, as here" in fleet.fails(*words(access, cluster_name="taken"), context=MANAGED)
    assert made.klusterlet["clusterName"] == "here"
    fleet.ok(*words(access, cluster_name="taken"), "--force", context=MANAGED)
    assert made.klusterlet["clusterName"] == "taken"
    fleet.ok(*words(access), "--force", context=MANAGED)


@shows("join", "--create-namespace")
def test_namespaces_may_be_somebody_elses_to_make(fleet: World, access: dict[str, str]) -> None:
    managed = fleet.managed.client()
    names = (BOOTSTRAP_NAMESPACE, AGENT_NAMESPACE)
    for name in names:
        managed.delete(f"/api/v1/namespaces/{name}").expect(200, 404)
        fleet.hub.wait_reply(lambda name=name: managed.get(f"/api/v1/namespaces/{name}"), "to be gone", 404)  # type: ignore[misc]
    told = fleet.fails(*words(access), "--create-namespace", "false", context=MANAGED)
    assert f'"{BOOTSTRAP_NAMESPACE}" not found' in told
    for name in names:
        managed.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    fleet.ok(*words(access), "--create-namespace", "false", context=MANAGED)
    for name in names:
        found = managed.get(f"/api/v1/namespaces/{name}").expect(200)
        assert "clusteradm" not in {one["manager"] for one in found["metadata"]["managedFields"]}
    assert Joined(managed).klusterlet["clusterName"] == "here"


@shows("join", "--mode", "--managed-cluster-kubeconfig", "--force-internal-endpoint-lookup-managed", "--singleton")
def test_a_hosted_cluster_brings_the_way_to_it(fleet: World, access: dict[str, str]) -> None:
    managed, hub = fleet.managed.client(), fleet.hub.admin
    info = {"clusters": [{"name": "", "cluster": {"server": INSIDE}}], "kind": "Config", "apiVersion": "v1"}
    body = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": yaml.safe_dump(info)}}
    managed.post("/api/v1/namespaces/kube-public/configmaps", body).expect(201, 409)
    way = ["--mode", "hosted", "--managed-cluster-kubeconfig", str(fleet.managed.kubeconfig)]
    inside = [*way, "--force-internal-endpoint-lookup-managed", "--singleton"]
    for flags, mode, server in ((way, "Hosted", fleet.managed.url), (inside, "SingletonHosted", INSIDE)):
        fleet.ok(*words(access, cluster_name="far"), *flags, context=HUB)
        (found,) = (one for one in hub.get(KLUSTERLETS).expect(200)["items"] if one["spec"]["clusterName"] == "far")
        name = found["metadata"]["name"]
        made = Joined(hub, name, name)
        assert made.klusterlet["deployOption"]["mode"] == mode
        assert made.kubeconfig("external-managed-kubeconfig")["server"] == server
        assert made.kubeconfig()["server"] == access["hub-apiserver"]


@shows("join", "--capi-import", "--capi-cluster-name")
def test_a_cluster_of_cluster_api_is_found_by_its_secret(fleet: World, access: dict[str, str]) -> None:
    line = [*words(access), "--singleton", "--capi-import", "--capi-cluster-name"]
    assert "made-kubeconfig" in fleet.fails(*line, "default/made", context=HUB)
    content = {"value": base64.b64encode(fleet.managed.kubeconfig.read_bytes()).decode()}
    body = {"metadata": {"name": "made-kubeconfig"}, "data": content}
    fleet.hub.admin.post("/api/v1/namespaces/default/secrets", body).expect(201)
    fleet.ok(*line, "default/made", context=HUB)
    assert Joined(fleet.managed.client()).klusterlet["deployOption"]["mode"] == "Singleton"
    fleet.hub.admin.delete("/api/v1/namespaces/default/secrets/made-kubeconfig").expect(200)
