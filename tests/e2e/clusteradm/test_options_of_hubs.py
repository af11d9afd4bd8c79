"""Every option of `init`, `upgrade` and `clean`: what it changes in what the hub then has.

All is done for real, and read from the server. Nobody runs the operator here, so a hub can be made again and again with other
options, and is gone at once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusteradm.claims import row, shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import BOOTSTRAP_NAMESPACE, MANAGED_CLUSTERS, managed_cluster, read_secret
from tests.support.peers import ROOT

OPERATORS = f"/apis/apps/v1/namespaces/{BOOTSTRAP_NAMESPACE}/deployments"
PARTS = "/apis/apps/v1/namespaces/default/deployments"
GROUP = "operator.open-cluster-management.io/v1"
MANAGERS = f"/apis/{GROUP}/clustermanagers"
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
ARN = "arn:aws:eks:us-west-2:123456789012:cluster/"
CREDENTIAL = {"auths": {"example.io": {"auth": "eDp5"}}}
AMOUNTS = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "5m"}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("hubs")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        yield world


class Made:
    """What a hub has."""

    def __init__(self, world: World) -> None:
        self.admin = world.hub.admin

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.admin.get(f"{MANAGERS}/cluster-manager").expect(200)["spec"])

    @property
    def drivers(self) -> dict[str, Any]:
        return {one["authType"]: one.get(one["authType"]) for one in self.spec["registrationConfiguration"]["registrationDrivers"]}

    @property
    def deployment(self) -> dict[str, Any]:
        return dict(self.admin.get(f"{OPERATORS}/cluster-manager").expect(200)["spec"])

    @property
    def operator(self) -> dict[str, Any]:
        return dict(self.deployment["template"]["spec"]["containers"][0])

    @property
    def credential(self) -> object:
        found = read_secret(self.admin, BOOTSTRAP_NAMESPACE, "open-cluster-management-image-pull-credentials")
        return json.loads(found[".dockerconfigjson"])


Look = Callable[[Made], object]
APPROVED = "--feature-gates ManagedClusterAutoApproval=true"


@pytest.mark.parametrize(
    ("line", "look", "expected"),
    [
        row(
            f"init --registration-drivers csr {APPROVED} --auto-approved-csr-identities alice,carol",
            lambda made: (made.drivers, made.spec["registrationConfiguration"]["featureGates"]),
            (
                {"csr": {"autoApprovedIdentities": ["alice", "carol"]}},
                [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}],
            ),
        ),
        row(
            f"init --registration-drivers awsirsa {APPROVED} --hub-cluster-arn {ARN}hub --aws-resource-tags team=ops,tier=one"
            f" --auto-approved-arn-patterns {ARN}.*",
            lambda made: made.drivers,
            {"awsirsa": {"hubClusterArn": f"{ARN}hub", "tags": ["team=ops", "tier=one"], "autoApprovedIdentities": [f"{ARN}.*"]}},
        ),
        row(
            f"init --registration-drivers awsirsa --hub-cluster-arn {ARN}hub --aws-mapping aws-auth --aws-identity hub",
            lambda made: made.drivers,
            {"awsirsa": {"hubClusterArn": f"{ARN}hub", "mapping": "aws-auth", "identity": "hub"}},
        ),
        row(
            "init --remove-denied-after 72h",
            lambda made: made.spec["registrationConfiguration"]["removeDeniedAfter"],
            "72h",
        ),
        row(
            f"init --registration-drivers grpc {APPROVED} --grpc-server hub.example:8090 --auto-approved-grpc-identities bob",
            lambda made: (made.drivers, made.spec["serverConfiguration"]["endpointsExposure"][0]["grpc"]),
            (
                {"grpc": {"autoApprovedIdentities": ["bob"]}},
                {"type": "hostname", "hostname": {"host": "hub.example:8090"}},
            ),
        ),
        row(
            "init --registration-drivers grpc --grpc-server hub.example:8090 --grpc-endpoint-type loadBalancer",
            lambda made: made.spec["serverConfiguration"]["endpointsExposure"][0]["grpc"],
            {"type": "loadBalancer", "loadBalancer": {"host": "hub.example:8090"}},
        ),
        row(
            "init --registration-drivers csr --driver-option csr.auto-approved-csr-users=a=b"
            " --driver-option csr.auto-approved-csr-users=c",
            lambda made: made.spec["registrationConfiguration"]["registrationDrivers"],
            [{"authType": "csr", "driverOptions": {"auto-approved-csr-users": ["a=b", "c"]}}],
        ),
        row("init --enable-sync-labels", lambda made: "--enable-sync-labels" in made.operator["args"], True),
        row(
            "init --cluster-manager-values-file {values}",
            lambda made: (made.deployment["replicas"], made.spec["nodePlacement"]),
            (2, {"nodeSelector": {"disk": "fast"}}),
        ),
        row(
            "init --image-registry example.io/team --bundle-version v9",
            lambda made: made.operator["image"],
            "example.io/team/muster:v9",
        ),
        row("init --bundle-version-overrides {overrides}", lambda made: made.operator["image"], "muster:v8"),
        row("init --image-pull-credential-file {credential}", lambda made: made.credential, CREDENTIAL),
        row(
            "init --resource-qos-class ResourceRequirement --resource-limits memory=1Gi --resource-requests cpu=5m",
            lambda made: (made.operator["resources"], made.spec["resourceRequirement"]["resourceRequirements"]),
            (AMOUNTS, AMOUNTS),
        ),
    ],
)
def test_an_option_reaches_what_the_hub_has(hub: World, tmp_path: Path, line: str, look: Look, expected: object) -> None:
    contents = {
        "values": {"replicaCount": 2, "clusterManager": {"nodePlacement": {"nodeSelector": {"disk": "fast"}}}},
        "overrides": {"ocm": "v8"},
        "credential": CREDENTIAL,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content))
    hub.ok(*line.format(**{name: str(tmp_path / name) for name in contents}).split())
    assert look(Made(hub)) == expected


def test_an_option_that_is_not_given_again_is_taken_back(hub: World) -> None:
    hub.ok("init", "--registration-drivers", "grpc", "--grpc-server", "hub.example:8090", "--enable-sync-labels")
    hub.ok("init")
    made = Made(hub)
    assert "serverConfiguration" not in made.spec
    assert "registrationDrivers" not in made.spec["registrationConfiguration"]
    assert "--enable-sync-labels" not in made.operator["args"]


@shows("init", "--output", "--use-bootstrap-token", "--output-file")
def test_the_outcome_can_be_read_by_programs_and_kept(hub: World, tmp_path: Path) -> None:
    file = tmp_path / "applied.yaml"
    told = json.loads(hub.ok("init", "--output", "json", "--use-bootstrap-token", "--output-file", str(file)))
    assert told["hub-token"].startswith("ocmhub.")
    assert told["hub-apiserver"] == hub.hub.cluster.url
    written = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(file.read_text())}
    assert {
        ("ClusterManager", "cluster-manager"),
        ("Deployment", "cluster-manager"),
        ("Secret", "bootstrap-token-ocmhub"),
    } <= written


@shows("init", "--output-join-command-file")
def test_the_script_that_is_written_joins_a_cluster(hub: World, tmp_path: Path) -> None:
    script, kubeconfig = tmp_path / "join.sh", tmp_path / "managed"
    hub.ok("init", "--output-join-command-file", str(script))
    kubeconfig.write_bytes(hub.managed.kubeconfig.read_bytes())
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    done = subprocess.run([str(script), "scripted"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = hub.managed.client().get("/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet").expect(200)
    assert found["spec"]["clusterName"] == "scripted"
    assert script.stat().st_mode & 0o777 == 0o700, "there is a token in it"


@shows("init", "--force")
def test_checks_can_be_skipped(hub: World) -> None:
    checked, forced = hub.run("init"), hub.run("init", "--force")
    assert (checked.exit_code, forced.exit_code) == (0, 0)
    assert checked.stderr.count("Preflight check") == 3
    assert "Preflight check" not in forced.stderr
    assert "CSR" not in forced.stderr


@shows("init", "--singleton", "--singleton-name")
def test_a_hub_in_one_process_is_made_otherwise(hub: World) -> None:
    before = hub.objects(HUB)
    for flags in (["--singleton"], ["--singleton-name", "small"]):
        assert "muster up" in hub.fails("init", *flags, code=2)
    assert hub.objects(HUB) == before


@shows("init", "--create-namespace")
def test_the_namespace_may_be_somebody_elses_to_make(hub: World) -> None:
    """It must be there then; on the managed cluster it is not so far."""
    place = "/api/v1/namespaces"
    managed = hub.managed.client()
    managed.delete(f"{place}/{BOOTSTRAP_NAMESPACE}").expect(200, 404)
    hub.hub.wait_reply(lambda: managed.get(f"{place}/{BOOTSTRAP_NAMESPACE}"), "the namespace to be gone", 404)
    told = hub.fails("init", "--create-namespace", "false", "--force", context=MANAGED)
    assert f'"{BOOTSTRAP_NAMESPACE}" not found' in told
    assert managed.get(f"{MANAGERS}/cluster-manager").status == 404
    managed.post(place, {"metadata": {"name": BOOTSTRAP_NAMESPACE}}).expect(201)
    hub.ok("init", "--create-namespace", "false", "--force", context=MANAGED)
    found = managed.get(f"{place}/{BOOTSTRAP_NAMESPACE}").expect(200)
    assert "clusteradm" not in {one["manager"] for one in found["metadata"]["managedFields"]}
    hub.ok("clean", context=MANAGED)


def play_hub(hub: World) -> None:
    """Pods of the operator are said to run, and the ClusterManager says that all is well."""
    hub.play_pods(f"{OPERATORS}/cluster-manager", HUB)
    path = f"{MANAGERS}/cluster-manager"
    generation = hub.hub.admin.get(path).expect(200)["metadata"]["generation"]
    wanted = {"Applied": "True", "HubRegistrationDegraded": "False", "Progressing": "False"}
    conditions = [
        {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status in wanted.items()
    ]
    status = {"observedGeneration": generation, "conditions": conditions}
    hub.hub.admin.patch(f"{path}/status", {"status": status}).expect(200)


@pytest.mark.parametrize(
    "line", [row("init --wait --force --bundle-version v7"), row("upgrade clustermanager --wait --bundle-version v7")]
)
def test_a_wait_ends_when_the_hub_works_and_not_before(hub: World, line: str) -> None:
    hub.ok("init", "--bundle-version", "v6")
    complaint = hub.fails(*line.split(), "--timeout", "1")
    assert "not so after 1 s: Deployment open-cluster-management/cluster-manager" in complaint
    play_hub(hub)
    hub.ok(*line.split(), "--timeout", "20")
    assert Made(hub).operator["image"] == "muster:v7"


def component(image: str) -> dict[str, Any]:
    labels = {"matchLabels": {"app": "part"}}
    template = {"metadata": {"labels": labels["matchLabels"]}, "spec": {"containers": [{"name": "part", "image": image}]}}
    return {"metadata": {"name": "part", "namespace": "default"}, "spec": {"selector": labels, "template": template}}


@pytest.mark.parametrize(
    ("chosen", "image"),
    [({}, "muster:v9"), ({"workImagePullSpec": "example.io/own:1"}, "example.io/own:1")],
    ids=["its own", "chosen"],
)
def test_an_upgrade_is_over_when_the_components_have_followed(hub: World, chosen: dict[str, str], image: str) -> None:
    admin, line = hub.hub.admin, ["upgrade", "clustermanager", "--bundle-version", "v9", "--wait", "--timeout"]
    hub.ok("init", "--bundle-version", "v8")
    hub.ok(*line[:-2])
    play_hub(hub)
    admin.post(PARTS, component("muster:v8")).expect(201)
    deployed = {
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "namespace": "default",
        "name": "part",
        "lastGeneration": 1,
    }
    admin.patch(f"{MANAGERS}/cluster-manager/status", {"status": {"generations": [deployed]}}).expect(200)
    admin.patch(f"{MANAGERS}/cluster-manager", {"spec": chosen}).expect(200)
    play_hub(hub)
    assert "Deployment default/part is still of muster:v8" in hub.fails(*line, "1")
    part = {"spec": {"template": component(image)["spec"]["template"]}}
    admin.patch(f"{PARTS}/part", part).expect(200)
    assert "Deployment default/part is not rolled out yet" in hub.fails(*line, "1")
    hub.play_pods(f"{PARTS}/part", HUB)
    hub.ok(*line, "20")
    admin.delete(f"{PARTS}/part").expect(200)
    admin.patch(f"{MANAGERS}/cluster-manager/status", {"status": {"generations": None}}).expect(200)
    admin.patch(f"{MANAGERS}/cluster-manager", {"spec": dict.fromkeys(chosen)}).expect(200)


IMAGES = (
    ("--bundle-version v3", "muster:v3"),
    ("--image-registry example.io/team --bundle-version v4", "example.io/team/muster:v4"),
    ("--bundle-version-overrides {overrides}", "muster:v5"),
)


@pytest.mark.parametrize(
    ("line", "context", "image"),
    [
        row(f"upgrade {what} {flags}", context, image)
        for what, context in (("clustermanager", HUB), ("klusterlet", MANAGED))
        for flags, image in IMAGES
    ],
)
def test_an_upgrade_changes_the_image_and_nothing_else(hub: World, tmp_path: Path, line: str, context: str, image: str) -> None:
    overrides = tmp_path / "overrides"
    overrides.write_text("ocm: v5\n")
    path = f"{OPERATORS}/{'cluster-manager' if context == HUB else 'klusterlet'}"
    if context == HUB:
        hub.ok("init", "--enable-sync-labels")
    else:
        access = [word for name, value in hub.told_access().items() for word in (f"--{name}", value)]
        hub.ok("join", *access, "--cluster-name", "scripted", "--force", context=MANAGED)
    before = hub.admin(context).get(path).expect(200)["spec"]
    assert f"to {image}" in hub.ok(*line.format(overrides=overrides).split(), context=context)
    now = hub.admin(context).get(path).expect(200)["spec"]
    assert now["template"]["spec"]["containers"][0].pop("image") == image
    assert before["template"]["spec"]["containers"][0].pop("image") != image
    assert _without_image(now) == _without_image(before)


def _without_image(spec: dict[str, Any]) -> Any:
    """Operators are told by a flag what image their components are to have."""
    container = spec["template"]["spec"]["containers"][0]
    container["args"] = [one for one in container["args"] if "image" not in one]
    return spec


@shows("upgrade klusterlet", "--wait")
def test_a_wait_ends_when_the_operator_of_klusterlets_runs(hub: World) -> None:
    access = [word for name, value in hub.told_access().items() for word in (f"--{name}", value)]
    hub.ok("join", *access, "--cluster-name", "scripted", "--force", context=MANAGED)
    words = ["upgrade", "klusterlet", "--wait", "--bundle-version", "v7", "--timeout"]
    assert "operator klusterlet: not so after 1 s" in hub.fails(*words, "1", context=MANAGED)
    hub.play_pods(f"{OPERATORS}/klusterlet", MANAGED)
    hub.ok(*words, "20", context=MANAGED)


@shows("clean", "--name", "--purge-operator", "--force", "--output-file")
def test_a_hub_is_cleaned_up_as_far_as_is_asked_for(hub: World, tmp_path: Path) -> None:
    """The last one here."""
    admin, file = hub.hub.admin, tmp_path / "removed"
    hub.ok("init")
    other = {"apiVersion": GROUP, "kind": "ClusterManager", "metadata": {"name": "other"}, "spec": {}}
    admin.post(MANAGERS, other).expect(201)
    hub.hub.wait_reply(lambda: admin.post(MANAGED_CLUSTERS, managed_cluster("alive")), "ManagedCluster", 201)
    joined = {"type": "ManagedClusterJoined", "status": "True", "reason": "Test", "message": ""}
    status = {"status": {"conditions": [{**joined, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    admin.patch(f"{MANAGED_CLUSTERS}/alive/status", status).expect(200)
    assert "alive: joined and alive" in hub.fails("clean", "--name", "other")
    said = hub.ok("clean", "--name", "other", "--force")
    assert "the operator: there is still ClusterManager cluster-manager" in said
    assert admin.get(f"{MANAGERS}/other").status == 404
    assert admin.get(f"{MANAGERS}/cluster-manager").status == 200
    hub.ok("clean", "--force", "--purge-operator", "false", "--output-file", str(file))
    assert admin.get(f"{MANAGERS}/cluster-manager").status == 404
    assert admin.get(f"{OPERATORS}/cluster-manager").status == 200
    assert file.read_text().splitlines()[0] == "ClusterManager cluster-manager"
    hub.ok("clean", "--force")
    assert admin.get(f"{OPERATORS}/cluster-manager").status == 404
    assert admin.get(INFO).status == 404
