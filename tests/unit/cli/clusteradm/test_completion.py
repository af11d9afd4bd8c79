"""A shell completes what is there: contexts of the kubeconfig, and clusters, works, placements and addons of the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from muster.administration.content.addons import CLUSTER_ADDONS
from muster.administration.content.works import PLACEMENTS
from muster.cli.clusteradm import main as clusteradm
from muster.cli.muster import main as muster
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.client.builtin import NAMESPACES
from tests.unit.cli.clusteradm.conftest import Fleet
from tests.unit.cli.test_fleet_request import written


async def completed(fleet: Fleet, *words: str, incomplete: str = "") -> list[str]:
    session = ["--kubeconfig", str(fleet.kubeconfig), "--context", "hub"]
    shell = ShellComplete(clusteradm, {}, "clusteradm", "_CLUSTERADM_COMPLETE")
    found = await asyncio.to_thread(shell.get_completions, [*session, *words], incomplete)
    return [one.value for one in found]


@pytest.fixture
async def stocked(fleet: Fleet) -> Fleet:
    admin = fleet.admin()
    for name in ("gold", "lead"):
        await fleet.cluster(name)
        await admin.create(NAMESPACES, {"metadata": {"name": name}})
    work = {"metadata": {"name": "web", "namespace": "gold"}, "spec": {"workload": {"manifests": []}}}
    await admin.apply(MANIFEST_WORKS, work, manager="test")
    await admin.apply(PLACEMENTS, {"metadata": {"name": "near", "namespace": "default"}, "spec": {}}, manager="test")
    await admin.apply(CLUSTER_ADDONS, {"metadata": {"name": "greeting"}, "spec": {}}, manager="test")
    return fleet


async def test_names_of_the_hubs_objects(stocked: Fleet) -> None:
    assert await completed(stocked, "get", "clusters") == ["gold", "lead"]
    assert await completed(stocked, "accept", "--clusters") == ["gold", "lead"]
    assert await completed(stocked, "accept", "--clusters", incomplete="gold,l") == ["gold,lead"]
    assert await completed(stocked, "get", "works") == ["web"]
    assert await completed(stocked, "delete", "work", incomplete="w") == ["web"]
    assert await completed(stocked, "delete", "placement") == ["near"]
    assert await completed(stocked, "addon", "enable", "--placement") == ["default/near"]
    assert await completed(stocked, "addon", "enable", "--names") == ["greeting"]


async def test_contexts_of_the_kubeconfig(fleet: Fleet) -> None:
    assert await completed(fleet, "get", "clusters", "--context", incomplete="h") == ["hub"]


async def test_a_hub_that_cannot_be_asked_completes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    assert await completed(fleet, "--context", "plain", "get", "clusters") == []
    assert await completed(fleet, "--kubeconfig", str(tmp_path / "none"), "get", "clusters") == []
    assert await completed(fleet, "--kubeconfig", str(tmp_path / "none"), "--context") == []


def test_clusters_of_the_local_fleet(tmp_path: Path) -> None:
    written(tmp_path, clusters=2)
    shell = ShellComplete(muster, {}, "muster", "_MUSTER_COMPLETE")
    found = shell.get_completions(["cluster", "remove", "--data-dir", str(tmp_path / "data")], "cluster")
    assert [one.value for one in found] == ["cluster1", "cluster2"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_muster_prints_a_script(shell: str) -> None:
    assert "_MUSTER_COMPLETE" in CliRunner().invoke(muster, ["completion", shell]).output


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["stauts"], "status"), (["cluster", "ad"], "add"), (["oprator"], "operator"), (["status", "--datadir", "x"], "--data-dir")],
)
def test_muster_says_what_was_probably_meant(words: Sequence[str], meant: str) -> None:
    refused = CliRunner().invoke(muster, words)
    assert refused.exit_code == 2
    assert f"Did you mean '{meant}'" in refused.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["acept"], "accept"), (["get", "cluser"], "clusters"), (["addon", "enabel"], "enable"), (["gateway", "exce"], "exec")],
)
def test_clusteradm_says_what_was_probably_meant(words: Sequence[str], meant: str) -> None:
    refused = CliRunner().invoke(clusteradm, words)
    assert refused.exit_code == 2
    assert f"Did you mean '{meant}'" in refused.stderr


def test_what_resembles_nothing_gets_no_hint() -> None:
    assert "Did you mean" not in CliRunner().invoke(clusteradm, ["zzzzzz"]).stderr


def test_the_version_of_a_stopped_fleets_server_is_not_made_up(tmp_path: Path) -> None:
    written(tmp_path)
    shown = CliRunner().invoke(muster, ["version", "--data-dir", str(tmp_path / "data"), "-o", "json"])
    assert shown.exit_code == 0
    assert "server" not in shown.stdout
    assert "is not running" in shown.stderr
    alone = CliRunner().invoke(muster, ["version", "--client"])
    assert alone.output.startswith("client: ")


async def test_every_list_can_be_names_or_without_managed_fields(stocked: Fleet) -> None:
    assert (await stocked.ok("get", "clusters", "-o", "name")).split() == [
        "managedcluster.cluster.open-cluster-management.io/gold",
        "managedcluster.cluster.open-cluster-management.io/lead",
    ]
    assert await stocked.ok("get", "works", "-o", "name") == "manifestwork.work.open-cluster-management.io/web\n"
    for kind in ("clusters", "works", "addons", "placements", "clustersets"):
        for shape in ("name", "wide", "table", "tree", "json", "yaml"):
            assert "managedFields" not in await stocked.ok("get", kind, "-o", shape)
    assert "managedFields" in await stocked.ok("get", "clusters", "-o", "json", "--show-managed-fields")
