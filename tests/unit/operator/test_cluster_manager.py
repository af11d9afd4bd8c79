"""A ClusterManager becomes a hub, stays one whatever happens to it, and says how it fares."""

from __future__ import annotations

import asyncio

import pytest

from muster.api.crds import HUB
from muster.operator.bundle import pull_secret
from muster.operator.cluster_manager.components import HOOKS, WEBHOOK_SECRETS
from muster.operator.names import CLUSTER_MANAGER_FINALIZER, CLUSTER_MANAGERS, OPERATOR_NAMESPACE, PULL_SECRET
from muster.registration.hub.install import ACCOUNT
from muster.registration.names import (
    HUB_NAMESPACE,
)
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, CRDS, DEPLOYMENTS, NODES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from muster.work.hub.install import HOOKS as WORK_HOOKS
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.hubs import (
    ADDON_MANAGER,
    ALWAYS,
    CM,
    CONTROLLER,
    IMAGE,
    PLACEMENT,
    REPLICA_SETS_ON,
    WEBHOOK,
    WORK_CONTROLLER,
    WORK_WEBHOOK,
    Hub,
    operated,
)


async def test_a_cluster_manager_makes_the_cluster_a_hub(hub: Hub) -> None:
    await hub.up()
    manager = await hub.place.until_found(CLUSTER_MANAGERS, CM)
    assert manager["metadata"]["finalizers"] == [CLUSTER_MANAGER_FINALIZER]
    for kind in HUB:
        assert await hub.place.find(CRDS, kind.name), kind.name
    for name, command in (
        (CONTROLLER, "hub"),
        (WEBHOOK, "hub"),
        (WORK_WEBHOOK, "work-hub"),
        (PLACEMENT, "placement"),
        (ADDON_MANAGER, "addon-manager"),
    ):
        container = await hub.container(name)
        assert container["image"] == IMAGE
        assert container["args"][0] == command
    for part in ("registration", "work"):
        assert await hub.place.find(SERVICES, f"cluster-manager-{part}-webhook", HUB_NAMESPACE)
    assert (await hub.says("HubRegistrationDegraded", "False"))["reason"] == "RegistrationFunctional"
    assert (await hub.says("ValidFeatureGates", "True"))["reason"] == "FeatureGatesAllValid"
    status = (await hub.place.until_found(CLUSTER_MANAGERS, CM))["status"]
    assert status["observedGeneration"] == 1
    assert {one["name"] for one in status["generations"]} == set(ALWAYS)
    assert {"deployments", "customresourcedefinitions", "namespaces"} <= {one["resource"] for one in status["relatedResources"]}


async def test_the_work_controller_runs_only_where_there_is_work_for_it(hub: Hub) -> None:
    await hub.up()
    role = f"open-cluster-management:{CM}-work:controller"
    for resource, name, namespace in (
        (DEPLOYMENTS, WORK_CONTROLLER, HUB_NAMESPACE),
        (SERVICE_ACCOUNTS, "work-controller-sa", HUB_NAMESPACE),
        (CLUSTER_ROLES, role, ""),
    ):
        assert await hub.place.find(resource, name, namespace) is None
    await hub.change({"workConfiguration": REPLICA_SETS_ON})
    arguments = (await hub.container(WORK_CONTROLLER))["args"]
    assert arguments[0] == "work-hub"
    assert "--no-webhook" in arguments
    assert "--feature-gates=ManifestWorkReplicaSet=true" in arguments
    assert (await hub.place.until_found(CLUSTER_ROLES, role))["rules"]
    await hub.says("Progressing", "True")
    await hub.available(WORK_CONTROLLER)
    await hub.says("Progressing", "False")
    await hub.change({"workConfiguration": {"featureGates": None}})
    await hub.place.until_gone(DEPLOYMENTS, WORK_CONTROLLER, HUB_NAMESPACE)
    await hub.place.until_gone(SERVICE_ACCOUNTS, "work-controller-sa", HUB_NAMESPACE)
    await hub.place.until_gone(CLUSTER_ROLES, role)


