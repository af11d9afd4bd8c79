"""Works as people make them and look at them: on what terms manifests are applied, and what is told of what came of it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import AWAY, HUB, MANAGED, World
from tests.support.client import Client
from tests.support.kubectl import executable

WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/shop/manifestworks"
NOW = "2026-01-01T00:00:00Z"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@pytest.fixture
def shop(world: World) -> World:
    world.cluster("shop")
    return world


def write(directory: Path, *manifests: dict[str, Any]) -> str:
    path = directory / "manifests.yaml"
    path.write_text("\n---\n".join(map(json.dumps, manifests)))
    return str(path)


@shows("create work", "--executor", "--update-strategy", "--delete-option")
def test_a_work_is_made_on_the_terms_that_are_said(shop: World, tmp_path: Path) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}}
    create = ["create", "work", "termed", "-f", write(tmp_path, config_map("a"), role), "--clusters", "shop"]
    said = ["--executor", "apps/deployer", "--update-strategy", "ServerSideApply", "--delete-option", "Orphan"]
    shop.ok(*create, *said)
    spec = (shop.hub.read(f"{WORKS}/termed") or {})["spec"]
    assert spec["executor"]["subject"]["serviceAccount"] == {"namespace": "apps", "name": "deployer"}
    assert spec["deleteOption"] == {"propagationPolicy": "Orphan"}
    treated = {one["resourceIdentifier"]["resource"]: one["updateStrategy"]["type"] for one in spec["manifestConfigs"]}
    assert treated == {"configmaps": "ServerSideApply", "clusterroles": "ServerSideApply"}
    assert "is as it should be" in shop.ok(*create, *said, "--overwrite")
    assert "update work termed" in shop.ok(*create, "--overwrite", "--delete-option", "Foreground")
    changed = (shop.hub.read(f"{WORKS}/termed") or {})["spec"]
    assert changed["deleteOption"]["propagationPolicy"] == "Foreground"
    assert changed["executor"] == spec["executor"]
    shop.ok("delete", "work", "termed", "--clusters", "shop", "--force")


@pytest.mark.parametrize(
    ("option", "value", "complaint", "code"),
    [
        ("--executor", "deployer", "--executor: 'deployer' is not <namespace>/<name>", 1),
        ("--update-strategy", "Magic", "--update-strategy", 2),
        ("--delete-option", "Maybe", "--delete-option", 2),
    ],
)
def test_terms_that_are_none_are_refused(shop: World, tmp_path: Path, option: str, value: str, complaint: str, code: int) -> None:
    line = ["create", "work", "refused", "-f", write(tmp_path, config_map("a")), "--clusters", "shop", option, value]
    assert complaint in shop.fails(*line, code=code)
    assert shop.hub.read(f"{WORKS}/refused") is None


@pytest.fixture
def reported(shop: World, tmp_path: Path) -> World:
    """A work of which an agent has reported that one of two manifests is applied."""
    file = write(tmp_path, config_map("good"), config_map("bad"))
    shop.ok("create", "work", "told", "-f", file, "--clusters", "shop", "--executor", "apps/deployer", "--overwrite")

    def said(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        generation = {"observedGeneration": (shop.hub.read(f"{WORKS}/told") or {})["metadata"]["generation"]}
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW, **generation}

    def entry(ordinal: int, name: str, *conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
        meta = {"group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": name, "namespace": "default"}
        return {"resourceMeta": {"ordinal": ordinal, **meta}, "conditions": list(conditions), **more}

    value = {"name": "Phase", "fieldValue": {"type": "String", "string": "Running"}}
    applied = said("Applied", "True", "AppliedManifestComplete", "Apply manifest complete")
    refused = said("Applied", "False", "AppliedManifestFailed", "Failed to apply manifest: not allowed")
    status = {
        "conditions": [said("Applied", "False", "AppliedManifestWorkFailed", "Failed to apply manifest work")],
        "resourceStatus": {
            "manifests": [entry(0, "good", applied, statusFeedback={"values": [value]}), entry(1, "bad", refused)],
        },
    }
    shop.hub.admin.patch(f"{WORKS}/told/status", {"status": status}).expect(200)
    return shop


@shows("get works", "--output")
def test_a_wide_list_tells_as_whom_and_what_is_wrong(reported: World) -> None:
    [row] = [line for line in reported.ok("get", "works", "-o", "wide").splitlines() if line.startswith("told ")]
    assert row.split(maxsplit=5)[:5] == ["told", "shop", "2", "False", "apps/deployer"]
    assert row.endswith("configmaps default/bad: not allowed")


def test_a_work_asked_for_by_name_tells_of_each_resource(reported: World) -> None:
    tree = reported.ok("get", "works", "told", "--cluster", "shop")
    assert "<Applied> False: AppliedManifestWorkFailed: Failed to apply manifest work" in tree
    assert "<Executor> apps/deployer" in tree
    assert "<default/good> applied" in tree
    assert "<Phase> Running" in tree
    assert "<default/bad> not-applied" in tree
    assert "<Applied> False: AppliedManifestFailed: Failed to apply manifest: not allowed" in tree


EXECUTOR = "system:serviceaccount:apps:deployer"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


ALL = ("create", "update", "patch", "get", "delete")


def allow(client: Client, name: str, resource: str, account: str = "deployer", verbs: Sequence[str] = ALL) -> None:
    """Let an executor have objects of a resource applied."""
    rule = {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}
    client.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]}).expect(201)
    subject = {"kind": "ServiceAccount", "namespace": "apps", "name": account}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
    client.post(f"{RBAC}/clusterrolebindings", binding).expect(201)


@shows("work can-i", "--executor", "--filename", "--managed-context", "--output")
def test_who_asks_beforehand_is_told_what_hub_and_cluster_would_say(shop: World, tmp_path: Path) -> None:
    secret = {**config_map("s"), "kind": "Secret"}
    line = ["work", "can-i", "shop", "--filename", write(tmp_path, config_map("a"), secret), "--executor", "apps/deployer"]
    line += ["--managed-context", MANAGED, "--output", "json"]
    before = shop.objects(HUB)
    allow(shop.managed.client(), "can-i-maps", "configmaps")
    refused = json.loads(shop.fails(*line))
    assert refused["answer"] == "no"
    assert [one["allowed"] for one in refused["checks"]] == ["yes", "yes", "yes", "yes", "no"]
    assert f"{EXECUTOR} may not create, update, patch, get, delete it" in refused["checks"][-1]["reason"]
    allow(shop.managed.client(), "can-i-secrets", "secrets")
    assert json.loads(shop.ok(*line))["answer"] == "yes"
    assert shop.objects(HUB) == before


def test_what_is_said_to_be_granted_suffices(shop: World, tmp_path: Path) -> None:
    """The commands are run as they are printed."""
    kubectl = executable()
    assert kubectl is not None
    account = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "granted"}}
    file = write(tmp_path, config_map("a"), {**config_map("s"), "kind": "Secret"}, account)
    line = ["work", "can-i", "shop", "-f", file, "--executor", "apps/newcomer", "--managed-context", MANAGED, "-o", "json"]
    asker = f"bob@{HUB}"
    told = json.loads(shop.run(*line, context=asker).stdout)
    assert told["answer"] == "no"
    assert [len(told["grants"][place]) for place in ("hub", "cluster")] == [4, 4]
    for place, context in (("hub", HUB), ("cluster", MANAGED)):
        for command in told["grants"][place]:
            words = [str(kubectl), "--kubeconfig", str(shop.kubeconfig), "--context", context, *shlex.split(command)[1:]]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr

    def answered() -> bool:
        asked = json.loads(shop.run(*line, context=asker).stdout)
        return bool((asked["answer"], asked["grants"]) == ("yes", {}))

    shop.hub.wait(answered, "the grants to count")
    shop.ok("create", "work", "bobs", "-f", file, "-c", "shop", "--executor", "apps/newcomer", context=asker)
    shop.ok("delete", "work", "bobs", "-c", "shop", "--wait", context=asker)


@shows("work can-i", "--executor-verbs", "--executor-reviews")
def test_an_agent_that_demands_more_is_asked_for_with_its_options(shop: World, tmp_path: Path) -> None:
    only_read = {"resource": "configmaps", "name": "a", "namespace": "default"}
    body = {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "reading"},
        "spec": {
            "workload": {"manifests": [config_map("a")]},
            "manifestConfigs": [{"resourceIdentifier": only_read, "updateStrategy": {"type": "ReadOnly"}}],
        },
    }
    line = ["work", "can-i", "shop", "-f", write(tmp_path, body), "--executor", "apps/reader"]
    line += ["--managed-context", MANAGED, "--output", "json"]
    allow(shop.managed.client(), "can-i-read", "configmaps", account="reader", verbs=["get"])
    for reviews in ("auto", "always"):
        assert json.loads(shop.ok(*line, "--executor-reviews", reviews))["checks"][-1]["verbs"] == ["get"]
    refused = json.loads(shop.fails(*line, "--executor-verbs", "all"))
    assert "apps:reader may not create, update, patch it" in refused["checks"][-1]["reason"]


@shows("work can-i", "--update-strategy", "--delete-option")
def test_a_work_is_asked_about_on_the_terms_that_are_said(shop: World, tmp_path: Path) -> None:
    line = ["work", "can-i", "shop", "-f", write(tmp_path, config_map("a")), "--executor", "apps/looker"]
    line += ["--managed-context", MANAGED, "-o", "json"]
    allow(shop.managed.client(), "can-i-look", "configmaps", account="looker", verbs=["get", "create"])
    assert json.loads(shop.fails(*line))["answer"] == "no"
    assert json.loads(shop.ok(*line, "--update-strategy", "CreateOnly", "--delete-option", "Orphan"))["answer"] == "yes"


@shows("work can-i", "--managed-kubeconfig", "--recursive")
def test_a_cluster_that_cannot_be_asked_makes_no_answer(shop: World, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", config_map("a"))
    line = ["work", "can-i", "shop", "-f", str(tmp_path), "--recursive", "--executor", "apps/deployer"]
    assert "yes" in shop.ok(*line)
    told = shop.fails(*line, "--managed-kubeconfig", str(shop.kubeconfig), "--managed-context", AWAY, code=3)
    assert "127.0.0.1" in told
    assert told.splitlines()[-1] == "unknown"
    assert "there is no manifest" in shop.fails(*[word for word in line if word != "--recursive"], code=3)


def test_who_may_use_an_executor_is_asked_of_the_hub(shop: World, tmp_path: Path) -> None:
    line = ["work", "can-i", "shop", "-f", write(tmp_path, config_map("a")), "--executor", "apps/deployer"]
    told = shop.fails(*line, context=f"mallory@{HUB}")
    works = "manifestworks.work.open-cluster-management.io in namespace shop"
    assert f"you lack the permission to create {works}" in told
    assert f"you lack the permission to execute-as {works} with the name {EXECUTOR}" in told


@shows("create work", "--wait")
def test_who_waits_in_vain_is_told_what_failed(reported: World, tmp_path: Path) -> None:
    file = write(tmp_path, config_map("good"), config_map("bad"))
    line = ["create", "work", "told", "-f", file, "--clusters", "shop", "--overwrite", "--wait", "--timeout", "500ms"]
    assert "shop: configmaps default/bad: not allowed" in reported.fails(*line)
