"""A ClusterManager becomes a hub, stays one whatever happens to it, says how it fares, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from muster.api.crds import HUB
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, pull_secret
from muster.operator.cluster_manager.components import HOOKS, WEBHOOK_SECRETS
from muster.operator.cluster_manager.controller import ClusterManagerOperator, OperatorOptions
from muster.operator.names import (
    CLUSTER_MANAGER_FINALIZER,
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGERS,
    DEPLOYMENTS,
    OPERATOR_NAMESPACE,
    PULL_SECRET,
    SERVICES,
)
from muster.registration.hub.install import ACCOUNT, WEBHOOK_SECRET
from muster.registration.installing import SERVICE_ACCOUNTS, binding
from muster.registration.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, MANAGED_CLUSTERS, NODES, ROLE_BINDINGS
from muster.registration.names import (
    CLUSTER_LABEL,
    HUB_NAMESPACE,
    LEASE,
    RESOURCE_CLEANUP,
    WORK_CLEANUP,
    cluster_role,
    work_binding,
)
from muster.runtime.certs import ServingCertificate, ServingPair, make_pair
from muster.runtime.clock import SYSTEM
from muster.runtime.errors import ServerFailure
from muster.runtime.resource import CONFIG_MAPS, DEFINITIONS, LEASES, NAMESPACES, SECRETS, Object, Resource
from muster.work.hub.install import HOOKS as WORK_HOOKS
from tests.unit.operator.conftest import CountingClient, Place, running

CM = "cluster-manager"
CONTROLLER, WEBHOOK = f"{CM}-registration-controller", f"{CM}-registration-webhook"
WORK_CONTROLLER, WORK_WEBHOOK = f"{CM}-work-controller", f"{CM}-work-webhook"
ALWAYS = (CONTROLLER, WEBHOOK, WORK_WEBHOOK)
REPLICA_SETS_ON = {"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]}
IMAGE = "example.com/muster:test"


@dataclass
class Hub:
    """An operator at work, and what an administrator sees of it."""

    place: Place
    client: CountingClient

    async def create(self, name: str = CM, **spec: Any) -> Object:
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": name}, "spec": spec}
        return await self.place.admin.create(CLUSTER_MANAGERS, document)

    async def change(self, spec: Object, name: str = CM) -> None:
        await self.place.admin.patch(CLUSTER_MANAGERS, name, {"spec": spec})

    async def says(self, kind: str, status: str, reason: str = "", name: str = CM) -> Object:
        return await self.place.until_condition(CLUSTER_MANAGERS, name, kind, status, reason)

    async def available(self, *more: str) -> None:
        for name in (*ALWAYS, *more):
            await self.place.set_available(name, HUB_NAMESPACE)

    async def up(self, **spec: Any) -> None:
        await self.create(**spec)
        await self.says("Applied", "True", "ClusterManagerApplied")
        await self.available()
        await self.says("Progressing", "False", "ClusterManagerUpToDate")
        for hook in HOOKS:
            await self.place.until_found(hook.resource, hook.name)

    async def deployment(self, name: str = CONTROLLER) -> Object:
        return await self.place.until_found(DEPLOYMENTS, name, HUB_NAMESPACE)

    async def container(self, name: str = CONTROLLER) -> Object:
        found: Object = (await self.deployment(name))["spec"]["template"]["spec"]["containers"][0]
        return found

    async def until_argument(self, argument: str) -> None:
        async def there() -> bool:
            return argument in (await self.container())["args"]

        await self.place.until(there, f"the controller is told {argument}")

    async def until_gone(self, name: str = CM) -> None:
        await self.place.until_gone(CLUSTER_MANAGERS, name)

    async def remains(self) -> list[str]:
        """What carries the operator's label, and what is known by name."""
        found = []
        for resource in (DEFINITIONS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *{hook.resource for hook in HOOKS}):
            for obj in (await self.place.admin.list(resource)).items:
                name = obj["metadata"]["name"]
                if "open-cluster-management" in name and not name.startswith("clustermanagers."):
                    found.append(f"{resource}/{name}")
        if await self.place.find(NAMESPACES, HUB_NAMESPACE):
            found.append(f"namespaces/{HUB_NAMESPACE}")
        return found