async def test_works_have_gates_and_an_image_of_their_own(hub: Hub) -> None:
    gates = ("NilExecutorValidating", "CleanUpCompletedManifestWork", "CloudEventsDrivers", "Unheard")
    await hub.create(
        workImagePullSpec="example.com/mirror/muster:works",
        workConfiguration={"featureGates": [{"feature": gate, "mode": "Enable"} for gate in gates]},
    )
    await hub.says("Applied", "True")
    for name in (WORK_CONTROLLER, WORK_WEBHOOK):
        container = await hub.container(name)
        assert container["image"] == "example.com/mirror/muster:works"
        assert "--feature-gates=NilExecutorValidating=true,CleanUpCompletedManifestWork=true" in container["args"]
    assert (await hub.container())["image"] == IMAGE
    invalid = await hub.says("ValidFeatureGates", "False", "InvalidFeatureGatesExisting")
    assert "CloudEventsDrivers" in invalid["message"]
    assert "Unheard" in invalid["message"]
    assert "NilExecutorValidating" not in invalid["message"]


async def test_gates_of_upstream_alone_are_valid_and_said_to_be_without_effect(hub: Hub) -> None:
    gates = [{"feature": gate, "mode": "Enable"} for gate in ("ClusterImporter", "NetworkPolicies", "DefaultClusterSet")]
    await hub.create(registrationConfiguration={"featureGates": [*gates, {"feature": "ClusterProfile", "mode": "Disable"}]})
    valid = await hub.says("ValidFeatureGates", "True", "FeatureGatesAllValid")
    assert valid["message"] == "Feature gates are all valid; without effect here: registration: [ClusterImporter NetworkPolicies]"


async def test_the_placement_controller_has_gates_an_image_and_a_condition_of_its_own(hub: Hub) -> None:
    gates = [{"feature": gate, "mode": "Enable"} for gate in ("PlacementDebugServer", "SIGPlacementDecision")]
    await hub.create(placementImagePullSpec="example.com/mirror/muster:placement", placementConfiguration={"featureGates": gates})
    await hub.says("HubPlacementDegraded", "True", "UnavailablePlacementPod")
    container = await hub.container(PLACEMENT)
    assert container["image"] == "example.com/mirror/muster:placement"
    assert {"--no-install", "--feature-gates=PlacementDebugServer=true"} <= set(container["args"])
    assert "SIGPlacementDecision" in (await hub.says("ValidFeatureGates", "True"))["message"]
    role = await hub.place.until_found(CLUSTER_ROLES, f"open-cluster-management:{CM}-placement:controller")
    assert {"placementdecisions", "addonplacementscores"} <= {name for rule in role["rules"] for name in rule["resources"]}
    await hub.available()
    said = await hub.says("HubPlacementDegraded", "False", "PlacementFunctional")
    assert said["message"] == "Placement is scheduling placement decisions"
    await hub.place.admin.delete(DEPLOYMENTS, PLACEMENT, HUB_NAMESPACE)
    await hub.says("HubPlacementDegraded", "True")


