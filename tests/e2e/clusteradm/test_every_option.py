"""Every option of every command, on any API server: what it does is seen in what would be applied, or in what a hub then has.

Where an option only shapes what is installed, a dry run is enough: the server checks the objects, and `--output-file` has them.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from muster.cli.clusteradm import main
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World
from tests.support.administrator import CSRS
from tests.support.peers import ROOT
from tests.support.planes import write_kubeconfig

Document = dict[str, Any]
ARN = "arn:aws:eks:us-west-2:123456789012:cluster/"
EVERYWHERE = {"-v"}
"""Hidden: how much is logged."""


def options(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Option]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found, f"{path} {name}".strip())
    else:
        yield from ((path, one) for one in command.params if isinstance(one, click.Option))


def test_every_option_is_used_in_an_end_to_end_test() -> None:
    """Somewhere here; that it is used with each command that has it, people have to see to."""
    text = "\n".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))

    def is_used(option: click.Option) -> bool:
        return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in option.opts)

    unused = {f"{path} {one.opts[0]}" for path, one in options(main) if one.opts[0] not in EVERYWHERE and not is_used(one)}
    assert unused == set()


@pytest.fixture
def applied(world: World, tmp_path: Path) -> Any:
    """What a command would apply, by kind."""

    def run(*words: str, context: str = HUB) -> dict[str, list[Document]]:
        path = tmp_path / "applied.yaml"
        before = world.objects(context)
        world.ok(*words, "--dry-run", "--output-file", str(path), context=context)
        assert world.objects(context) == before
        found: dict[str, list[Document]] = {}
        for document in yaml.safe_load_all(path.read_text()):
            found.setdefault(document["kind"], []).append(document)
        return found

    return run


def container(documents: dict[str, list[Document]]) -> Document:
    found: Document = documents["Deployment"][0]["spec"]["template"]["spec"]["containers"][0]
    return found


def join_words(world: World, name: str = "optional", *, hashed: bool = True) -> list[str]:
    told = json.loads(world.ok("get", "token", "-o", "json"))
    words = ["join", "--hub-token", told["hub-token"], "--hub-apiserver", told["hub-apiserver"], "--cluster-name", name]
    return [*words, *(["--hub-ca-hash", told["hub-ca-hash"]] if hashed else [])]


@pytest.fixture
def joined(world: World, applied: Any) -> Any:
    def run(*words: str) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = applied(*join_words(world), *words, context=MANAGED)
        return found

    return run


@pytest.mark.parametrize("verb", ["init", "join"])
def test_images_namespaces_and_resources(applied: Any, joined: Any, tmp_path: Path, verb: str) -> None:
    run = (lambda *words: applied("init", *words)) if verb == "init" else joined
    overrides, credential = tmp_path / "versions.yaml", tmp_path / "config.json"
    overrides.write_text("ocm: v7\n")
    credential.write_text('{"auths":{"registry.example":{"auth":"dTpw"}}}')
    found = run("--image-registry", "registry.example/ops", "--bundle-version-overrides", str(overrides))
    assert container(found)["image"] == "registry.example/ops/muster:v7"
    found = run(
        *("--resource-qos-class", "ResourceRequirement", "--resource-requests", "cpu=20m,memory=99Mi"),
        *("--resource-limits", "memory=1Gi", "--image-pull-credential-file", str(credential)),
    )
    assert container(found)["resources"] == {"requests": {"cpu": "20m", "memory": "99Mi"}, "limits": {"memory": "1Gi"}}
    assert "open-cluster-management-image-pull-credentials" in {one["metadata"]["name"] for one in found["Secret"]}


def test_a_namespace_that_is_not_to_be_made_must_be_there(world: World, applied: Any) -> None:
    assert "Namespace" not in applied("init", "--create-namespace", "false"), "the hub has it"
    told = world.fails(*join_words(world), "--create-namespace", "false", context=MANAGED)
    assert "open-cluster-management" in told


def test_init_with_other_drivers(world: World, applied: Any, tmp_path: Path) -> None:
    script = tmp_path / "join.sh"
    words = ["init", "--registration-drivers", "csr,awsirsa,grpc", "--feature-gates", "ManagedClusterAutoApproval=true"]
    words += ["--hub-cluster-arn", f"{ARN}hub", "--aws-resource-tags", "team=ops", "--auto-approved-arn-patterns", f"{ARN}.*"]
    words += ["--grpc-server", "grpc.example:8090", "--grpc-endpoint-type", "loadBalancer", "--enable-sync-labels"]
    words += ["--auto-approved-grpc-identities", "bob", "--auto-approved-csr-identities", "alice"]
    found = applied(*words, "--output-join-command-file", str(script))
    (manager,) = found["ClusterManager"]
    drivers = {one["authType"]: one for one in manager["spec"]["registrationConfiguration"]["registrationDrivers"]}
    assert drivers.keys() == {"csr", "awsirsa", "grpc"}
    assert drivers["awsirsa"]["awsirsa"]["hubClusterArn"] == f"{ARN}hub"
    assert drivers["awsirsa"]["awsirsa"]["tags"] == ["team=ops"]
    assert drivers["awsirsa"]["awsirsa"]["autoApprovedIdentities"] == [f"{ARN}.*"]
    assert drivers["grpc"]["grpc"]["autoApprovedIdentities"] == ["bob"]
    assert "alice" in drivers["csr"]["csr"]["autoApprovedIdentities"]
    assert "loadBalancer" in json.dumps(manager)
    assert "--enable-sync-labels" in container(found)["args"]
    assert script.read_text().rstrip().endswith("--cluster-name $1")


@pytest.mark.parametrize("flags", [["--singleton"], ["--singleton-name", "small"]])
def test_a_hub_in_one_process_is_made_otherwise(world: World, flags: list[str]) -> None:
    assert "muster up" in world.fails("init", *flags, code=2)


def test_init_with_values_of_the_chart_and_without_checks(applied: Any, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("replicaCount: 2\n")
    found = applied("init", "--cluster-manager-values-file", str(values), "--force")
    assert found["Deployment"][0]["spec"]["replicas"] == 2


def test_join_with_everything_that_shapes_the_klusterlet(joined: Any) -> None:
    found = joined(
        *("--client-cert-expiration-seconds", "86400", "--klusterlet-annotation", "rack=r1", "--singleton"),
        *("--addon-kubeclient-registration-auth", "token", "--addon-token-expiration-seconds", "7200"),
        *("--feature-gates", "ClusterClaim=false"),
    )
    (klusterlet,) = found["Klusterlet"]
    registration = klusterlet["spec"]["registrationConfiguration"]
    assert registration["clientCertExpirationSeconds"] == 86400
    assert registration["clusterAnnotations"] == {"agent.open-cluster-management.io/rack": "r1"}
    assert registration["addOnKubeClientRegistrationDriver"] == {"authType": "token", "token": {"expirationSeconds": 7200}}
    assert registration["featureGates"] == [{"feature": "ClusterClaim", "mode": "Disable"}]
    assert klusterlet["spec"]["deployOption"]["mode"] == "Singleton"


def test_join_with_values_of_the_chart(joined: Any, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("replicaCount: 2\n")
    assert joined("--klusterlet-values-file", str(values))["Deployment"][0]["spec"]["replicas"] == 2


def test_join_by_other_drivers(joined: Any, world: World) -> None:
    aws = joined("--registration-auth", "awsirsa", "--hub-cluster-arn", f"{ARN}hub", "--managed-cluster-arn", f"{ARN}one")
    driver = aws["Klusterlet"][0]["spec"]["registrationConfiguration"]["registrationDriver"]
    assert driver == {"authType": "awsirsa", "awsIrsa": {"hubClusterArn": f"{ARN}hub", "managedClusterArn": f"{ARN}one"}}
    grpc = joined("--registration-auth", "grpc", "--grpc-server", "grpc.example:8090", "--grpc-ca-file", str(world.hub.cluster.ca))
    assert grpc["Klusterlet"][0]["spec"]["registrationConfiguration"]["registrationDriver"]["authType"] == "grpc"


def test_join_says_where_agents_find_the_hub(world: World, joined: Any, tmp_path: Path) -> None:
    def server(found: dict[str, list[Document]]) -> Document:
        (secret,) = (one for one in found["Secret"] if one["metadata"]["name"] == "bootstrap-hub-kubeconfig")
        told: Document = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))["clusters"][0]["cluster"]
        return told

    assert server(joined("--force-internal-endpoint-lookup"))["server"] == world.hub.cluster.url
    unverified = applied_without_proof(world, tmp_path)
    assert server(unverified)["server"] == world.hub.cluster.url


def applied_without_proof(world: World, tmp_path: Path) -> dict[str, list[Document]]:
    path = tmp_path / "unverified.yaml"
    words = [*join_words(world, hashed=False), "--insecure-skip-ca-verification", "--dry-run", "--output-file", str(path)]
    world.ok(*words, context=MANAGED)
    found: dict[str, list[Document]] = {}
    for document in yaml.safe_load_all(path.read_text()):
        found.setdefault(document["kind"], []).append(document)
    return found


def test_join_through_a_proxy_that_is_away_is_explained(world: World) -> None:
    words = [*join_words(world), "--proxy-url", "http://127.0.0.1:9", "--proxy-ca-file", str(world.hub.cluster.ca)]
    before = world.objects(MANAGED)
    assert "127.0.0.1" in world.fails(*words, context=MANAGED)
    assert world.objects(MANAGED) == before


def test_a_hosted_cluster_is_joined_from_elsewhere(world: World, tmp_path: Path) -> None:
    managed = tmp_path / "managed.kubeconfig"
    write_kubeconfig(managed, world.managed.url, world.managed.ca, {"token": "admin-static-token"})
    words = [*join_words(world, "far"), "--mode", "hosted", "--managed-cluster-kubeconfig", str(managed), "--dry-run"]
    before = world.objects(HUB), world.objects(MANAGED)
    assert "would " in world.ok(*words)
    told = world.run(*words, "--force-internal-endpoint-lookup-managed")
    assert told.exit_code == 0 or "cluster-info" in told.output
    assert (world.objects(HUB), world.objects(MANAGED)) == before


def test_a_cluster_of_cluster_api_that_is_not_there_is_named(world: World) -> None:
    words = [*join_words(world), "--capi-import", "--capi-cluster-name", "fleet/tenant"]
    assert "tenant" in world.fails(*words, context=HUB)


def test_requesters_choose_whose_requests_are_approved(world: World) -> None:
    world.cluster("choosy")
    before = world.hub.read(CSRS)
    told = world.run("accept", "--clusters", "choosy", "--requesters", "system:open-cluster-management:choosy:other")
    assert told.exit_code in (0, 1)
    assert (world.hub.read(CSRS) or {})["items"] == (before or {})["items"]


def test_addons_get_annotations_labels_and_a_namespace(world: World) -> None:
    group = "addon.open-cluster-management.io/v1alpha1"
    world.cluster("decorated")
    definition = {"apiVersion": group, "kind": "ClusterManagementAddOn", "metadata": {"name": "gauge"}, "spec": {}}
    world.hub.admin.post(f"/apis/{group}/clustermanagementaddons", definition).expect(201, 409)
    words = ["--annotate", "why=because", "--labels", "tier=one", "--namespace", "gauges"]
    world.ok("addon", "enable", "--names", "gauge", "--clusters", "decorated", *words)
    found = world.hub.read(f"/apis/{group}/namespaces/decorated/managedclusteraddons/gauge") or {}
    assert found["metadata"]["annotations"]["why"] == "because"
    assert found["metadata"]["labels"]["tier"] == "one"
    assert found["spec"]["installNamespace"] == "gauges"
    world.ok("addon", "disable", "--names", "gauge", "--all-clusters")


def test_sets_give_their_clusters_namespaces(world: World) -> None:
    world.ok("clusterset", "create", "roomy")
    # At once, while the hub's controllers write to the set.
    world.ok("clusterset", "set", "roomy", "--namespaces", "tenant")
    found = world.hub.read("/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets/roomy") or {}
    assert found["spec"]["managedNamespaces"] == [{"name": "tenant"}]
    world.ok("clusterset", "delete", "roomy")


def test_directories_of_manifests(world: World, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name, directory in (("top", tmp_path), ("deep", tmp_path / "below")):
        (directory / f"{name}.yaml").write_text(
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n"
        )
    world.cluster("reader")
    place = "/apis/work.open-cluster-management.io/v1/namespaces/reader/manifestworks"
    for name, flags, count in (("flat", (), 1), ("whole", ("-R",), 2)):
        world.ok("create", "work", name, "-f", str(tmp_path), "--clusters", "reader", *flags)
        assert len((world.hub.read(f"{place}/{name}") or {})["spec"]["workload"]["manifests"]) == count
        world.ok("delete", "work", name, "--clusters", "reader", "--force")


def test_lists_can_be_narrowed(world: World) -> None:
    world.cluster("narrow")
    world.hub.patch("narrow", {"metadata": {"labels": {"tier": "gold"}}}).expect(200)
    assert "narrow" in world.ok("get", "clusters", "-l", "tier=gold")
    assert "narrow" not in world.ok("get", "clusters", "-l", "tier=lead")
    assert "narrow" in world.ok("get", "clusters", "--clusterset", "default")
    assert "server" not in json.loads(world.ok("version", "--client", "-o", "json"))


@pytest.mark.parametrize("kind", ["clusters", "works", "addons", "placements", "clustersets"])
def test_lists_can_be_watched(world: World, kind: str) -> None:
    world.cluster("watched")
    command = [str(ROOT / ".venv/bin/clusteradm"), "--kubeconfig", str(world.kubeconfig), "get", kind, "-w", "-o", "table"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("NAME")
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=20)
    assert "Traceback" not in errors


def test_the_managed_side_can_be_looked_at_too(world: World) -> None:
    world.cluster("silent")
    told = world.run("doctor", "silent", "--managed-cluster-context", MANAGED)
    assert told.exit_code == 1
    assert "lusterlet" in told.stdout
    assert "name the one cluster" in world.fails("doctor", "--managed-cluster-context", MANAGED, code=2)


def test_operators_may_stay(world: World) -> None:
    """Seen in what would be removed."""
    whole, kept = (world.run("clean", "--force", "--dry-run", "--purge-operator", value).output for value in ("true", "false"))
    assert "deployments.apps" in whole
    assert "deployments.apps" not in kept
    told = world.ok("unjoin", "--cluster-name", "nobody", "--purge-operator", "false", "--hub-context", HUB, context=MANAGED)
    assert "nothing was changed" in told
