"""A hub that offers the addons of policies: with which rights they are served, and that nothing of them outlives the hub."""

from __future__ import annotations

from muster.api.addons import ADDON_LABEL
from muster.api.agents import CLUSTER_LABEL
from muster.machinery.objects import Object
from muster.operator.cluster_manager import manifests
from muster.operator.names import CLUSTER_MANAGERS
from muster.policy.addons.cluster_access import role_name
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.client.builtin import CLUSTER_ROLES, CRDS
from tests.unit.operator.hubs import CM, Hub

ADDONS = f"{CM}-hub-addons-controller"
ROLE = f"open-cluster-management:{CM}-hub-addons:controller"


async def begun(hub: Hub, *gates: str) -> None:
    await hub.create(addOnManagerConfiguration={"featureGates": [{"feature": gate, "mode": "Enable"} for gate in gates]})
    await hub.says("Applied", "True", "ClusterManagerApplied")
    await hub.available(ADDONS)


async def may_write_cluster_roles(hub: Hub) -> bool:
    role: Object = await hub.place.until_found(CLUSTER_ROLES, ROLE)
    return any("clusterroles" in rule.get("resources", ()) and "create" in rule["verbs"] for rule in role["rules"])


async def test_hub_templates_come_with_the_controller_and_nothing_is_enabled(hub: Hub) -> None:
    await begun(hub, "StandaloneHubTemplating")
    assert f"--names={CONFIG_POLICY_ADDON},{STANDALONE_ADDON}" in (await hub.container(ADDONS))["args"]
    for addon in (CONFIG_POLICY_ADDON, STANDALONE_ADDON):
        found = await hub.place.until_found(manifests.CLUSTER_ADDONS, addon)
        assert found["spec"].get("installStrategy", {"type": "Manual"}) == {"type": "Manual"}
    assert await may_write_cluster_roles(hub)
    # Policies are of managed clusters.
    assert await hub.place.find(CRDS, "configurationpolicies.policy.open-cluster-management.io") is None


async def test_who_serves_the_controller_alone_may_write_no_cluster_role(hub: Hub) -> None:
    await begun(hub, "ConfigPolicyController", "ManagedServiceAccount")
    assert f"--names=managed-serviceaccount,{CONFIG_POLICY_ADDON}" in (await hub.container(ADDONS))["args"]
    assert not await may_write_cluster_roles(hub)


async def test_rights_of_clusters_go_with_the_hub_though_nobody_serves_the_addon(hub: Hub) -> None:
    await begun(hub, "StandaloneHubTemplating")
    labels = {CLUSTER_LABEL: "c1", ADDON_LABEL: STANDALONE_ADDON}
    role = {"metadata": {"name": role_name("c1"), "labels": labels}, "rules": []}
    await hub.place.admin.create(CLUSTER_ROLES, {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.kind, **role})
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.place.find(CLUSTER_ROLES, role_name("c1")) is None
