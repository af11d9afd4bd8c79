"""`clusteradm work can-i`: what hub and managed cluster would say of a work, before it is made."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.machinery.objects import Object
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES
from tests.unit.cli.clusteradm.conftest import HUB, PLAIN, Fleet
from tests.unit.cli.clusteradm.test_basics import PROGRAM
from tests.unit.cli.clusteradm.test_works import CONFIG_MAP, write

EXECUTOR = ["--executor", "apps/deployer"]
USER = "system:serviceaccount:apps:deployer"
LIFE = ["create", "update", "patch", "get", "delete"]


async def allow(fleet: Fleet, cluster: str, name: str, subject: Object, **rule: Any) -> None:
    """A ClusterRole with one rule, bound to a subject."""
    admin, group = fleet.admin(cluster), "rbac.authorization.k8s.io"
    await admin.apply(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]}, manager="test")
    binding = {
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
    }
    await admin.apply(CLUSTER_ROLE_BINDINGS, binding, manager="test")


def mallory() -> Object:
    return {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}


async def let_mallory(fleet: Fleet, name: str, verb: str, **more: Any) -> None:
    rule = {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": [verb], **more}
    await allow(fleet, HUB, name, mallory(), **rule)


async def let_deployer(fleet: Fleet, *verbs: str, resource: str = "configmaps", group: str = "") -> None:
    subject = {"kind": "ServiceAccount", "namespace": "apps", "name": "deployer"}
    await allow(fleet, PLAIN, f"deployer-{resource}", subject, apiGroups=[group], resources=[resource], verbs=list(verbs))


@pytest.fixture
async def hub(fleet: Fleet) -> Fleet:
    await fleet.cluster("c1")
    await fleet.admin().create(NAMESPACES, {"metadata": {"name": "c1"}})
    return fleet


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write(tmp_path / "work.json", CONFIG_MAP)


async def told(fleet: Fleet, *words: str, code: int, context: str = HUB) -> Any:
    result = await fleet.run("work", "can-i", "c1", *words, "-o", "json", context=context)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


async def test_who_may_all_is_told_yes_and_nothing_is_made(hub: Fleet, file: str) -> None:
    before = await hub.revision()
    said = await told(hub, "-f", file, *EXECUTOR, code=0)
    assert (said["cluster"], said["executor"], said["answer"]) == ("c1", "apps/deployer", "yes")
    assert [(one["what"], one["verbs"], one["allowed"]) for one in said["checks"]] == [
        ("manifestworks.work.open-cluster-management.io", ["create"], "yes"),
        (f"manifestworks.work.open-cluster-management.io {USER}", ["execute-as"], "yes"),
        ("this work", ["create"], "yes"),
    ]
    assert await hub.revision() == before
    assert (await hub.admin().list(MANIFEST_WORKS)).items == []


async def test_who_may_not_make_works_is_told_no(hub: Fleet, file: str) -> None:
    said = await told(hub, "-f", file, *EXECUTOR, code=1, context="mallory@hub")
    assert [one["allowed"] for one in said["checks"]] == ["no", "no"]
    assert "you lack the permission to create manifestworks" in said["checks"][0]["reason"]
    assert said["checks"][1]["reason"].endswith(f"in namespace c1 with the name {USER}")


async def test_a_hub_that_takes_the_work_all_the_same_has_the_last_word(hub: Fleet, file: str) -> None:
    await let_mallory(hub, "make", "create")
    said = await told(hub, "-f", file, *EXECUTOR, code=0, context="mallory@hub")
    assert "but the hub takes the work all the same" in said["checks"][1]["reason"]


async def test_the_permission_to_execute_is_that_of_the_service_account(hub: Fleet, file: str) -> None:
    await let_mallory(hub, "make", "create")
    await let_mallory(hub, "execute", "execute-as", resourceNames=[USER])
    said = await told(hub, "-f", file, *EXECUTOR, code=0, context="mallory@hub")
    assert {one["reason"] for one in said["checks"]} == {""}


async def test_what_the_hub_would_refuse_is_told(hub: Fleet, tmp_path: Path) -> None:
    work = {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": [CONFIG_MAP]}, "deleteOption": {"propagationPolicy": "Maybe"}},
    }
    said = await told(hub, "-f", write(tmp_path / "w.json", work), code=1)
    assert said["executor"] is None
    assert "propagationPolicy" in said["checks"][-1]["reason"]
    result = await hub.run("work", "can-i", "nowhere", "-f", write(tmp_path / "m.json", CONFIG_MAP))
    assert result.exit_code == 1
    assert "there is no ManagedCluster nowhere" in result.output


async def test_a_namespace_of_no_cluster_takes_no_works(hub: Fleet, file: str) -> None:
    await hub.admin().create(NAMESPACES, {"metadata": {"name": "apps"}})
    result = await hub.run("work", "can-i", "apps", "-f", file)
    assert result.exit_code == 1
    assert "there is no ManagedCluster apps" in result.output
    assert "there is no ManagedCluster apps" in await hub.fails("create", "work", "w", "-f", file, "-c", "apps"), "as it would be"


def manifest_work(name: str, *manifests: Object, **spec: Any) -> Object:
    whole = {"workload": {"manifests": list(manifests)}, **spec}
    return {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", "metadata": {"name": name}, "spec": whole}


async def test_a_work_is_asked_about_by_its_own_name(hub: Fleet, tmp_path: Path) -> None:
    said = await told(hub, "-f", write(tmp_path / "w.json", manifest_work("Bad_Name", CONFIG_MAP)), code=1)
    assert 'Invalid value: "Bad_Name"' in said["checks"][-1]["reason"]


async def test_a_work_that_is_there_is_asked_about_as_a_change(hub: Fleet, tmp_path: Path) -> None:
    path = write(tmp_path / "w.json", manifest_work("w", CONFIG_MAP))
    await hub.ok("create", "work", "w", "-f", write(tmp_path / "m.json", CONFIG_MAP), "-c", "c1")
    before = await hub.admin().get(MANIFEST_WORKS, "w", "c1")
    said = await told(hub, "-f", path, code=0)
    assert [one["verbs"] for one in said["checks"]] == [["update"], ["update"]]
    bad = write(tmp_path / "bad.json", manifest_work("w", CONFIG_MAP, deleteOption={"propagationPolicy": "Maybe"}))
    assert "propagationPolicy" in (await told(hub, "-f", bad, code=1))["checks"][-1]["reason"]
    assert await hub.admin().get(MANIFEST_WORKS, "w", "c1") == before
    await let_mallory(hub, "make", "create")
    await let_mallory(hub, "look", "get")
    said = await told(hub, "-f", path, code=1, context="mallory@hub")
    assert "you lack the permission to update manifestworks" in said["checks"][0]["reason"]


async def test_who_asks_is_told_what_to_have_granted(hub: Fleet, tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    path = write(tmp_path / "all.yaml", CONFIG_MAP, secret, namespace)
    line = ["-f", path, *EXECUTOR, "--managed-context", PLAIN]
    said = await told(hub, *line, code=1, context="mallory@hub")
    works = "manifestworks.work.open-cluster-management.io"
    make, bind_make, execute, bind_execute = said["grants"]["hub"]
    role = make.split()[3]
    assert make == f"kubectl create role {role} -n c1 --verb=get,list,watch,create,update,patch,delete --resource={works}"
    assert bind_make == f"kubectl create rolebinding {role} -n c1 --role={role} --user=mallory"
    assert execute.endswith(f"-n c1 --verb=execute-as --resource={works} --resource-name={USER}")
    assert bind_execute.endswith("--user=mallory")
    inside, bind_inside, everywhere, bind_everywhere = said["grants"]["cluster"]
    assert inside.startswith("kubectl create role executor-deployer-")
    assert inside.endswith("-n default --verb=create,update,patch,get,delete --resource=configmaps,secrets")
    assert bind_inside.endswith(" --serviceaccount=apps:deployer")
    assert everywhere.startswith("kubectl create clusterrole executor-deployer-")
    assert everywhere.endswith("--verb=create,update,patch,get,delete --resource=namespaces")
    assert bind_everywhere.startswith("kubectl create clusterrolebinding executor-deployer-")
    shown = (await hub.run("work", "can-i", "c1", *line, context="mallory@hub")).stdout.splitlines()
    assert f"  {make}" in shown
    assert shown[-1] == "no"


async def test_who_may_all_is_told_of_no_grants(hub: Fleet, file: str) -> None:
    assert (await told(hub, "-f", file, *EXECUTOR, code=0))["grants"] == {}


async def test_an_executor_that_is_none_passes_nowhere(hub: Fleet, tmp_path: Path) -> None:
    spec = {"workload": {"manifests": [CONFIG_MAP]}, "executor": {}}
    work = {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": spec}
    said = await told(hub, "-f", write(tmp_path / "w.json", work), code=1)
    assert [one["reason"] for one in said["checks"]] == ["its executor names no service account"]


async def test_the_managed_cluster_says_what_its_executor_may(hub: Fleet, tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    files = ["-f", write(tmp_path / "all.yaml", CONFIG_MAP, secret), *EXECUTOR, "--managed-context", PLAIN]
    await let_deployer(hub, *LIFE)
    await let_deployer(hub, "create", "get", resource="secrets")
    before = await hub.revision(PLAIN)
    said = await told(hub, *files, code=1)
    asked = {one["what"]: one for one in said["checks"] if one["where"] == "cluster"}
    assert (asked["configmaps default/greeting"]["allowed"], asked["configmaps default/greeting"]["verbs"]) == ("yes", LIFE)
    assert asked["secrets default/s"]["allowed"] == "no"
    assert f"{USER} may not update, patch, delete it" in asked["secrets default/s"]["reason"]
    assert await hub.revision(PLAIN) == before
    await let_deployer(hub, *LIFE, resource="secrets")
    assert (await told(hub, *files, code=0))["answer"] == "yes"


async def test_a_work_that_leaves_its_objects_needs_no_right_to_delete_them(hub: Fleet, tmp_path: Path) -> None:
    executor = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "apps", "name": "deployer"}}}
    work = {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "elsewhere"},
        "spec": {
            "workload": {"manifests": [CONFIG_MAP]},
            "deleteOption": {"propagationPolicy": "Orphan"},
            "executor": executor,
        },
    }
    await let_deployer(hub, *LIFE[:-1])
    said = await told(hub, "-f", write(tmp_path / "w.json", work), "--managed-context", PLAIN, code=0)
    assert said["executor"] == "apps/deployer"
    assert said["checks"][-1]["verbs"] == LIFE[:-1]


async def test_terms_are_asked_about_as_a_work_is_made_on_them(hub: Fleet, file: str, tmp_path: Path) -> None:
    line = ["-f", file, *EXECUTOR, "--managed-context", PLAIN]
    for terms, verbs in (
        (["--update-strategy", "ReadOnly"], ["get"]),
        (["--update-strategy", "CreateOnly", "--delete-option", "Orphan"], ["create", "get"]),
        (["--delete-option", "Orphan"], LIFE[:-1]),
    ):
        assert (await told(hub, *line, *terms, code=1))["checks"][-1]["verbs"] == verbs
    path = write(tmp_path / "w.json", manifest_work("w", CONFIG_MAP))
    refused = ["work", "can-i", "c1", "-f", path, "--delete-option", "Orphan"]
    assert "a ManifestWork says so itself" in await hub.fails(*refused, code=3)


async def test_a_role_that_would_give_more_than_the_executor_has_is_refused(hub: Fleet, tmp_path: Path) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "much", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
    }
    await let_deployer(hub, *LIFE, resource="roles", group="rbac.authorization.k8s.io")
    files = ["-f", write(tmp_path / "role.json", role), *EXECUTOR, "--managed-context", PLAIN]
    said = await told(hub, *files, code=1)
    assert "escalat" in said["checks"][-1]["reason"]
    assert said["grants"] == {}, "one permission more would not do"


async def test_manifests_that_the_cluster_cannot_take_are_told(hub: Fleet, tmp_path: Path) -> None:
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}}
    homeless = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    path = write(tmp_path / "all.yaml", odd, homeless)
    said = await told(hub, "-f", path, *EXECUTOR, "--managed-context", PLAIN, code=1)
    asked = {one["what"]: one["reason"] for one in said["checks"] if one["where"] == "cluster"}
    assert asked["Odd o"] == 'the server doesn\'t have a resource type "Odd"'
    assert "metadata.namespace is missing" in asked["Secret s"]
    alone = await told(hub, "-f", path, "--managed-context", PLAIN, code=1)
    assert {one["what"] for one in alone["checks"] if one["where"] == "cluster"} == {"Odd o", "Secret s"}


async def test_a_kind_may_come_with_the_work(hub: Fleet, tmp_path: Path) -> None:
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o", "namespace": "default"}}
    spec = {"group": "example.com", "names": {"kind": "Odd", "plural": "odds"}, "scope": "Namespaced", "versions": []}
    group = "apiextensions.k8s.io"
    definition = {"apiVersion": f"{group}/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "odds.example.com"}}
    line = ["-f", write(tmp_path / "all.yaml", odd, {**definition, "spec": spec}), "--managed-context", PLAIN]
    assert (await told(hub, *line, code=0))["answer"] == "yes"
    await let_deployer(hub, *LIFE, resource="customresourcedefinitions", group=group)
    said = await told(hub, *line, *EXECUTOR, code=1)
    assert said["checks"][-1]["what"] == "Odd default/o"
    assert "put that into a work of its own" in said["checks"][-1]["reason"], "with an executor it is all or nothing"


async def test_what_was_not_asked_about_is_said(hub: Fleet, file: str) -> None:
    result = await hub.run("work", "can-i", "c1", "-f", file, "--managed-context", PLAIN)
    assert "with the agent's own rights: those were not asked about" in result.stderr


async def test_what_cannot_be_told_is_neither_yes_nor_no(hub: Fleet, file: str, tmp_path: Path) -> None:
    away = yaml.safe_load(hub.kubeconfig.read_text())
    for cluster in away["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away").write_text(yaml.safe_dump(away))
    (tmp_path / "away").chmod(0o600)
    said = await told(hub, "-f", file, *EXECUTOR, "--managed-kubeconfig", str(tmp_path / "away"), code=3)
    assert (said["answer"], said["checks"][-1]["allowed"]) == ("unknown", "unknown")
    assert "127.0.0.1:1" in said["checks"][-1]["reason"]
    line = ["work", "can-i", "c1", "-f"]
    assert "/nowhere.yaml" in await hub.fails(*line, "/nowhere.yaml", code=3)
    assert "not <namespace>/<name>" in await hub.fails(*line, file, "--executor", "deployer", code=3)
    assert "non-hub" in await hub.fails(*line, file, context=PLAIN, code=3)
    assert "--managed-context: " in await hub.fails(*line, file, "--managed-context", "no-such", code=3)
    assert "--filename" in await hub.fails("work", "can-i", "c1", code=2)
    both = write(tmp_path / "both.yaml", {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", **NAMED}, CONFIG_MAP)
    assert "either one ManifestWork or the manifests" in await hub.fails(*line, both, code=3)


NAMED = {"metadata": {"name": "w"}}


async def test_an_answer_that_nobody_reads_is_the_same_answer(hub: Fleet, file: str) -> None:
    for context, code in (("hub", 0), ("mallory@hub", 1)):
        line = [str(PROGRAM), "--kubeconfig", str(hub.kubeconfig), "--context", context, "work", "can-i", "c1", "-f", file]
        read, write = os.pipe()
        os.close(read)
        process = await asyncio.create_subprocess_exec(*line, stdout=write, stderr=asyncio.subprocess.PIPE)
        os.close(write)
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == code, errors
        assert b"Traceback" not in errors
        assert b"BrokenPipe" not in errors


async def test_who_interrupts_the_question_gets_no_answer(hub: Fleet, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli.clusteradm.work.can_i.administer", interrupted)
    assert "interrupted" in await hub.fails("work", "can-i", "c1", "-f", file, code=3)


async def test_a_table_ends_with_the_answer(hub: Fleet, file: str) -> None:
    result = await hub.run("work", "can-i", "c1", "-f", file)
    assert result.exit_code == 0
    header, *rows, answer = result.stdout.splitlines()
    assert header.split() == ["WHERE", "WHAT", "VERBS", "ALLOWED", "REASON"]
    assert len(rows) == 2
    assert answer == "yes"
    assert "only the hub was asked" in result.stderr
    assert yaml.safe_load(await hub.ok("work", "can-i", "c1", "-f", file, "-o", "yaml"))["answer"] == "yes"
