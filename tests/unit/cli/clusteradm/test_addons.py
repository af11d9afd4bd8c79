"""`clusteradm addon`: addons are switched on and off for clusters, and listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.administration.content.addons import ADDONS, CLUSTER_ADDONS
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig
from muster.machinery.objects import Object
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.typed import served
from tests.unit.cli.clusteradm.conftest import Fleet

CONFIGS = served(AddOnDeploymentConfig)


@pytest.fixture
async def offered(fleet: Fleet) -> Fleet:
    """Two addons, and three clusters to have them."""
    for name in ("c1", "c2", "c3"):
        await fleet.cluster(name)
        await fleet.admin().create(NAMESPACES, {"metadata": {"name": name}})
    for name in ("metrics", "logs"):
        await fleet.admin().apply(CLUSTER_ADDONS, {"metadata": {"name": name}, "spec": {}}, manager="test")
    return fleet


async def addon(fleet: Fleet, name: str, cluster: str) -> Object | None:
    return await fleet.find(ADDONS, name, cluster)


async def test_addons_are_enabled_on_clusters(offered: Fleet) -> None:
    said = await offered.ok("addon", "enable", "--names", "metrics,logs", "--clusters", "c1,c2")
    assert "Deploying metrics add-on to namespaces open-cluster-management-agent-addon of managed cluster: c1." in said
    for name in ("metrics", "logs"):
        for cluster in ("c1", "c2"):
            found = await addon(offered, name, cluster)
            assert found
            assert found["spec"]["installNamespace"] == "open-cluster-management-agent-addon"
    before = await offered.revision()
    await offered.ok("addon", "enable", "--names", "metrics,logs", "--clusters", "c1,c2")
    assert await offered.revision() == before


async def test_namespace_annotations_labels_and_configuration_reach_the_addon(offered: Fleet, tmp_path: Path) -> None:
    config = {
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"customizedVariables": [{"name": "SIZE", "value": "small"}]},
    }
    file, output = tmp_path / "config.json", tmp_path / "all.yaml"
    file.write_text(json.dumps(config))
    flags = [
        "--annotate=a=1,b=2",
        "--labels=team=x",
        "-n",
        "metrics-system",
        "--config-file",
        str(file),
        "--output-file",
        str(output),
    ]
    await offered.ok("addon", "enable", "--names", "metrics", "--cluster", "c1", *flags)
    found = await addon(offered, "metrics", "c1")
    assert found
    assert found["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert found["metadata"]["labels"] == {"team": "x"}
    assert found["spec"]["installNamespace"] == "metrics-system"
    reference = {
        "group": "addon.open-cluster-management.io",
        "resource": "addondeploymentconfigs",
        "name": "small",
        "namespace": "default",
    }
    assert found["spec"]["configs"] == [reference]
    assert await offered.find(CONFIGS, "small", "default")
    assert "ManagedClusterAddOn" in output.read_text()


async def test_addons_are_disabled_on_some_or_all_clusters(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics", "--clusters", "c1,c2,c3")
    said = await offered.ok("addon", "disable", "--names", "metrics,logs", "--clusters", "c1")
    assert "Undeploying metrics add-on in managed cluster: c1." in said
    assert "logs add-on not found in cluster: c1." in said
    assert await addon(offered, "metrics", "c1") is None
    assert await addon(offered, "metrics", "c2")
    await offered.ok("addon", "disable", "--names", "metrics", "--all-clusters")
    assert await addon(offered, "metrics", "c2") is None
    assert await offered.ok("addon", "disable", "--names", "metrics", "--all-clusters", "true") == ""


async def test_they_are_listed(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics", "--clusters", "c1,c2")
    assert "<metrics>" in await offered.ok("addon", "list")
    rows = (await offered.ok("addon", "list", "-o", "table")).splitlines()
    assert [row.split() for row in rows[1:]] == [["logs", "0", "0"], ["metrics", "2", "0"]]
    listed = json.loads(await offered.ok("addon", "list", "-o", "json"))
    assert [one["metadata"]["name"] for one in listed["items"]] == ["logs", "metrics"]


async def test_a_dry_run_writes_nothing(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics", "--clusters", "c1")
    before = await offered.revision()
    said = await offered.ok("addon", "enable", "--names", "logs", "--clusters", "c1", "--dry-run")
    assert "would apply managedclusteraddons.addon.open-cluster-management.io c1/logs" in said
    said = await offered.ok("addon", "disable", "--names", "metrics", "--clusters", "c1", "--dry-run")
    assert "would delete managedclusteraddons.addon.open-cluster-management.io c1/metrics" in said
    assert await offered.revision() == before


async def test_what_is_wrong_is_named(offered: Fleet, tmp_path: Path) -> None:
    before = await offered.revision()
    enable = ["addon", "enable", "--clusters", "c1", "--names"]
    assert "enabling the unknown addon magic is not supported" in await offered.fails(*enable, "metrics,magic")
    file = tmp_path / "config.json"
    for config, complaint in (
        ({"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}}, "the hub serves no example.com/v1"),
        ({"apiVersion": "v1", "kind": "Magic", "metadata": {"name": "a"}}, "the hub serves no Magic of v1"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "metadata.namespace: not set"),
    ):
        file.write_text(json.dumps(config))
        assert complaint in await offered.fails(*enable, "metrics", "--config-file", str(file))
    assert "forbidden" in await offered.fails(*enable, "metrics", context="mallory@hub")
    assert "non-hub cluster" in await offered.fails(*enable, "metrics", context="plain")
    assert "non-hub cluster" in await offered.fails("addon", "disable", "--names", "a", "-c", "c1", context="plain")
    assert "non-hub cluster" in await offered.fails("addon", "list", context="plain")
    assert await offered.revision() == before


async def test_a_cluster_that_is_not_there_is_told_and_stops_no_other(offered: Fleet) -> None:
    complaint = await offered.fails("addon", "enable", "--names", "metrics", "--clusters", "nowhere,c1")
    assert "metrics add-on of cluster nowhere" in complaint
    assert await addon(offered, "metrics", "c1")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["enable", "--clusters", "c1"], "--names"),
        (["enable", "--names", "a"], "--clusters"),
        (["disable", "--clusters", "c1"], "--names"),
        (["disable", "--names", "a"], "either --clusters or --all-clusters"),
        (["disable", "--names", "a", "-c", "c1", "--all-clusters"], "either --clusters or --all-clusters"),
        (["list", "-o", "xml"], "--output"),
    ],
)
async def test_wrong_usage_ends_with_2(fleet: Fleet, flags: list[str], complaint: str) -> None:
    assert complaint in await fleet.fails("addon", *flags, code=2)
