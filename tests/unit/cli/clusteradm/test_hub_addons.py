"""`clusteradm install|uninstall hub-addon`, and what `init` and `join` have to do with a gateway."""

from __future__ import annotations

import json
from typing import Any

import click

from muster.administration.hub import hub_addons
from muster.administration.hubs import HubAddress, cluster_info
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.proxy.v1alpha1 import GROUP
from muster.cli.clusteradm import hub_addon as command
from muster.gateway.apiservice import API_VERSION_ANNOTATION, API_VERSIONS, OAM_ANNOTATION
from muster.gateway.names import CREDENTIALS_NAMESPACE
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGERS
from muster.runtime.client import served
from muster.runtime.client.builtin import CRDS, NAMESPACES, SECRETS
from muster.runtime.install import apply_all
from tests.unit.cli.clusteradm.conftest import FRESH, HUB, PLAIN, Fleet
from tests.unit.cli.clusteradm.joining import Joining
from tests.unit.operator.test_cluster_gateway import definition

GATEWAY, ACCOUNTS = "cluster-gateway", "managed-serviceaccount"
ADDONS, CLUSTER_ADDONS = served(ManagedClusterAddOn), served(ClusterManagementAddOn)


async def manager(fleet: Fleet, cluster: str = HUB) -> Object:
    return await fleet.admin(cluster).get(CLUSTER_MANAGERS, "cluster-manager")


async def gates(fleet: Fleet, cluster: str = HUB) -> dict[str, str]:
    spec = (await manager(fleet, cluster))["spec"]
    return {one["feature"]: one["mode"] for one in (spec.get("addOnManagerConfiguration") or {}).get("featureGates") or ()}


async def begun(fleet: Fleet, *flags: str) -> None:
    await fleet.ok("init", "--force", *flags)


def enabled(addon: str) -> Object:
    metadata = {"name": addon, "namespace": "cluster1"}
    return {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "metadata": metadata, "spec": {}}


async def enable(fleet: Fleet, addon: str) -> None:
    admin = fleet.admin()
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster1"}})
    await admin.create(ADDONS, enabled(addon))


def test_the_command_knows_what_there_is() -> None:
    assert command.KNOWN == hub_addons.KNOWN
    assert command.API_VERSIONS == API_VERSIONS


async def test_the_gate_is_switched_and_others_are_left_as_they_are(fleet: Fleet) -> None:
    await begun(fleet, "--feature-gates=AddonManagement=true")
    said = await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    assert "cluster-gateway add-on of the hub is installed." in said
    assert await gates(fleet) == {"AddonManagement": "Enable", "ClusterGateway": "Enable"}
    assert "installed already" in await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    before = await fleet.revision()
    await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    assert await fleet.revision() == before
    said = await fleet.ok("uninstall", "hub-addon", "--names", GATEWAY)
    assert "is uninstalled" in said
    assert await gates(fleet) == {"AddonManagement": "Enable"}
    assert "is not installed" in await fleet.ok("uninstall", "hub-addon", "--names", GATEWAY)


async def test_init_switches_it_too_and_does_not_switch_off_what_install_did(fleet: Fleet) -> None:
    await fleet.ok("init", "--feature-gates=ClusterGateway=true", context=FRESH)
    assert await gates(fleet, FRESH) == {"ClusterGateway": "Enable"}
    await begun(fleet)
    await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    await begun(fleet)
    assert await gates(fleet) == {"ClusterGateway": "Enable"}


async def test_names_that_nobody_knows_are_refused_with_those_that_are(fleet: Fleet) -> None:
    await begun(fleet)
    said = await fleet.fails("install", "hub-addon", "--names", "argocd,cluster-gateway")
    assert "argocd" in said
    assert "managed-serviceaccount, cluster-gateway" in said
    assert await gates(fleet) == {}
    assert "--names" in await fleet.fails("install", "hub-addon")
    assert "--names" in await fleet.fails("uninstall", "hub-addon", "--names", "argocd")


async def test_the_policy_framework_is_refused_with_what_is_there_instead(fleet: Fleet) -> None:
    await begun(fleet)
    for verb in ("install", "uninstall"):
        said = await fleet.fails(verb, "hub-addon", "--names", "governance-policy-framework,cluster-gateway")
        assert "governance-policy-framework" in said
        assert "config-policy-controller and governance-standalone-hub-templating" in said
    assert await gates(fleet) == {}


async def test_addons_of_policies_are_switched_and_only_offered(fleet: Fleet) -> None:
    await begun(fleet)
    await fleet.ok("install", "hub-addon", "--names", "governance-standalone-hub-templating")
    assert await gates(fleet) == {"StandaloneHubTemplating": "Enable"}
    assert not (await fleet.admin().list(ADDONS)).items
    assert "installed." in await fleet.ok("install", "hub-addon", "--names", "config-policy-controller")
    said = await fleet.fails("uninstall", "hub-addon", "--names", "config-policy-controller")
    assert "needed by governance-standalone-hub-templating" in said
    await fleet.ok("uninstall", "hub-addon", "--names", "config-policy-controller,governance-standalone-hub-templating")
    assert await gates(fleet) == {}


async def test_without_a_hub_it_says_what_to_do(fleet: Fleet) -> None:
    assert "init" in await fleet.fails("install", "hub-addon", "--names", GATEWAY, context=PLAIN)


