"""Pods that have an AWS role, as operators render them: what EKS' pod identity webhook would add is there, by its names, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api.crds import HUB as KINDS
from muster.api.crds import definitions
from muster.api.operator.v1 import ClusterManager, Klusterlet
from muster.machinery.clock import SYSTEM
from muster.operator.cluster_manager import manifests as hub
from muster.operator.cluster_manager.plan import ClusterManagerPlan as HubPlan
from muster.operator.klusterlet import manifests as managed
from muster.operator.klusterlet.connection import ConnectionCheck, ForeignCredential
from muster.operator.klusterlet.plan import KlusterletPlan, check
from muster.operator.spec import BadSpec
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS
from muster.runtime.install import await_definitions
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.spokes import Hub, kubeconfig
from tests.unit.operator.test_hub_connection import EXEC

HUB_ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
ARN = "arn:aws:eks:eu-west-1:222222222222:cluster/managed-0"
ROLE = "arn:aws:iam::222222222222:role/ocm-managed-cluster-a21fefa5047b57e2e7876e799a5595de"
CREATOR = "arn:aws:iam::111111111111:role/hub-0_managed-cluster-identity-creator"
BY_AWS = {"registrationDriver": {"authType": "awsirsa", "awsIrsa": {"hubClusterArn": HUB_ARN, "managedClusterArn": ARN}}}
VOLUME = {
    "name": "aws-iam-token",
    "projected": {
        "sources": [{"serviceAccountToken": {"audience": "sts.amazonaws.com", "expirationSeconds": 86400, "path": "token"}}]
    },
}
MOUNT = {"name": "aws-iam-token", "mountPath": "/var/run/secrets/eks.amazonaws.com/serviceaccount", "readOnly": True}


def variables(role: str, region: str) -> dict[str, str]:
    return {
        "AWS_ROLE_ARN": role,
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
    }


def plan_of(mode: str = "Default", registration: Mapping[str, Any] = BY_AWS, **spec: Any) -> KlusterletPlan:
    given = {"deployOption": {"mode": mode}, "registrationConfiguration": dict(registration), **spec}
    return KlusterletPlan(Klusterlet.decode({"metadata": {"name": "k", "uid": "u"}, "spec": given}), "muster:1")


def pods(documents: list[Any]) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for resource, one in documents if resource is DEPLOYMENTS}


def environment(pod: Any) -> dict[str, str]:
    listed = [one for one in pod["containers"][0]["env"] if "value" in one]
    assert len({one["name"] for one in listed}) == len(listed)
    return {one["name"]: one["value"] for one in listed}


@pytest.mark.parametrize(
    ("mode", "accounts"),
    [
        ("Default", {"k-registration-agent": "k-registration-sa", "k-work-agent": "k-work-sa"}),
        ("Hosted", {"k-registration-agent": "k-registration-sa", "k-work-agent": "k-work-sa"}),
        ("Singleton", {"k-agent": "k-work-sa"}),
        ("SingletonHosted", {"k-agent": "k-work-sa"}),
    ],
)
def test_every_agent_of_every_mode_finds_its_role_and_a_token_for_it(mode: str, accounts: dict[str, str]) -> None:
    plan = plan_of(mode)
    found = pods(managed.deployments(plan))
    assert {name: pod["serviceAccountName"] for name, pod in found.items()} == accounts
    for pod in found.values():
        assert [one for one in pod["volumes"] if one["name"] == "aws-iam-token"] == [VOLUME]
        assert [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "aws-iam-token"] == [MOUNT]
        assert environment(pod).items() >= variables(ROLE, "eu-west-1").items()
        # By the user that pods run as, a kubelet knows whose the token's file is.
        assert pod["securityContext"]["runAsUser"] == 65532
    annotated = [
        document["metadata"].get("annotations")
        for resource, document in managed.management_permissions(plan)
        if resource.kind == "ServiceAccount" and document["metadata"]["namespace"] == plan.agent_namespace
    ]
    assert annotated == [{"eks.amazonaws.com/role-arn": ROLE}] * len(accounts)


@pytest.mark.parametrize("driver", ["csr", "grpc"])
def test_agents_of_other_drivers_have_nothing_of_it(driver: str) -> None:
    for pod in pods(managed.deployments(plan_of(registration={"registrationDriver": {"authType": driver}}))).values():
        assert "aws-iam-token" not in str(pod)
        assert not [name for name in environment(pod) if name.startswith("AWS_")]


@pytest.mark.parametrize("mode", ["Default", "Hosted"])
def test_of_a_hub_the_registration_controller_alone_has_a_role(mode: str) -> None:
    address = {"address": "hub.example"}
    webhooks = {"registrationWebhookConfiguration": address, "workWebhookConfiguration": address}
    drivers = [{"authType": "csr"}, {"authType": "awsirsa", "awsirsa": {"hubClusterArn": HUB_ARN}}]
    spec = {
        "deployOption": {"mode": mode, "hosted": webhooks},
        "registrationConfiguration": {"registrationDrivers": drivers},
    }
    plan = HubPlan(ClusterManager.decode({"metadata": {"name": "m"}, "spec": spec}), "muster:1")
    found = pods(hub.components(plan))
    controller = found.pop("m-registration-controller")
    assert VOLUME in controller["volumes"]
    assert MOUNT in controller["containers"][0]["volumeMounts"]
    assert environment(controller).items() >= variables(CREATOR, "us-west-2").items()
    assert found
    assert not [name for name, pod in found.items() if "aws-iam-token" in str(pod) or "AWS_ROLE_ARN" in environment(pod)]


def test_one_klusterlet_for_several_hubs_has_one_role_too_few() -> None:
    secrets = {"kubeConfigSecrets": [{"name": "one"}, {"name": "two"}]}
    several = {
        "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}],
        "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": secrets},
    }
    check(plan_of(registration=several))
    with pytest.raises(BadSpec, match="a Klusterlet of its own") as refusal:
        check(plan_of(registration={**several, **BY_AWS}))
    assert refusal.value.field == "spec.registrationConfiguration.featureGates"


MARKED = {"eks-managed-cluster-arn": ARN}


@pytest.mark.parametrize(
    ("annotations", "accepted", "expected"),
    [
        (None, False, ("True", "BootstrapSecretFunctional,HubKubeConfigSecretMissing", "")),
        (MARKED, False, ("True", "BootstrapSecretFunctional,HubKubeConfigSecretMissing", "")),
        (MARKED, True, ("Unknown", "HubKubeConfigUnchecked", "")),
        ({}, False, ("True", "ManagedClusterIncomplete,HubKubeConfigSecretMissing", f"--managed-cluster-arn {ARN}")),
        ({}, True, ("True", "ManagedClusterIncomplete,HubKubeConfigUnchecked", f"--managed-cluster-arn {ARN}")),
        ({"eks-managed-cluster-arn": "other"}, True, ("True", "ManagedClusterIncomplete,HubKubeConfigUnchecked", "'other'")),
    ],
)
async def test_a_klusterlet_says_what_its_agent_waits_for_on_the_hub(
    far: Cluster, annotations: dict[str, str] | None, accepted: bool, expected: tuple[str, str, str]
) -> None:
    kinds = [kind for kind in KINDS if kind.resource.kind == "ManagedCluster"]
    for document in definitions(kinds):
        await far.admin.create(CRDS, document)
    await await_definitions(far.admin, [kind.name for kind in kinds], SYSTEM)
    if annotations is not None:
        metadata = {"name": "c1", "annotations": annotations}
        kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
        await far.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": metadata})
    secrets = {BOOTSTRAP_SECRET: {"kubeconfig": kubeconfig("admin")}}
    if accepted:
        secrets[HUB_SECRET] = {"kubeconfig": EXEC, "cluster-name": b"c1"}
    plan = plan_of(clusterName="c1")
    found = await ConnectionCheck(plan, secrets.get, _opening(Hub(far))).run()
    assert (found.status, found.reason) == expected[:2]
    assert expected[2] in found.message


def _opening(hub: Hub) -> Any:
    """As the operator does: what only the agent can use is not opened."""

    @asynccontextmanager
    async def opened(endpoints: Any, contents: Mapping[str, bytes], source: str, cluster: str = "") -> AsyncIterator[Any]:
        if b"exec" in contents["kubeconfig"]:
            raise ForeignCredential("https://hub.example")
        async with hub.open(endpoints, contents, source, cluster) as client:
            yield client

    return opened
