"""Everything that is rendered passes the API server's validation, and every pod its restricted security standard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from muster.api.operator.v1 import ClusterManager
from muster.kube import yaml
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR, SAMPLES, Operator, bundle, whole
from muster.operator.cluster_manager import manifests
from muster.operator.cluster_manager.components import SERVERS
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES
from muster.runtime.client.errors import Forbidden
from muster.runtime.install import await_definitions, ensure_namespace
from muster.runtime.webhook.certificates import make_pair
from tests.e2e.operator.conftest import World
from tests.support import peers
from tests.support.kubectl import kubectl

PODS = GVR("v1", "pods", "Pod")
DEPLOY = peers.ROOT / "deploy"
RESTRICTED = "restricted-pods"
BOTH = pytest.mark.parametrize("operator", [CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR], ids=lambda one: one.name)
ADDRESSES = ("registrationWebhookConfiguration", "workWebhookConfiguration")
HOSTED = {"mode": "Hosted", "hosted": {name: {"address": "webhooks.example.com"} for name in ADDRESSES}}
SPECS: dict[str, dict[str, Any]] = {
    "default": {},
    "hosted": {"deployOption": HOSTED},
    "everything": {
        "nodePlacement": {"nodeSelector": {"role": "infra"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
        "resourceRequirement": {"type": "ResourceRequirement", "resourceRequirements": {"limits": {"memory": "256Mi"}}},
        "registrationConfiguration": {
            "featureGates": [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}],
            "autoApproveUsers": ["someone"],
            "registrationDrivers": [{"authType": "csr"}],
        },
        "workConfiguration": {"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]},
    },
}


@pytest.fixture
async def namespace(world: World) -> AsyncIterator[str]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.admin.apply(NAMESPACES, {"metadata": {"name": RESTRICTED, "labels": labels}}, manager="test")
    yield RESTRICTED
    await world.admin.delete(NAMESPACES, RESTRICTED)
    await world.until_gone(NAMESPACES, RESTRICTED, seconds=60)


async def validate(world: World, documents: list[tuple[GVR, Object]], restricted: str) -> None:
    """By the server, without keeping anything; only namespaces have to be there."""
    for name in {document["metadata"].get("namespace") for _, document in documents} - {None}:
        await ensure_namespace(world.admin, name)
    for resource, document in documents:
        await world.admin.apply(resource, document, manager="test", dry_run=True)
        if resource is DEPLOYMENTS:
            await world.admin.create(PODS, pod_of(document, restricted), dry_run=True)


def pod_of(deployment: Object, namespace: str) -> Object:
    spec = {**deployment["spec"]["template"]["spec"], "serviceAccountName": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": namespace}, "spec": spec}


@BOTH
async def test_what_is_around_an_operator_is_valid(world: World, namespace: str, operator: Operator) -> None:
    await world.until_found(GVR("v1", "serviceaccounts", "ServiceAccount"), "default", namespace)
    await validate(world, bundle(operator), namespace)
    definition = next(document for resource, document in bundle(operator) if resource is CRDS)
    await world.admin.apply(CRDS, definition, manager="test")
    await await_definitions(world.admin, [definition["metadata"]["name"]], SYSTEM)
    resource, sample = SAMPLES[operator.name]
    await world.admin.create(resource, whole((resource, sample)), dry_run=True)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_what_a_hub_consists_of_is_valid(world: World, namespace: str, spec: dict[str, Any]) -> None:
    await world.until_found(GVR("v1", "serviceaccounts", "ServiceAccount"), "default", namespace)
    plan = ClusterManagerPlan(ClusterManager.decode({"metadata": {"name": "hub-here"}, "spec": spec}), "muster:test", replicas=3)
    documents = [manifests.component_namespace(plan), *manifests.hub_permissions(plan), *manifests.components(plan)]
    for _, webhooks in SERVERS:
        ca = make_pair(manifests.webhook_hosts(plan, webhooks), SYSTEM.now(), timedelta(days=1)).ca
        endpoint = manifests.webhook_endpoint(plan, webhooks, ca)
        documents += [manifests.trust_bundle(plan, [ca]), *manifests.webhook_configurations(plan, webhooks, endpoint)]
        documents += manifests.hub_definitions(endpoint) if webhooks.converted else []
    await validate(world, manifests.owned(plan, documents), namespace)
    for name in {plan.namespace, plan.hub_namespace}:
        await world.admin.delete(NAMESPACES, name)
        await world.until_gone(NAMESPACES, name, seconds=60)


@pytest.mark.kube
async def test_a_pod_that_asks_for_more_is_refused(world: World, namespace: str) -> None:
    """That the checks above can fail: the real server enforces the standard, ours knows no pod security."""
    await world.until_found(GVR("v1", "serviceaccounts", "ServiceAccount"), "default", namespace)
    (deployment,) = (document for resource, document in bundle(CLUSTER_MANAGER_OPERATOR) if resource is DEPLOYMENTS)
    pod = pod_of(deployment, namespace)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Forbidden):
        await world.admin.create(PODS, pod, dry_run=True)


@BOTH
def test_kustomize_gives_the_same_objects(operator: Operator, world: World) -> None:
    rendered = list(yaml.load_all(kubectl(world.cluster, "kustomize", str(DEPLOY / operator.name)).expect(0).out))
    plain = [document for path in sorted((DEPLOY / operator.name).glob("*.yaml")) for document in yaml.load_all(path.read_text())]
    kinds = {"Kustomization", "ClusterManager", "Klusterlet"}
    assert _sorted(rendered) == _sorted([document for document in plain if document["kind"] not in kinds])


def _sorted(documents: list[Object]) -> list[str]:
    return sorted(json.dumps(document, sort_keys=True) for document in documents)
