"""What operators have pods run is understood by the programs that they run: every command line, whatever the spec says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import click
import pytest

from muster.api.operator.v1 import ClusterManager, Klusterlet
from muster.cli.driver_flags import driver_settings
from muster.cli.muster import main
from muster.machinery.objects import Object
from muster.operator.applier import Wanted
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR, bundle
from muster.operator.cluster_manager import manifests as hub
from muster.operator.cluster_manager.plan import ClusterManagerPlan as HubPlan
from muster.operator.klusterlet import manifests as managed
from muster.operator.klusterlet.plan import KlusterletPlan as ManagedPlan
from muster.registration.drivers.flags import AGENT_FLAGS, HUB_FLAGS
from muster.runtime.client.builtin import DEPLOYMENTS

HUB_ARN, MANAGED_ARN = (f"arn:aws:eks:us-west-2:{number * 12}:cluster/c{number}" for number in "12")


def gates(*names: str) -> list[Object]:
    return [{"feature": name, "mode": "Enable"} for name in names]


SECRETS = {"kubeConfigSecrets": [{"name": name} for name in ("one", "two")], "hubConnectionTimeoutSeconds": 200}
REGISTRATIONS: list[Object] = [
    {},
    {"clientCertExpirationSeconds": 7200, "featureGates": gates("ClusterProperty", "Unheard")},
    {
        "clusterAnnotations": {"agent.open-cluster-management.io/a": "b=c", "elsewhere": "d"},
        "clusterClaimConfiguration": {"maxCustomClusterClaims": 7, "reservedClusterClaimSuffixes": ["a.io", "b.io"]},
        "kubeAPIQPS": 7,
    },
    {
        "featureGates": gates("MultipleHubs"),
        "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": SECRETS},
    },
    {
        "registrationDriver": {
            "authType": "awsirsa",
            "awsIrsa": {"hubClusterArn": HUB_ARN, "managedClusterArn": MANAGED_ARN},
        }
    },
    {"registrationDriver": {"authType": "grpc"}, "clientCertExpirationSeconds": 7200},
    {
        "addOnKubeClientRegistrationDriver": {"authType": "token", "token": {"expirationSeconds": 7200}},
        "featureGates": [{"feature": "AddonManagement", "mode": "Disable"}],
    },
]
WORKS: list[Object | None] = [
    None,
    {
        "appliedManifestWorkEvictionGracePeriod": "10m",
        "statusSyncInterval": "5s",
        "featureGates": gates("RawFeedbackJsonString", "ExecutorValidatingCaches"),
    },
]
MODES = ("Default", "Singleton", "Hosted", "SingletonHosted")
PLACES: list[Object] = [
    {},
    {"clusterName": "c1", "externalServerURLs": [{"url": "https://c1.example:6443"}], "namespace": "open-cluster-management-c1"},
]
MANAGERS: list[Object] = [
    {},
    {"featureGates": gates("ManagedClusterAutoApproval", "ResourceCleanup", "Unheard"), "autoApproveUsers": ["a", "b:c"]},
    {
        "registrationDrivers": [
            {"authType": "csr", "csr": {"autoApprovedIdentities": ["alice", "bob"]}},
            {
                "authType": "aws-irsa",
                "awsirsa": {"hubClusterArn": HUB_ARN, "autoApprovedIdentities": ["a{1,2}", ".*"], "tags": ["k=v", "l=m"]},
            },
            {"authType": "grpc", "grpc": {"autoApprovedIdentities": ["carol"]}},
        ]
    },
]
HUB_WORKS: list[Object] = [{}, {"featureGates": gates("ManifestWorkReplicaSet", "CleanUpCompletedManifestWork")}]
BOUND = {"bindConfiguration": {"port": 7443, "healthProbePort": 7080, "metricsPort": 7081, "hostNetwork": True}}
HOSTED = {"address": "hub.example", "port": 443}
DEPLOYED: list[Object] = [
    {"mode": "Default"},
    {"mode": "Default", "default": {"registrationWebhookConfiguration": BOUND, "workWebhookConfiguration": BOUND}},
    {"mode": "Hosted", "hosted": {"registrationWebhookConfiguration": HOSTED, "workWebhookConfiguration": HOSTED}},
]


def klusterlets() -> Iterator[ManagedPlan]:
    variants = itertools.product(MODES, PLACES, REGISTRATIONS, WORKS, (1, 3))
    for mode, place, registration, work, replicas in variants:
        spec = {**place, "deployOption": {"mode": mode}, "registrationConfiguration": registration}
        spec |= {"workConfiguration": work} if work else {}
        yield ManagedPlan(Klusterlet.decode({"metadata": {"name": "k", "uid": "u-1"}, "spec": spec}), "muster:1", replicas)


def cluster_managers() -> Iterator[HubPlan]:
    for deployed, registration, work, labels in itertools.product(DEPLOYED, MANAGERS, HUB_WORKS, ({}, {"a": "b", "c": "d"})):
        spec = {"deployOption": deployed, "registrationConfiguration": registration, "workConfiguration": work}
        spec |= {"placementConfiguration": {"featureGates": gates("PlacementDebugServer")}} if labels else {}
        manager = ClusterManager.decode({"metadata": {"name": "m"}, "spec": spec})
        yield HubPlan(manager, "muster:1", 3 if labels else 1, labels)


def command_lines(documents: list[Wanted]) -> Iterator[list[str]]:
    for resource, document in documents:
        if resource is DEPLOYMENTS:
            for container in document["spec"]["template"]["spec"]["containers"]:
                yield [*container.get("command", ()), *container["args"]]


def heard(words: list[str]) -> dict[str, Any]:
    """What the program understands. Raises UsageError."""
    verb, *rest = words
    command: click.Command | None = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        command = command.get_command(context, verb)
        if isinstance(command, click.Group):
            verb, *rest = rest
    assert command is not None, f"there is no {words[:2]}"
    return command.make_context(verb, rest).params


def test_agents_understand_what_klusterlets_have_them_told() -> None:
    for plan in klusterlets():
        lines = list(command_lines(managed.deployments(plan)))
        assert len(lines) == (1 if plan.singleton else 2)
        for words in lines:
            heard(words)


def test_hubs_understand_what_cluster_managers_have_them_told() -> None:
    for plan in cluster_managers():
        lines = list(command_lines(hub.components(plan)))
        assert len(lines) >= 3
        for words in lines:
            heard(words)


@pytest.mark.parametrize("operator", [CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR])
def test_operators_understand_what_their_bundle_has_them_told(operator: Any) -> None:
    (words,) = command_lines(bundle(operator))
    heard(words)


def test_what_is_for_a_driver_is_heard_as_its_option() -> None:
    spec = {"registrationConfiguration": REGISTRATIONS[4]}
    plan = ManagedPlan(Klusterlet.decode({"metadata": {"name": "k"}, "spec": spec}), "muster:1")
    (agent, _) = command_lines(managed.deployments(plan))
    told = driver_settings(AGENT_FLAGS, heard(agent))["awsirsa"]
    assert (told["hub-cluster-arn"], told["managed-cluster-arn"]) == ((HUB_ARN,), (MANAGED_ARN,))
    assert set(told) == {"hub-cluster-arn", "managed-cluster-arn", "managed-cluster-role-suffix"}
    manager = ClusterManager.decode({"metadata": {"name": "m"}, "spec": {"registrationConfiguration": MANAGERS[2]}})
    controller = next(command_lines(hub.components(HubPlan(manager, "muster:1"))))
    assert driver_settings(HUB_FLAGS, heard(controller)) == {
        "csr": {"auto-approved-csr-users": ("alice", "bob")},
        "awsirsa": {
            "hub-cluster-arn": (HUB_ARN,),
            "auto-approved-arn-patterns": ("a{1,2}", ".*"),
            "aws-resource-tags": ("k=v", "l=m"),
        },
        "grpc": {
            "auto-approved-grpc-users": ("carol",),
            "grpc-ca-file": ("/var/run/secrets/hub/grpc/certs/tls.crt",),
            "grpc-key-file": ("/var/run/secrets/hub/grpc/certs/tls.key",),
        },
    }


@pytest.mark.parametrize("mode", MODES)
def test_agents_over_grpc_are_told_where_others_find_their_way(mode: str) -> None:
    spec = {"clusterName": "c1", "deployOption": {"mode": mode}, "registrationConfiguration": REGISTRATIONS[5]}
    plan = ManagedPlan(Klusterlet.decode({"metadata": {"name": "k", "uid": "u-1"}, "spec": spec}), "muster:1")
    agent, *others = managed.deployments(plan)
    (words,) = command_lines([agent])
    assert "--registration-auth=grpc" in words
    assert driver_settings(AGENT_FLAGS, heard(words))["grpc"]["grpc-config"] == ("/spoke/hub-kubeconfig/config.yaml",)
    pod = agent[1]["spec"]["template"]["spec"]
    assert {"name": "hub-kubeconfig", "emptyDir": {}} in pod["volumes"], "the agent writes there"
    for (words,) in (list(command_lines([one])) for one in others):
        assert words[:3] == [
            "work-agent",
            "--workload-source-driver=grpc",
            "--workload-source-config=/spoke/hub-kubeconfig/config.yaml",
        ]