@asynccontextmanager
async def operated(place: Place, **options: Any) -> AsyncIterator[Hub]:
    client = await place.operator(CLUSTER_MANAGER_OPERATOR)
    operator = ClusterManagerOperator(client, OperatorOptions(image=IMAGE, **options))
    async with running(operator.run()):
        yield Hub(place, client)


@pytest.fixture
async def hub(here: Place) -> AsyncIterator[Hub]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(operated(here, patience=timedelta(seconds=1)))


async def test_a_cluster_manager_makes_the_cluster_a_hub(hub: Hub) -> None:
    await hub.up()
    manager = await hub.place.until_found(CLUSTER_MANAGERS, CM)
    assert manager["metadata"]["finalizers"] == [CLUSTER_MANAGER_FINALIZER]
    for kind in HUB:
        assert await hub.place.find(DEFINITIONS, kind.name), kind.name
    for name, command in ((CONTROLLER, "hub"), (WEBHOOK, "hub"), (WORK_WEBHOOK, "work-hub")):
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


async def test_webhooks_are_configured_only_when_they_answer_and_trust_the_certificate_in_use(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    assert (await hub.says("HubRegistrationDegraded", "True"))["reason"] == "UnavailableRegistrationPod"
    assert (await hub.says("Progressing", "True"))["reason"] == "ClusterManagerDeploymentRolling"
    assert await hub.place.find(HOOKS[0].resource, HOOKS[0].name) is None
    await hub.available()
    hook = await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    secret = await hub.place.until_found(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
    assert hook["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    works = await hub.place.until_found(WORK_HOOKS[0].resource, WORK_HOOKS[0].name)
    certificate = await hub.place.until_found(SECRETS, "work-webhook-serving-cert", HUB_NAMESPACE)
    assert works["webhooks"][0]["clientConfig"]["caBundle"] == certificate["data"]["ca.crt"] != secret["data"]["ca.crt"]
    assert works["webhooks"][0]["clientConfig"]["service"]["name"] == "cluster-manager-work-webhook"
    bundle = await hub.place.until_found(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE)
    for one in (secret, certificate):
        assert base64.b64decode(one["data"]["ca.crt"]).decode().strip() in bundle["data"]["ca-bundle.crt"]
    converted = await hub.place.until_found(DEFINITIONS, "managedclusteraddons.addon.open-cluster-management.io")
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


async def test_webhooks_stay_configured_when_they_stop_answering(hub: Hub) -> None:
    await hub.up()
    before = [(await hub.place.until_found(hook.resource, hook.name))["metadata"]["uid"] for hook in HOOKS]
    await hub.place.set_available(WEBHOOK, HUB_NAMESPACE, available=False)
    await hub.says("HubRegistrationDegraded", "True", "UnavailableRegistrationPod")
    after = [(await hub.place.until_found(hook.resource, hook.name))["metadata"]["uid"] for hook in HOOKS]
    assert after == before, "nobody may be let in unchecked"


async def test_each_webhook_server_is_configured_when_it_answers_itself(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    for name in (CONTROLLER, WEBHOOK):
        await hub.place.set_available(name, HUB_NAMESPACE)
    await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    rolling = await hub.says("Progressing", "True", "ClusterManagerDeploymentRolling")
    assert rolling["message"] == f"Deployments are rolling out: {WORK_WEBHOOK}"
    for hook in WORK_HOOKS:
        assert await hub.place.find(hook.resource, hook.name) is None
    await hub.place.set_available(WORK_WEBHOOK, HUB_NAMESPACE)
    for hook in WORK_HOOKS:
        await hub.place.until_found(hook.resource, hook.name)


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
    assert "--feature-gates=ManagedClusterAutoApproval=true,DefaultClusterSet=false" in arguments
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
    assert await hub.place.find(DEFINITIONS, HUB[0].name), "the other's things were left alone"


async def test_deleted_it_leaves_nothing_behind(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_removal_lets_clusters_go_that_no_controller_will_finalize(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
    await hub.place.admin.create(
        MANAGED_CLUSTERS, {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
    )
    await hub.place.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c1"}})
    await leave_behind(hub.place, "c1")
    await hub.available()
    await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    for name in ALWAYS:
        await hub.place.set_available(name, HUB_NAMESPACE, available=False)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []
    assert await hub.place.find(LEASES, LEASE, "c1") is None
    assert await hub.place.find(ROLE_BINDINGS, work_binding("c1"), "c1") is None
    assert await hub.place.find(NAMESPACES, "c1"), "users have things there"


async def test_removal_lets_replica_sets_go_that_no_controller_will_finalize(here: Place) -> None:
    async with operated(here) as hub:
        await hub.up()
        await here.set_available(WORK_WEBHOOK, HUB_NAMESPACE, available=False)
        await here.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sets"}})
        for hook in WORK_HOOKS:
            await here.admin.delete(hook.resource, hook.name)
        metadata = {"name": "left", "namespace": "sets", "finalizers": ["work.open-cluster-management.io/manifest-work-cleanup"]}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        template = {"workload": {"manifests": [manifest]}}
        spec = {"manifestWorkTemplate": template, "placementRefs": [{"name": "all"}]}
        resource = Resource("work.open-cluster-management.io/v1alpha1", "manifestworkreplicasets", "ManifestWorkReplicaSet")
        await here.admin.create(
            resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        )
        await here.admin.delete(CLUSTER_MANAGERS, CM)
        await hub.until_gone()
        assert await hub.remains() == []


async def leave_behind(place: Place, cluster: str) -> None:
    """What a controller makes for a cluster and takes away again, if it is still there to do so."""
    role = cluster_role(cluster)
    labels = {CLUSTER_LABEL: cluster}
    subject = {"kind": "Group", "name": "any", "apiGroup": "rbac.authorization.k8s.io"}
    works = binding(work_binding(cluster), "ClusterRole", role, subject, cluster)
    works["metadata"] |= {"labels": labels, "finalizers": [WORK_CLEANUP]}
    whole = binding(role, "ClusterRole", role, subject)
    whole["metadata"]["labels"] = labels
    for resource, document in (
        (CLUSTER_ROLES, {"metadata": {"name": role, "labels": labels}, "rules": []}),
        (CLUSTER_ROLE_BINDINGS, whole),
        (ROLE_BINDINGS, works),
        (LEASES, {"metadata": {"name": LEASE, "namespace": cluster, "labels": labels}, "spec": {}}),
    ):
        await place.admin.apply(resource, document, manager="test")


async def test_removal_waits_for_the_controller_and_says_for_what(here: Place) -> None:
    async with operated(here) as hub:
        await hub.create()
        await hub.says("Applied", "True")
        cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
        whole = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
        await here.admin.create(MANAGED_CLUSTERS, whole)
        await here.set_available(CONTROLLER, HUB_NAMESPACE)
        await here.admin.delete(CLUSTER_MANAGERS, CM)

        async def told() -> bool:
            waiting = await here.condition(CLUSTER_MANAGERS, CM, "Deleting")
            return "ManagedCluster: c1" in waiting.get("message", "")

        await here.until(told, "it says what it waits for")
        await here.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"finalizers": None}})
        await hub.until_gone()
        assert await hub.remains() == []


async def test_webhooks_that_only_seem_to_answer_do_not_hold_a_removal_up_for_ever(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
    whole = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
    await hub.place.admin.create(MANAGED_CLUSTERS, whole)
    await hub.available()
    for hook in HOOKS:
        await hub.place.until_found(hook.resource, hook.name)
    with pytest.raises(ServerFailure, match="webhook"):
        await hub.place.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"finalizers": None}})
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_the_namespace_may_be_deleted_first(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(NAMESPACES, HUB_NAMESPACE)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_a_namespace_that_is_deleted_comes_back(hub: Hub) -> None:
    await hub.up()
    before = await hub.place.until_found(NAMESPACES, HUB_NAMESPACE)
    await hub.place.admin.delete(NAMESPACES, HUB_NAMESPACE)

    async def anew() -> bool:
        found = await hub.place.find(NAMESPACES, HUB_NAMESPACE)
        return bool(found and found["metadata"]["uid"] != before["metadata"]["uid"])

    await hub.place.until(anew, "the namespace is made again")
    await hub.place.until_found(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE)
    await hub.says("Applied", "True")


async def test_its_own_definition_may_be_deleted_first(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(DEFINITIONS, "clustermanagers.operator.open-cluster-management.io")
    await hub.place.until_gone(DEFINITIONS, "clustermanagers.operator.open-cluster-management.io")
    assert await hub.remains() == []


async def test_an_operator_that_starts_anew_takes_up_what_it_finds(here: Place) -> None:
    async with operated(here) as hub:
        await hub.up()
    await here.admin.delete(CLUSTER_MANAGERS, CM)
    async with operated(here) as hub:
        await hub.until_gone()
        assert await hub.remains() == []


async def test_the_younger_takes_over_when_the_older_goes(hub: Hub) -> None:
    await hub.up()
    await hub.create("second")
    await hub.says("Applied", "False", name="second")
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    await hub.says("Applied", "True", name="second")
    await hub.place.until_found(DEPLOYMENTS, "second-registration-controller", HUB_NAMESPACE)
    assert await hub.place.find(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE) is None


async def test_what_images_are_pulled_with_goes_where_the_components_are(hub: Hub) -> None:
    secret = pull_secret(OPERATOR_NAMESPACE, b'{"auths": {}}')
    await hub.place.admin.apply(SECRETS, secret, manager="test")
    await hub.up()
    copy = await hub.place.until_found(SECRETS, PULL_SECRET, HUB_NAMESPACE)
    assert copy["data"] == secret["data"]
    pod = (await hub.deployment())["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": PULL_SECRET}]


async def test_where_the_control_plane_is_spread_so_are_the_components(here: Place) -> None:
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


async def test_what_an_older_version_made_and_nobody_wants_goes(hub: Hub) -> None:
    await hub.up()
    labels = {CLUSTER_MANAGER_LABEL: CM}
    stale = {"metadata": {"name": "stale", "namespace": HUB_NAMESPACE, "labels": labels}}
    await hub.place.admin.apply(CONFIG_MAPS, stale, manager="test")
    foreign = {"metadata": {"name": "foreign", "namespace": HUB_NAMESPACE}}
    await hub.place.admin.apply(CONFIG_MAPS, foreign, manager="test")
    await hub.place.until_gone(CONFIG_MAPS, "stale", HUB_NAMESPACE)
    assert await hub.place.find(CONFIG_MAPS, "foreign", HUB_NAMESPACE)


async def test_an_old_certificate_is_replaced_and_both_are_trusted_meanwhile(hub: Hub) -> None:
    await hub.up()
    secret = await hub.place.until_found(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
    hosts = [f"cluster-manager-registration-webhook.{HUB_NAMESPACE}.svc"]
    old = make_pair(hosts, SYSTEM.now() - timedelta(days=80), timedelta(days=90))
    content = {"tls.crt": old.cert, "tls.key": old.key, "ca.crt": old.ca}
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    await hub.place.admin.patch(SECRETS, WEBHOOK_SECRET, {"data": data}, HUB_NAMESPACE)

    async def renewed() -> Object | None:
        found = await hub.place.find(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
        return found if found and found["data"]["tls.crt"] not in (data["tls.crt"], secret["data"]["tls.crt"]) else None

    new: Object = await hub.place.until(renewed, "there is a new certificate")
    assert old.ca.strip() in base64.b64decode(new["data"]["ca.crt"]), "pods may still serve the old one"

    async def trusted() -> bool:
        hook = await hub.place.find(HOOKS[0].resource, HOOKS[0].name)
        return bool(hook) and hook["webhooks"][0]["clientConfig"]["caBundle"] == new["data"]["ca.crt"]

    await hub.place.until(trusted, "the API server trusts it")


async def test_the_ca_is_trusted_before_the_certificate_can_be_served(here: Place) -> None:
    secrets_then = []

    async def trusted(pair: ServingPair) -> None:
        secrets_then.append(await here.find(SECRETS, "serving", "default"))

    certificate = ServingCertificate(here.admin, "serving", "default", ["a.example"])
    pair = await certificate.ensure(trusted)
    assert secrets_then == [None]
    assert await certificate.ensure(trusted) == pair
    assert secrets_then == [None], "told of new ones only"