async def test_the_placement_controllers_debug_service_is_reached_by_a_service_where_its_gate_is_on(hub: Hub) -> None:
    await hub.up(placementConfiguration={"featureGates": [{"feature": "PlacementDebugServer", "mode": "Enable"}]})
    service = await hub.place.until_found(SERVICES, f"{CM}-placement", HUB_NAMESPACE)
    pods = (await hub.place.until_found(DEPLOYMENTS, PLACEMENT, HUB_NAMESPACE))["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    assert [(one["port"], one["targetPort"]) for one in service["spec"]["ports"]] == [(9443, 9443)]
    container = await hub.container(PLACEMENT)
    assert {"--debug-host=$(POD_IP)", "--debug-port=9443"} <= set(container["args"])
    assert ("debug", 9443) in [(one["name"], one["containerPort"]) for one in container["ports"]]
    await hub.change({"placementConfiguration": None})
    await hub.place.until_gone(SERVICES, f"{CM}-placement", HUB_NAMESPACE)


async def test_there_is_a_role_for_who_may_write_works_without_executor(hub: Hub) -> None:
    await hub.up()
    (rule,) = (await hub.place.until_found(CLUSTER_ROLES, f"open-cluster-management:{CM}-work-executor-admin:webhook"))["rules"]
    assert rule["verbs"] == ["execute-as"]
    assert rule["resourceNames"] == ["system:serviceaccount::klusterlet-work-sa"]


async def test_at_rest_nothing_is_asked(hub: Hub) -> None:
    await hub.up()
    settled = 0
    while settled < 5:
        await hub.place.until(_quiet, "nothing to do")
        settled = settled + 1 if not hub.client.taken() else 0


async def _quiet() -> bool:
    await asyncio.sleep(0.05)
    return True


async def test_drift_is_repaired(hub: Hub) -> None:
    await hub.up()
    admin = hub.place.admin
    role = "open-cluster-management:cluster-manager-registration:controller"
    await admin.patch(CLUSTER_ROLES, role, {"rules": []})
    await admin.delete(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE)
    for secret in WEBHOOK_SECRETS:
        await admin.delete(SECRETS, secret, HUB_NAMESPACE)
    await admin.delete(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE)
    await admin.patch(DEPLOYMENTS, WEBHOOK, {"spec": {"replicas": 0}}, HUB_NAMESPACE)
    for hook in (HOOKS[0], WORK_HOOKS[0]):
        await admin.delete(hook.resource, hook.name)

    async def repaired() -> bool:
        found = await hub.place.find(CLUSTER_ROLES, role)
        return bool(found and found["rules"])

    await hub.place.until(repaired, "the role has its rules again")
    await hub.place.until_found(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE)
    for secret in WEBHOOK_SECRETS:
        await hub.place.until_found(SECRETS, secret, HUB_NAMESPACE)
    await hub.place.until_found(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE)

    async def scaled() -> bool:
        return (await hub.deployment(WEBHOOK))["spec"]["replicas"] == 1

    await hub.place.until(scaled, "the webhook runs again")
    await hub.available()
    for hook in (HOOKS[0], WORK_HOOKS[0]):
        await hub.place.until_found(hook.resource, hook.name)


async def test_another_image_rolls_out(hub: Hub) -> None:
    await hub.up()
    await hub.change({"registrationImagePullSpec": "example.com/mirror/muster:next"})

    async def changed() -> bool:
        return (await hub.container())["image"] == "example.com/mirror/muster:next"

    await hub.place.until(changed, "the new image is asked for")
    await hub.says("Progressing", "True", "ClusterManagerDeploymentRolling")
    await hub.available()
    await hub.says("Progressing", "False")


async def test_upstreams_default_image_means_ours(hub: Hub) -> None:
    await hub.up(registrationImagePullSpec="quay.io/open-cluster-management/registration:v1.0.0")
    assert (await hub.container())["image"] == IMAGE


async def test_gates_and_drivers_become_flags(hub: Hub) -> None:
    arn = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
    await hub.create(
        registrationConfiguration={
            "autoApproveUsers": ["system:bootstrap:ocmhub"],
            "featureGates": [
                {"feature": "ManagedClusterAutoApproval", "mode": "Enable"},
                {"feature": "DefaultClusterSet", "mode": "Disable"},
                {"feature": "ManagedClusterAgentRestriction", "mode": "Enable"},
                {"feature": "Unheard", "mode": "Enable"},
                {"feature": "ClusterProfile", "mode": "Enable"},
            ],
            "registrationDrivers": [
                {"authType": "csr", "csr": {"autoApprovedIdentities": ["alice"]}},
                {"authType": "awsirsa", "awsirsa": {"hubClusterArn": arn, "autoApprovedIdentities": ["a{1,2}"], "tags": ["k=v"]}},
            ],
        }
    )
    await hub.says("Applied", "True")
    arguments = (await hub.container())["args"]
    gates = "--feature-gates=ManagedClusterAutoApproval=true,DefaultClusterSet=false,ManagedClusterAgentRestriction=true"
    assert gates in arguments
    assert gates in (await hub.container("cluster-manager-registration-webhook"))["args"]
    for wanted in (
        "--cluster-auto-approval-users=system:bootstrap:ocmhub",
        "--enabled-registration-drivers=csr,awsirsa",
        "--auto-approved-csr-users=alice",
        f"--hub-cluster-arn={arn}",
        "--auto-approved-arn-patterns=a{1,2}",
        "--aws-resource-tags=k=v",
    ):
        assert wanted in arguments
    invalid = await hub.says("ValidFeatureGates", "False", "InvalidFeatureGatesExisting")
    assert "Unheard" in invalid["message"]
    assert "ClusterProfile" in invalid["message"]
    account = await hub.place.until_found(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE)
    role = "arn:aws:iam::111111111111:role/hub-0_managed-cluster-identity-creator"
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    await hub.change({"registrationConfiguration": {"registrationDrivers": None}})

    async def untied() -> bool:
        found = await hub.place.until_found(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE)
        return "annotations" not in found["metadata"]

    await hub.place.until(untied, "the account is no longer tied to the role")


async def test_a_bad_spec_gets_a_condition_and_heals_when_it_is_mended(hub: Hub) -> None:
    await hub.create(registrationConfiguration={"registrationDrivers": [{"authType": "awsirsa"}]})
    failed = await hub.says("Applied", "False", "HubResourceApplyFailed")
    assert "hubClusterArn" in failed["message"]
    await hub.change({"registrationConfiguration": None})
    await hub.says("Applied", "True")


@pytest.mark.parametrize("name", ["kerberos", "carrier-pigeon"])
async def test_a_driver_that_nobody_has_is_refused_naming_those_there_are(hub: Hub, name: str) -> None:
    await hub.create(registrationConfiguration={"registrationDrivers": [{"authType": "csr"}, {"authType": name}]})
    told = await hub.says("Applied", "False", "HubResourceApplyFailed")
    assert f"[authType={name}].authType: there is no registration driver '{name}'; there are: awsirsa, csr, grpc" in told["message"]
    await hub.change({"registrationConfiguration": None})
    await hub.says("Applied", "True")


async def test_nodes_and_resources_are_as_asked(hub: Hub) -> None:
    await hub.up(
        nodePlacement={"nodeSelector": {"role": "infra"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
        resourceRequirement={"type": "ResourceRequirement", "resourceRequirements": {"limits": {"memory": "256Mi"}}},
    )
    pod = (await hub.deployment())["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"role": "infra"}
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "256Mi"}


async def test_of_two_the_older_has_the_hub_and_the_other_takes_over(hub: Hub) -> None:
    await hub.up()
    await hub.create("second")
    refused = await hub.says("Applied", "False", name="second")
    assert CM in refused["message"]
    await hub.place.admin.delete(CLUSTER_MANAGERS, "second")
    await hub.until_gone("second")
    await hub.says("Applied", "True")
    assert await hub.place.find(CRDS, HUB[0].name), "the other's things were left alone"


async def test_an_operator_that_starts_anew_takes_up_what_it_finds(here: Cluster) -> None:
    async with operated(here) as hub:
        await hub.up()
    await here.admin.delete(CLUSTER_MANAGERS, CM)
    async with operated(here) as hub:
        await hub.until_gone()
        assert await hub.remains() == []


async def test_what_images_are_pulled_with_goes_where_the_components_are(hub: Hub) -> None:
    secret = pull_secret(OPERATOR_NAMESPACE, b'{"auths": {}}')
    await hub.place.admin.apply(SECRETS, secret, manager="test")
    await hub.up()
    copy = await hub.place.until_found(SECRETS, PULL_SECRET, HUB_NAMESPACE)
    assert copy["data"] == secret["data"]
    pod = (await hub.deployment())["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": PULL_SECRET}]


async def test_where_the_control_plane_is_spread_so_are_the_components(here: Cluster) -> None:
    for number in range(3):
        labels = {"node-role.kubernetes.io/control-plane": ""}
        await here.admin.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"control-{number}", "labels": labels}}
        )
    async with operated(here) as hub:
        await hub.up()
        found = await hub.deployment()
        assert found["spec"]["replicas"] == 3
        assert "podAntiAffinity" in found["spec"]["template"]["spec"]["affinity"]