async def test_another_api_in_the_way_is_found_before_anything_is_written(fleet: Fleet) -> None:
    await begun(fleet)
    await fleet.admin().create(CRDS, definition())
    said = await fleet.fails("install", "hub-addon", "--names", GATEWAY)
    assert f"managedproxyconfigurations.{GROUP}" in said
    assert "--api-version v1beta1" in said
    assert await gates(fleet) == {}
    await fleet.ok("install", "hub-addon", "--names", GATEWAY, "--api-version", "v1beta1", "--oam-api")
    annotations = (await manager(fleet))["metadata"]["annotations"]
    assert (annotations[API_VERSION_ANNOTATION], annotations[OAM_ANNOTATION]) == ("v1beta1", "true")
    # What was chosen stays chosen.
    await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    assert (await manager(fleet))["metadata"]["annotations"][API_VERSION_ANNOTATION] == "v1beta1"


async def test_init_refuses_another_api_in_the_way(fleet: Fleet) -> None:
    await fleet.admin(FRESH).create(CRDS, definition())
    said = await fleet.fails("init", "--feature-gates=ClusterGateway=true", context=FRESH)
    assert f"managedproxyconfigurations.{GROUP}" in said
    assert await fleet.find(CRDS, "clustermanagers.operator.open-cluster-management.io", "", FRESH) is None


async def test_accounts_are_not_taken_from_a_gateway_that_needs_them(fleet: Fleet) -> None:
    await begun(fleet)
    await fleet.ok("install", "hub-addon", "--names", f"{GATEWAY},{ACCOUNTS}")
    assert set(await gates(fleet)) == {"ClusterGateway", "ManagedServiceAccount"}
    assert "needed by cluster-gateway" in await fleet.fails("uninstall", "hub-addon", "--names", ACCOUNTS)
    await fleet.ok("uninstall", "hub-addon", "--names", f"{ACCOUNTS},{GATEWAY}")
    assert await gates(fleet) == {}


async def test_what_clusters_have_is_disabled_first(fleet: Fleet) -> None:
    await begun(fleet)
    await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    await enable(fleet, ACCOUNTS)
    said = await fleet.fails("uninstall", "hub-addon", "--names", GATEWAY)
    assert "addon disable --names managed-serviceaccount --all-clusters" in said
    assert set(await gates(fleet)) == {"ClusterGateway"}
    await fleet.ok("uninstall", "hub-addon", "--names", GATEWAY, "--force")
    assert await gates(fleet) == {}


async def test_definitions_of_addons_go_with_them_unless_somebody_else_made_them(fleet: Fleet) -> None:
    await begun(fleet)
    await fleet.ok("install", "hub-addon", "--names", GATEWAY)
    labels = {"labels": {"operator.open-cluster-management.io/cluster-manager": "cluster-manager"}}
    kind: dict[str, Any] = {"apiVersion": CLUSTER_ADDONS.api_version, "kind": CLUSTER_ADDONS.kind, "spec": {}}
    await fleet.admin().create(CLUSTER_ADDONS, {**kind, "metadata": {"name": GATEWAY, **labels}})
    await fleet.admin().create(CLUSTER_ADDONS, {**kind, "metadata": {"name": ACCOUNTS}})
    await fleet.ok("uninstall", "hub-addon", "--names", GATEWAY)
    assert await fleet.find(CLUSTER_ADDONS, GATEWAY) is None
    assert await fleet.find(CLUSTER_ADDONS, ACCOUNTS)


async def test_a_dry_run_writes_nothing(fleet: Fleet) -> None:
    await begun(fleet)
    before = await fleet.revision()
    await fleet.ok("install", "hub-addon", "--names", GATEWAY, "--dry-run", "--wait")
    assert await fleet.revision() == before


async def test_programs_are_told_in_json_and_ocms_flags_are_taken(fleet: Fleet) -> None:
    await begun(fleet)
    flags = ("--namespace=x", "--create-namespace", "--bundle-version=latest", "-o", "json")
    result = await fleet.run("install", "hub-addon", "--names", GATEWAY, *flags)
    assert json.loads(result.stdout) == {"hubAddons": [{"name": GATEWAY, "state": "installed"}]}
    assert "--namespace has no effect" in result.stderr


def test_names_are_completed() -> None:
    parameter = next(one for one in command.install_hub_addon.params if one.name == "names")
    context = click.Context(command.install_hub_addon)
    assert [one.value for one in parameter.shell_complete(context, f"{ACCOUNTS},clu")] == [f"{ACCOUNTS},{GATEWAY}"]


async def test_cleaning_keeps_credentials_that_somebody_put_there(fleet: Fleet) -> None:
    await fleet.ok("init", context=FRESH)
    assert await fleet.find(NAMESPACES, CREDENTIALS_NAMESPACE, "", FRESH)
    admin = fleet.admin(FRESH)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foo", "namespace": CREDENTIALS_NAMESPACE}}
    await admin.create(SECRETS, secret)
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": None}})
    said = await fleet.ok("clean", context=FRESH)
    assert f"left: Namespace {CREDENTIALS_NAMESPACE}" in said
    assert await fleet.find(SECRETS, "foo", CREDENTIALS_NAMESPACE, FRESH)
    await admin.delete(SECRETS, "foo", CREDENTIALS_NAMESPACE)


async def test_the_hub_is_told_where_a_cluster_says_that_it_is_reached(joining: Joining) -> None:
    address = HubAddress("https://api.cluster1.example:6443", joining.fleet.server.ca_pem)
    await apply_all(joining.fleet.admin(PLAIN), cluster_info(address), "test")
    await joining.ok()
    assert (await joining.klusterlet())["spec"]["externalServerURLs"] == [{"url": "https://api.cluster1.example:6443"}]


async def test_a_cluster_that_does_not_say_joins_without(joining: Joining) -> None:
    result = await joining.fleet.run("join", *joining.flags, "--cluster-name", "cluster1", context=PLAIN)
    assert result.exit_code == 0, result.output
    assert "the hub is not told where this cluster's API server is reached" in result.stderr
    assert "externalServerURLs" not in (await joining.klusterlet())["spec"]
