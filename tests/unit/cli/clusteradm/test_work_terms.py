"""On what terms `clusteradm create work` has manifests applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.administration.content.works import REPLICA_SETS
from muster.registration.kinds import MANIFEST_WORKS
from tests.unit.cli.clusteradm.conftest import Fleet
from tests.unit.cli.clusteradm.test_works import CONFIG_MAP, clusters, file, place, write

__all__ = ["clusters", "file"]
EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "apps", "name": "deployer"}}}


async def spec(fleet: Fleet, cluster: str = "c1") -> dict[str, Any]:
    found = await fleet.find(MANIFEST_WORKS, "web", cluster)
    assert found
    return dict(found["spec"])


@pytest.mark.parametrize("text", ["apps/deployer", "system:serviceaccount:apps:deployer"])
async def test_a_work_names_its_executor(clusters: Fleet, file: str, text: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--executor", text)
    assert (await spec(clusters))["executor"] == EXECUTOR


@pytest.mark.parametrize("text", ["deployer", "/deployer", "apps/", "a/b/c", "Apps/deployer", "apps/de_ployer"])
async def test_what_is_no_service_account_is_refused(clusters: Fleet, file: str, text: str) -> None:
    before = await clusters.revision()
    assert f"--executor: {text!r}" in await clusters.fails("create", "work", "web", "-f", file, "-c", "c1", "--executor", text)
    assert await clusters.revision() == before


async def test_what_goes_with_the_work_can_be_said(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--delete-option", "Orphan")
    assert (await spec(clusters))["deleteOption"] == {"propagationPolicy": "Orphan"}
    assert "--delete-option" in await clusters.fails("create", "work", "x", "-f", file, "-c", "c1", "--delete-option", "No", code=2)


async def test_an_update_strategy_is_said_once_for_each_resource(clusters: Fleet, tmp_path: Path) -> None:
    manifests = [
        CONFIG_MAP,
        {**CONFIG_MAP, "metadata": {"name": "other", "namespace": "apps"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}},
    ]
    file = write(tmp_path / "all.yaml", *manifests)
    await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--update-strategy", "ServerSideApply")
    said = (await spec(clusters))["manifestConfigs"]
    assert [one["resourceIdentifier"] for one in said] == [
        {"group": "", "resource": "configmaps", "name": "*", "namespace": "*"},
        {"group": "rbac.authorization.k8s.io", "resource": "clusterroles", "name": "*"},
    ]
    assert {one["updateStrategy"]["type"] for one in said} == {"ServerSideApply"}


async def test_the_strategy_of_a_kind_that_the_manifests_define_can_be_said(clusters: Fleet, tmp_path: Path) -> None:
    names = {"kind": "Cactus", "plural": "cacti"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "cacti.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced"},
    }
    cactus = {"apiVersion": "example.com/v1", "kind": "Cactus", "metadata": {"name": "c", "namespace": "default"}}
    file = write(tmp_path / "all.yaml", definition, cactus)
    await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--update-strategy", "CreateOnly")
    said = [one["resourceIdentifier"]["resource"] for one in (await spec(clusters))["manifestConfigs"]]
    assert said == ["customresourcedefinitions", "cacti"]
    alone = write(tmp_path / "cactus.yaml", cactus)
    complaint = await clusters.fails("create", "work", "x", "-f", alone, "-c", "c1", "--update-strategy", "CreateOnly")
    assert "the hub does not know Cactus of example.com/v1" in complaint
    assert "manifestConfigs" in complaint


async def test_terms_can_be_changed_and_stay_when_nothing_is_said(clusters: Fleet, file: str, tmp_path: Path) -> None:
    create = ["create", "work", "web", "-c", "c1"]
    said = ["--executor", "apps/deployer", "--delete-option", "Orphan", "--update-strategy", "ReadOnly"]
    await clusters.ok(*create, "-f", file, *said)
    before = await clusters.revision()
    assert "is as it should be" in await clusters.ok(*create, "-f", file, "--overwrite", *said)
    assert await clusters.revision() == before
    other = write(tmp_path / "other.json", {**CONFIG_MAP, "data": {"word": "hello"}})
    assert "update work web" in await clusters.ok(*create, "-f", other, "--overwrite")
    kept = await spec(clusters)
    assert (kept["executor"], kept["deleteOption"]["propagationPolicy"]) == (EXECUTOR, "Orphan")
    assert "update work web" in await clusters.ok(*create, "-f", other, "--overwrite", "--executor", "apps/other")
    changed = await spec(clusters)
    assert changed["executor"]["subject"]["serviceAccount"]["name"] == "other"
    assert changed["manifestConfigs"] == kept["manifestConfigs"]


async def test_a_field_taken_out_of_a_manifest_is_a_change(clusters: Fleet, file: str, tmp_path: Path) -> None:
    other = write(tmp_path / "other.json", {**CONFIG_MAP, "data": {"word": "hello"}})
    await clusters.ok("create", "work", "web", "-f", other, "-c", "c1")
    assert "update work web" in await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--overwrite")
    assert json.dumps((await spec(clusters))["workload"]["manifests"]) == json.dumps([CONFIG_MAP])


async def test_a_set_of_works_has_terms_too(clusters: Fleet, file: str) -> None:
    await place(clusters, "c1")
    line = ["create", "work", "web", "-f", file, "--placement", "default/near", "-r", "--executor", "apps/deployer"]
    await clusters.ok(*line)
    found = await clusters.find(REPLICA_SETS, "web", "default")
    assert found
    assert found["spec"]["manifestWorkTemplate"]["executor"] == EXECUTOR
