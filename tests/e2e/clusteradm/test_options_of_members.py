"""Every option of the commands about members: what it changes, on a server that checks what is written.

`OPTIONS` has each option of `join` with what it brings into the Klusterlet, its Secret or the operator; an option that is missing
in this module fails a test. Joining is tried with `--dry-run` and `--output-file`: the server checks all of it, and keeps none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from muster.cli.clusteradm import main
from muster.cli.connection import connected
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import AGENT_NAMESPACE

CLUSTER = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default"
WORKS = "/apis/work.open-cluster-management.io/v1"
ADDON = "/apis/addon.open-cluster-management.io/v1alpha1"
ARN = "arn:aws:eks:us-west-2:{}:cluster/c"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A hub, and a managed cluster that has joined it as `here`."""
    with open_world(tmp_path_factory.mktemp("options")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        world.ok("join", *access(world), "--cluster-name", "here", context=MANAGED)
        for name in ("c1", "c2"):
            world.cluster(name)
        yield world


def access(fleet: World) -> list[str]:
    told = json.loads(fleet.ok("get", "token", "-o", "json"))
    return [word for key, value in told.items() for word in (f"--{key}", value)]


class Joined:
    """What `join` would have applied."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self._documents = documents

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        return next(one for one in self._documents if one["kind"] == kind and name in one["metadata"]["name"])

    @property
    def klusterlet(self) -> dict[str, Any]:
        return dict(self.one("Klusterlet")["spec"])

    @property
    def registration(self) -> dict[str, Any]:
        return dict(self.klusterlet["registrationConfiguration"])

    @property
    def operator(self) -> dict[str, Any]:
        return dict(self.one("Deployment")["spec"]["template"]["spec"]["containers"][0])

    @property
    def bootstrap(self) -> dict[str, Any]:
        secret = self.one("Secret", "bootstrap-hub-kubeconfig")["data"]
        kubeconfig = yaml.safe_load(base64.b64decode(secret["kubeconfig"]))
        return {**secret, "cluster": kubeconfig["clusters"][0]["cluster"], "user": kubeconfig["users"][0]["user"]}


def joined(fleet: World, directory: Path, *words: str, name: str = "here") -> Joined:
    file = directory / "applied.yaml"
    line = ["join", *access(fleet), "--cluster-name", name, "--dry-run", "--force", "--output-file", str(file), *words]
    done = fleet.run(*line, context=MANAGED)
    assert done.exit_code == 0, done.output
    return Joined(list(yaml.safe_load_all(file.read_text())))


Look = Callable[[Joined], object]
OPTIONS: dict[str, tuple[str, Look, object]] = {
    "--singleton": ("--singleton", lambda made: made.klusterlet["deployOption"]["mode"], "Singleton"),
    "--proxy-url": (
        "--ca-file {ca} --proxy-url http://127.0.0.1:9",
        lambda made: made.bootstrap["cluster"]["proxy-url"],
        "http://127.0.0.1:9",
    ),
    "--client-cert-expiration-seconds": (
        "--client-cert-expiration-seconds 7200",
        lambda made: made.registration["clientCertExpirationSeconds"],
        7200,
    ),
    "--registration-auth": (
        f"--registration-auth awsirsa --hub-cluster-arn {ARN.format('1' * 12)} --managed-cluster-arn {ARN.format('2' * 12)}",
        lambda made: made.registration["registrationDriver"],
        {
            "authType": "awsirsa",
            "awsIrsa": {"hubClusterArn": ARN.format("1" * 12), "managedClusterArn": ARN.format("2" * 12)},
        },
    ),
    "--grpc-server": (
        "--registration-auth grpc --grpc-server hub:8090 --grpc-ca-file {ca}",
        lambda made: yaml.safe_load(base64.b64decode(made.bootstrap["config.yaml"]))["url"],
        "hub:8090",
    ),
    "--addon-kubeclient-registration-auth": (
        "--addon-kubeclient-registration-auth token --addon-token-expiration-seconds 3600",
        lambda made: made.registration["addOnKubeClientRegistrationDriver"],
        {"authType": "token", "token": {"expirationSeconds": 3600}},
    ),
    "--klusterlet-annotation": (
        "--klusterlet-annotation site=north",
        lambda made: made.registration["clusterAnnotations"],
        {"agent.open-cluster-management.io/site": "north"},
    ),
    "--klusterlet-values-file": (
        "--klusterlet-values-file {values}",
        lambda made: made.klusterlet["externalServerURLs"],
        [{"url": "https://here"}],
    ),
    "--ca-file": (
        "--ca-file {ca}",
        lambda made: base64.b64decode(made.bootstrap["cluster"]["certificate-authority-data"])[:10],
        b"-----BEGIN",
    ),
    "--insecure-skip-ca-verification": (
        "--insecure-skip-ca-verification",
        lambda made: "insecure-skip-tls-verify" in made.bootstrap["cluster"],
        False,
    ),
    "--force-internal-endpoint-lookup": (
        "--force-internal-endpoint-lookup",
        lambda made: made.bootstrap["cluster"]["server"].startswith("https://"),
        True,
    ),
    "--feature-gates": (
        "--feature-gates ClusterClaim=false",
        lambda made: made.registration["featureGates"],
        [{"feature": "ClusterClaim", "mode": "Disable"}],
    ),
    "--image-registry": (
        "--image-registry example.io/team",
        lambda made: made.operator["image"].split(":")[0],
        "example.io/team/muster",
    ),
    "--bundle-version": ("--bundle-version v9", lambda made: made.operator["image"], "muster:v9"),
    "--bundle-version-overrides": ("--bundle-version-overrides {overrides}", lambda made: made.operator["image"], "muster:v8"),
    "--image-pull-credential-file": (
        "--image-pull-credential-file {credential}",
        lambda made: made.one("Secret", "image-pull-credentials")["type"],
        "kubernetes.io/dockerconfigjson",
    ),
    "--resource-qos-class": (
        "--resource-qos-class ResourceRequirement --resource-limits memory=1Gi --resource-requests cpu=5m --bundle-version v9",
        lambda made: made.operator["resources"],
        {"limits": {"memory": "1Gi"}, "requests": {"cpu": "5m"}},
    ),
    "--create-namespace": (
        "--create-namespace false --bundle-version v9",
        lambda made: made.one("Deployment")["metadata"]["namespace"],
        "open-cluster-management",
    ),
}
ELSEWHERE = {
    # Of join: said in every case above, or shown below.
    "--hub-token",
    "--hub-apiserver",
    "--cluster-name",
    "--hub-ca-hash",
    "--output-file",
    "--force",
    "--mode",
    "--managed-cluster-kubeconfig",
    "--force-internal-endpoint-lookup-managed",
    "--capi-import",
    "--capi-cluster-name",
    "--proxy-ca-file",
    # Where a wait ends, the life of a managed cluster shows.
    "--wait",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_of_join_reaches_what_is_applied(fleet: World, tmp_path: Path, option: str) -> None:
    words, look, expected = OPTIONS[option]
    files = {
        "values": {"klusterlet": {"externalServerURLs": [{"url": "https://here"}]}},
        "overrides": {"ocm": "v8"},
        "credential": {"auths": {"example.io": {"auth": "eDp5"}}},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    places = {name: str(tmp_path / name) for name in files} | {"ca": str(fleet.hub.cluster.ca)}
    assert look(joined(fleet, tmp_path, *words.format(**places).split())) == expected


def test_a_hosted_cluster_brings_the_way_to_it(fleet: World, tmp_path: Path) -> None:
    managed = ["--mode", "hosted", "--managed-cluster-kubeconfig", str(fleet.hub.cluster.kubeconfig)]
    for words in (managed, [*managed, "--force-internal-endpoint-lookup-managed", "--singleton"]):
        made = joined(fleet, tmp_path, *words, name="far")
        assert made.klusterlet["deployOption"]["mode"] == ("SingletonHosted" if "--singleton" in words else "Hosted")
        way = yaml.safe_load(base64.b64decode(made.one("Secret", "external-managed-kubeconfig")["data"]["kubeconfig"]))
        assert way["clusters"][0]["cluster"]["server"].startswith("https://")


def test_a_cluster_of_cluster_api_is_found_by_its_secret(fleet: World, tmp_path: Path) -> None:
    content = {"value": base64.b64encode(fleet.managed.kubeconfig.read_bytes()).decode()}
    secret = {"metadata": {"name": "made-kubeconfig"}, "data": content}
    fleet.hub.admin.post("/api/v1/namespaces/default/secrets", secret).expect(201)
    line = ["join", *access(fleet), "--cluster-name", "here", "--dry-run", "--capi-import", "--capi-cluster-name", "default/made"]
    assert "would apply klusterlets.operator.open-cluster-management.io klusterlet" in fleet.ok(*line, context=HUB)


def test_an_authority_of_a_proxy_goes_with_that_of_the_hub(fleet: World, tmp_path: Path) -> None:
    ca = fleet.hub.cluster.ca
    made = joined(fleet, tmp_path, "--ca-file", str(ca), "--proxy-ca-file", str(ca), "--proxy-url", "http://127.0.0.1:9")
    authorities = base64.b64decode(made.bootstrap["cluster"]["certificate-authority-data"])
    assert authorities.count(b"BEGIN CERTIFICATE") == 2


def test_options_of_works(fleet: World, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "default"}}
    (tmp_path / "below" / "one.json").write_text(json.dumps(manifest))
    create = ["create", "work", "web", "--filename", str(tmp_path)]
    assert "there is no manifest" in fleet.fails(*create, "--clusters", "c1")
    placement = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "near"}}
    fleet.hub.admin.post(f"{CLUSTER}/placements", {**placement, "spec": {}}).expect(201)
    label = {"cluster.open-cluster-management.io/placement": "near"}
    decision = {**placement, "kind": "PlacementDecision", "metadata": {"name": "near-1", "labels": label}}
    fleet.hub.admin.post(f"{CLUSTER}/placementdecisions", decision).expect(201)
    for chosen, said in ((["c1", "c2"], "create work web in cluster c2"), (["c1"], "delete work web in cluster c2")):
        status = {"status": {"decisions": [{"clusterName": name, "reason": ""} for name in chosen]}}
        fleet.hub.admin.patch(f"{CLUSTER}/placementdecisions/near-1/status", status).expect(200)
        assert said in fleet.ok(*create, "--recursive", "--placement", "default/near", "--overwrite")
    complaint = fleet.fails(*create, "--recursive", "--clusters", "c1", "--overwrite", "--wait", "--timeout", "1")
    assert "the cluster's agent has not dealt with it yet" in complaint
    fleet.ok(*create, "--recursive", "--placement", "default/near", "--replicaset")
    made = fleet.hub.admin.get("/apis/work.open-cluster-management.io/v1alpha1/namespaces/default/manifestworkreplicasets/web")
    assert made.expect(200)["spec"]["placementRefs"][0]["name"] == "near"
    fleet.ok("delete", "work", "web", "--replicaset", "default")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    fleet.hub.admin.patch(f"{WORKS}/namespaces/c1/manifestworks/web", held).expect(200)
    assert "is still there in c1" in fleet.fails("delete", "work", "web", "--clusters", "c1", "--wait", "--timeout", "1")
    fleet.ok("delete", "work", "web", "--clusters", "c1", "--force")
    assert fleet.hub.read(f"{WORKS}/namespaces/c1/manifestworks/web") is None


def test_options_of_addons(fleet: World, tmp_path: Path) -> None:
    kind = {"apiVersion": ADDON.removeprefix("/apis/")}
    addon = {**kind, "kind": "ClusterManagementAddOn", "metadata": {"name": "metrics"}, "spec": {}}
    fleet.hub.admin.post(f"{ADDON}/clustermanagementaddons", addon).expect(201)
    config = {**kind, "kind": "AddOnDeploymentConfig", "metadata": {"name": "small", "namespace": "default"}, "spec": {}}
    file, output = tmp_path / "config.json", tmp_path / "applied.yaml"
    file.write_text(json.dumps(config))
    words = ["--namespace", "metrics-system", "--annotate", "a=1", "--labels", "team=x", "--config-file", str(file)]
    fleet.ok("addon", "enable", "--names", "metrics", "--clusters", "c1,c2", *words, "--output-file", str(output))
    found = fleet.hub.admin.get(f"{ADDON}/namespaces/c1/managedclusteraddons/metrics").expect(200)
    assert found["spec"]["installNamespace"] == "metrics-system"
    assert found["spec"]["configs"][0]["name"] == "small"
    assert found["metadata"]["annotations"]["a"] == "1"
    assert found["metadata"]["labels"] == {"team": "x"}
    assert len(list(yaml.safe_load_all(output.read_text()))) == 3
    table = fleet.ok("addon", "list", "--clusters", "c1", "--output", "table").splitlines()
    assert table[1].split()[:2] == ["metrics", "1"]
    fleet.ok("addon", "disable", "--names", "metrics", "--all-clusters", "true")
    assert fleet.hub.read(f"{ADDON}/namespaces/c2/managedclusteraddons/metrics") is None


def test_options_of_unjoin(fleet: World, tmp_path: Path) -> None:
    """The last one: the cluster leaves. Nobody runs its operator, so nothing holds its Klusterlet."""
    fleet.cluster("here")
    file = tmp_path / "done"
    line = ["unjoin", "--cluster-name", "here", "--output-file", str(file)]
    hub = ["--hub-kubeconfig", str(fleet.kubeconfig), "--hub-context", HUB]
    fleet.ok(*line, *hub, "--dry-run", context=MANAGED)
    assert "delete managedclusters.cluster.open-cluster-management.io here" in file.read_text().splitlines()
    said = fleet.ok(*line, *hub, "--purge-operator", "false", "--force", context=MANAGED)
    assert "ManagedCluster here is deleted on the hub" in said
    operator = "/apis/apps/v1/namespaces/open-cluster-management/deployments/klusterlet"
    assert fleet.managed.client().get(operator).status == 200
    assert fleet.managed.client().get(f"/api/v1/namespaces/{AGENT_NAMESPACE}").status == 404
    fleet.ok(*line, context=MANAGED)
    assert fleet.managed.client().get(operator).status == 404


def options_of(*path: str) -> list[tuple[str, ...]]:
    """All spellings of each option that is the command's own."""
    command: click.Command = main
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    everywhere = {parameter.name for parameter in connected(click.Command("any")).params}
    own = [one for one in command.params if isinstance(one, click.Option) and one.name not in everywhere]
    return [tuple(spelling for spelling in one.opts if spelling.startswith("--")) for one in own]


def test_no_option_of_join_is_missing_here() -> None:
    said = {word for words, _, _ in OPTIONS.values() for word in words.split() if word.startswith("--")} | ELSEWHERE
    known = options_of("join")
    assert [spellings for spellings in known if not said & set(spellings)] == []
    assert said <= {spelling for spellings in known for spelling in spellings}


@pytest.mark.parametrize("path", ["unjoin", "create work", "delete work", "addon enable", "addon disable", "addon list"])
def test_no_option_of_the_others_is_missing_here(path: str) -> None:
    text = Path(__file__).read_text()
    assert [spellings for spellings in options_of(*path.split()) if not any(f'"{one}"' in text for one in spellings)] == []
