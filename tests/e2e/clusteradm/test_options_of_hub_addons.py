"""The options of `clusteradm install hub-addon` and `uninstall hub-addon`.

Nobody runs the operator here: what the commands say in the ClusterManager is looked at. What an operator makes of it is shown by
`tests/e2e/operator/test_gateway.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.gateway.apiservice import API_VERSION_ANNOTATION, OAM_ANNOTATION
from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import World
from tests.e2e.clusteradm.test_options_of_gateway import DEFINITION, DEFINITIONS, GATEWAYS, NAME

MANAGER = "/apis/operator.open-cluster-management.io/v1/clustermanagers/cluster-manager"
ADDONS = "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/gated/managedclusteraddons"
INSTALL, UNINSTALL = ("install", "hub-addon", "--names"), ("uninstall", "hub-addon", "--names")
GATEWAY, ACCOUNTS = "cluster-gateway", "managed-serviceaccount"


def manager(world: World) -> dict[str, Any]:
    return world.hub.admin.get(MANAGER).expect(200)


def gates(world: World) -> set[str]:
    configured = manager(world)["spec"].get("addOnManagerConfiguration") or {}
    return {one["feature"] for one in configured.get("featureGates") or () if one["mode"] == "Enable"}


@pytest.fixture
def hub(world: World) -> Iterator[World]:
    """Without add-ons of its own before and after."""
    world.ok(*UNINSTALL, f"{GATEWAY},{ACCOUNTS}", "--force")
    yield world
    world.ok(*UNINSTALL, f"{GATEWAY},{ACCOUNTS}", "--force")
    assert gates(world).isdisjoint({"ClusterGateway", "ManagedServiceAccount"})


@shows("install hub-addon", "--names", "--output", "--output-file")
@shows("uninstall hub-addon", "--names", "--output")
def test_they_are_switched_in_the_cluster_manager(hub: World, tmp_path: Path) -> None:
    written = tmp_path / "applied.yaml"
    told = json.loads(hub.ok(*INSTALL, GATEWAY, "-o", "json", "--output-file", str(written)))
    assert told == {"hubAddons": [{"name": GATEWAY, "state": "installed"}]}
    assert "ClusterGateway" in gates(hub)
    wanted = yaml.safe_load(written.read_text())
    assert (wanted["kind"], wanted["metadata"]["name"]) == ("ClusterManager", "cluster-manager")
    assert {"feature": "ClusterGateway", "mode": "Enable"} in wanted["spec"]["addOnManagerConfiguration"]["featureGates"]
    told = json.loads(hub.ok(*UNINSTALL, f"{GATEWAY},{ACCOUNTS}", "-o", "json"))
    assert [one["state"] for one in told["hubAddons"]] == ["uninstalled", "not installed"]
    assert "ClusterGateway" not in gates(hub)


@shows("install hub-addon", "--api-version", "--oam-api", "--force")
def test_another_api_in_the_way_is_named_and_another_version_chosen(hub: World) -> None:
    admin = hub.hub.admin
    admin.post(DEFINITIONS, DEFINITION).expect(201)
    try:
        hub.hub.wait_reply(lambda: admin.get(GATEWAYS), "another API is served there", 200)
        refused = hub.fails(*INSTALL, GATEWAY)
        assert NAME in refused
        assert "--api-version v1beta1" in refused
        assert "ClusterGateway" not in gates(hub)
        hub.ok(*INSTALL, GATEWAY, "--api-version", "v1beta1", "--oam-api")
        annotations = manager(hub)["metadata"]["annotations"]
        assert (annotations[API_VERSION_ANNOTATION], annotations[OAM_ANNOTATION]) == ("v1beta1", "true")
        hub.ok(*INSTALL, GATEWAY, "--api-version", "v1alpha1", "--no-oam-api", "--force")
        assert manager(hub)["metadata"]["annotations"][API_VERSION_ANNOTATION] == "v1alpha1"
    finally:
        admin.delete(f"{DEFINITIONS}/{NAME}").expect(200)
        hub.hub.wait(lambda: admin.get(GATEWAYS).status == 404, "it is gone")


@shows("install hub-addon", "--wait")
@shows("uninstall hub-addon", "--wait", "--force")
def test_who_waits_is_told_what_for(hub: World) -> None:
    told = hub.fails(*INSTALL, GATEWAY, "--wait", "--timeout", "1s")
    assert "the hub does not offer managed-serviceaccount to clusters yet" in told
    hub.cluster("gated")
    addon = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"}
    hub.hub.admin.post(ADDONS, {**addon, "metadata": {"name": GATEWAY}, "spec": {}}).expect(201)
    assert "addon disable --names cluster-gateway" in hub.fails(*UNINSTALL, GATEWAY)
    assert "ClusterGateway" in gates(hub)
    assert "is uninstalled" in hub.run(*UNINSTALL, GATEWAY, "--force", "--wait", "--timeout", "30s").output


@shows("install hub-addon", "--namespace", "--create-namespace", "--bundle-version", "--bundle-version-overrides")
@shows("uninstall hub-addon", "--namespace")
def test_ocms_other_flags_are_taken_and_said_to_have_no_effect(hub: World, tmp_path: Path) -> None:
    overrides = tmp_path / "overrides.yaml"
    overrides.write_text("{}")
    flags = ["--namespace", "elsewhere", "--create-namespace", "--bundle-version", "latest"]
    done = hub.run(*INSTALL, ACCOUNTS, *flags, "--bundle-version-overrides", str(overrides))
    assert done.exit_code == 0, done.output
    for flag in ("--namespace", "--create-namespace", "--bundle-version", "--bundle-version-overrides"):
        assert f"{flag} has no effect" in done.stderr
    assert hub.hub.admin.get("/api/v1/namespaces/elsewhere").status == 404
    hub.ok(*UNINSTALL, ACCOUNTS, "--namespace", "elsewhere")
