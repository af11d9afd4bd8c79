"""`clusteradm addon`: addons are switched on and off for clusters, and listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.administration.content.addon_templates import TEMPLATES
from muster.administration.content.addons import ADDONS, CLUSTER_ADDONS
from muster.administration.content.works import PLACEMENTS
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig
from muster.machinery.objects import Object
from muster.registration.names import UNAVAILABLE_TAINT, UNREACHABLE_TAINT
from muster.runtime.client.builtin import CLUSTER_ROLES, NAMESPACES
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


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "hello", "namespace": "hello"},
    "spec": {"selector": {"matchLabels": {"app": "hello"}}, "template": {"metadata": {"labels": {"app": "hello"}}, "spec": {}}},
}


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    (tmp_path / "below").mkdir()
    (tmp_path / "hello.json").write_text(json.dumps(DEPLOYMENT))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hello"}}
    (tmp_path / "below/namespace.json").write_text(json.dumps(namespace))
    return str(tmp_path)


async def test_an_addon_is_made_of_manifests(fleet: Fleet, manifests: str) -> None:
    said = await fleet.ok("addon", "create", "hello", "-f", manifests, "-R", "--labels", "team=x")
    assert "AddonTemplate hello-0.0.1 is created" in said
    assert "ClusterManagementAddon hello is created" in said
    template = await fleet.find(TEMPLATES, "hello-0.0.1")
    assert template
    assert template["metadata"]["labels"] == {"team": "x"}
    assert template["spec"]["addonName"] == "hello"
    assert [one["kind"] for one in template["spec"]["agentSpec"]["workload"]["manifests"]] == ["Namespace", "Deployment"]
    assert template["spec"]["registration"] == []
    found = await fleet.find(CLUSTER_ADDONS, "hello")
    assert found
    assert found["metadata"]["annotations"] == {"addon.open-cluster-management.io/lifecycle": "addon-manager"}
    assert found["spec"]["installStrategy"] == {"type": "Manual"}
    (config,) = found["spec"]["supportedConfigs"]
    assert (config["resource"], config["defaultConfig"]) == ("addontemplates", {"name": "hello-0.0.1"})


async def test_an_addon_with_a_credential_has_the_role_and_the_placement_that_are_named(fleet: Fleet, manifests: str) -> None:
    flags = ("--hub-registration", "--cluster-role-bind", "reader", "--placement-ref", "default/all")
    result = await fleet.run("addon", "create", "hello", "-f", manifests, *flags)
    assert result.exit_code == 0, result.output
    assert "there is no ClusterRole reader" in result.stderr
    template = await fleet.find(TEMPLATES, "hello-0.0.1")
    assert template
    permissions = [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "reader"}}]
    assert template["spec"]["registration"] == [{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions}}]
    strategy = (await fleet.admin().get(CLUSTER_ADDONS, "hello"))["spec"]["installStrategy"]
    assert strategy["type"] == "Placements"
    assert [(one["namespace"], one["name"]) for one in strategy["placements"]] == [("default", "all")]
    await fleet.admin().create(CLUSTER_ROLES, {"metadata": {"name": "reader"}, "rules": []})
    result = await fleet.run("addon", "create", "hello", "-f", manifests, *flags)
    assert "kubectl label clusterrole reader open-cluster-management.io/aggregate-to-addon-manager=true" in result.stderr


async def test_what_is_there_stays_unless_it_is_to_be_overwritten_and_then_keeps_how_it_is_installed(
    fleet: Fleet, manifests: str
) -> None:
    create = ("addon", "create", "hello", "-f", manifests)
    await fleet.ok(*create, "--placement-ref", "default/all", "--labels", "a=b")
    before = await fleet.revision()
    said = await fleet.ok(*create)
    assert "ClusterManagementAddon hello is not updated when overwrite is disabled" in said
    assert "AddonTemplate hello-0.0.1 is not updated when overwrite is disabled" in said
    assert await fleet.revision() == before
    admin = fleet.admin()
    other = {"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs"}
    spec = (await admin.get(CLUSTER_ADDONS, "hello"))["spec"]
    await admin.patch(CLUSTER_ADDONS, "hello", {"spec": {"supportedConfigs": [*spec["supportedConfigs"], other]}})
    said = await fleet.ok(*create, "--version", "0.0.2", "--overwrite", "--labels", "c=d")
    assert "AddonTemplate hello-0.0.2 is created" in said
    assert "ClusterManagementAddon hello is updated" in said
    found = await admin.get(CLUSTER_ADDONS, "hello")
    assert found["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert found["spec"]["installStrategy"]["placements"], "a new version changes nothing about where it is"
    configs = {one["resource"]: one.get("defaultConfig") for one in found["spec"]["supportedConfigs"]}
    assert configs == {"addontemplates": {"name": "hello-0.0.2"}, "addondeploymentconfigs": None}
    assert await fleet.find(TEMPLATES, "hello-0.0.1"), "clusters that have not got the new one yet need it"


async def test_what_would_be_made_is_shown_and_not_made(fleet: Fleet, manifests: str) -> None:
    before = await fleet.revision()
    shown = json.loads(await fleet.ok("addon", "create", "hello", "-f", manifests, "--dry-run", "-o", "json"))
    assert [one["kind"] for one in shown["items"]] == ["AddOnTemplate", "ClusterManagementAddOn"]
    assert "kind: AddOnTemplate" in await fleet.ok("addon", "create", "hello", "-f", manifests, "--dry-run", "-o", "yaml")
    assert await fleet.revision() == before


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--placement-ref", "all"], "placement-ref must be in the format 'namespace/name'"),
        (["--placement-ref", "/all"], "placement-ref namespace and name cannot be empty"),
        (["--placement-ref", "a/b/c"], "placement-ref must be in the format 'namespace/name'"),
        (["--cluster-role-bind", "reader"], "comes with --hub-registration"),
        (["--version", ""], "addon version must be specified"),
        (["--version", "A B"], "cannot name an AddOnTemplate"),
    ],
)
async def test_what_cannot_be_made_is_named_and_nothing_written(
    fleet: Fleet, manifests: str, flags: list[str], complaint: str
) -> None:
    before = await fleet.revision()
    assert complaint in await fleet.fails("addon", "create", "hello", "-f", manifests, *flags)
    assert "cannot name an addon" in await fleet.fails("addon", "create", "a" * 64, "-f", manifests)
    assert await fleet.revision() == before


async def place(fleet: Fleet, name: str, *tolerated: str) -> None:
    tolerations = [{"key": key, "operator": "Exists"} for key in tolerated]
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": {"tolerations": tolerations}}
    await fleet.admin().apply(PLACEMENTS, document, manager="test")


async def test_a_placement_installs_addons_until_it_is_taken_out(offered: Fleet, tmp_path: Path) -> None:
    await place(offered, "canary", UNREACHABLE_TAINT, UNAVAILABLE_TAINT)
    await place(offered, "all")
    config = tmp_path / "config.json"
    document = {"kind": "AddOnDeploymentConfig", "metadata": {"name": "small", "namespace": "default"}, "spec": {}}
    config.write_text(json.dumps({"apiVersion": "addon.open-cluster-management.io/v1alpha1", **document}))
    enable = ("addon", "enable", "--names", "metrics", "--placement")
    first = await offered.run(*enable, "default/canary", "--config-file", str(config))
    assert "metrics add-on is installed on the clusters of Placement default/canary." in first.stdout
    assert first.stderr == "", "who tolerates both taints is not warned"
    second = await offered.run(*enable, "default/all")
    assert "drops clusters that are offline, and the addon is removed there" in second.stderr
    assert UNREACHABLE_TAINT in second.stderr
    strategy = (await offered.admin().get(CLUSTER_ADDONS, "metrics"))["spec"]["installStrategy"]
    assert strategy["type"] == "Placements"
    assert [one["name"] for one in strategy["placements"]] == ["canary", "all"], "the last one counts where both choose"
    assert [one["name"] for one in strategy["placements"][0]["configs"]] == ["small"]
    before = await offered.revision()
    assert "is installed already" in await offered.ok(*enable, "default/all")
    assert await offered.revision() == before
    assert "<default/all>" in await offered.ok("get", "addons", "metrics")
    for name in ("canary", "all"):
        await offered.ok("addon", "disable", "--names", "metrics", "--placement", f"default/{name}")
    assert (await offered.admin().get(CLUSTER_ADDONS, "metrics"))["spec"]["installStrategy"] == {
        "type": "Placements",
        "placements": [],
    }
    said = await offered.ok("addon", "disable", "--names", "metrics,nobody", "--placement", "default/all")
    assert "metrics add-on is not installed by Placement default/all." in said


async def test_a_placement_or_an_addon_that_is_not_there_is_named_before_anything_is_written(offered: Fleet) -> None:
    before = await offered.revision()
    enable = ("addon", "enable", "--placement", "default/nowhere", "--names")
    complaint = await offered.fails(*enable, "metrics")
    assert "there is no Placement default/nowhere" in complaint
    assert "create placement nowhere" in complaint
    assert "unknown addon magic" in await offered.fails(*enable, "magic")
    assert await offered.revision() == before


async def test_who_enables_by_hand_what_placements_install_hears_that_it_will_not_last(offered: Fleet) -> None:
    await place(offered, "all", UNREACHABLE_TAINT, UNAVAILABLE_TAINT)
    await offered.ok("addon", "enable", "--names", "metrics", "--placement", "default/all")
    result = await offered.run("addon", "enable", "--names", "metrics", "-c", "c1")
    manual = "addon.open-cluster-management.io/disable-automatic-installation=true"
    assert f"remove it from others; keep it with --annotate {manual}" in result.stderr
    assert (await offered.run("addon", "enable", "--names", "metrics", "-c", "c1", "--annotate", manual)).stderr == ""
    result = await offered.run("addon", "disable", "--names", "metrics", "-c", "c1")
    assert "install it again there" in result.stderr


async def test_who_waits_hears_which_step_is_missing_and_goes_on_when_it_is_available(offered: Fleet) -> None:
    enable = ("addon", "enable", "--names", "metrics", "--clusters", "c1", "--wait")
    complaint = await offered.fails(*enable, "--timeout", "1s")
    assert "metrics on c1: owner: the addon manager has not taken it up" in complaint
    available = {"type": "Available", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await offered.admin().patch(ADDONS, "metrics", {"status": {"conditions": [available]}}, "c1", subresource="status")
    await offered.ok(*enable, "--timeout", "30s")
    await offered.ok("addon", "disable", "--names", "metrics", "--clusters", "c1", "--wait", "--timeout", "30s")
    assert await addon(offered, "metrics", "c1") is None


async def test_who_waits_for_the_end_hears_what_holds_it(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics", "--clusters", "c1")
    held = {"metadata": {"finalizers": ["addon.open-cluster-management.io/addon-pre-delete"]}}
    await offered.admin().patch(ADDONS, "metrics", held, "c1")
    complaint = await offered.fails("addon", "disable", "--names", "metrics", "-c", "c1", "--wait", "--timeout", "1s")
    assert "held by addon.open-cluster-management.io/addon-pre-delete" in complaint


async def test_conditions_reasons_and_what_is_missing_are_shown(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics", "--clusters", "c1,c2")
    told = {"type": "Progressing", "status": "False", "reason": "Completed", "message": "completed with no errors."}
    told |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    await offered.admin().patch(ADDONS, "metrics", {"status": {"conditions": [told]}}, "c1", subresource="status")
    shown = await offered.ok("get", "addon", "metrics")
    assert "<Progressing> False Completed: completed with no errors." in shown
    assert "<Missing> owner: the addon manager has not taken it up" in shown
    wide = (await offered.ok("get", "addons", "metrics", "-o", "wide")).splitlines()
    assert wide[0].split() == ["NAME", "INSTALLEDCLUSTERS", "AVAILABLE", "WAITING"]
    assert "c1 (owner),c2 (owner)" in wide[1]


async def test_the_doctor_names_the_step_that_is_missing(offered: Fleet) -> None:
    await offered.ok("addon", "enable", "--names", "metrics,logs", "--clusters", "c1")
    available = {"type": "Available", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await offered.admin().patch(ADDONS, "logs", {"status": {"conditions": [available]}}, "c1", subresource="status")
    result = await offered.run("doctor", "c1", "-o", "json")
    found = {one["subject"]: one for one in json.loads(result.stdout)["c1"]}
    assert found["addon metrics"]["verdict"] == "problem"
    assert found["addon metrics"]["text"] == "owner: the addon manager has not taken it up"
    assert "get hub-info" in found["addon metrics"]["remedy"]
    assert found["addons"]["text"] == "1 of 2 available"


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
        (["enable", "--names", "a", "-c", "c1", "--placement", "default/p"], "cannot be combined with --clusters"),
        (["enable", "--names", "a", "--placement", "default/p", "--labels", "a=b"], "cannot be combined with --labels"),
        (["enable", "--names", "a", "--placement", "default/p", "-n", "there"], "cannot be combined with --namespace"),
        (["create", "a"], "--filename"),
        (["disable", "--clusters", "c1"], "--names"),
        (["disable", "--names", "a"], "either --clusters or --all-clusters"),
        (["disable", "--names", "a", "-c", "c1", "--all-clusters"], "either --clusters or --all-clusters"),
        (["list", "-o", "xml"], "--output"),
    ],
)
async def test_wrong_usage_ends_with_2(fleet: Fleet, flags: list[str], complaint: str) -> None:
    assert complaint in await fleet.fails("addon", *flags, code=2)
