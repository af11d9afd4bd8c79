"""A template addon on a cluster: namespaces, credentials, rights, feedback, and what is wrong with a template."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.addon.agent_addon import AddonError, CustomSigner, HealthMode, KubeClient, RoleBindingRequest
from muster.addon.templates.addon import TemplateAddon
from muster.api.addons import NAMESPACE_LABEL
from muster.api.work.v1 import FeedbackRule, JsonPath, ResourceIdentifier
from tests.support.template_addons import ADDON, config_of, deployment, installation, rendered, template_of

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hello-ns", "labels": {"a": "b"}}}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
    "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "hello-ns"}, {"kind": "User", "name": "u"}],
}
USER = "system:open-cluster-management:cluster:cluster1:addon:hello:agent:hello-agent"
GROUPS = ("system:open-cluster-management:cluster:cluster1:addon:hello", "system:open-cluster-management:addon:hello")


def signer(name: str = "example.com/one", **more: Any) -> dict[str, Any]:
    return {"type": "CustomSigner", "customSigner": {"signerName": name, "signingCA": {"name": "ca"}, **more}}


def permission(**more: Any) -> dict[str, Any]:
    return {"type": "KubeClient", "kubeClient": {"hubPermissions": [more]}}


def test_everything_moves_to_the_configured_namespace() -> None:
    cluster_role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    agent = rendered(template_of(NAMESPACE, deployment(), BINDING, cluster_role), config_of(namespace="there"))
    space, workload, binding, role = agent.manifests
    assert agent.namespace == "there"
    assert space["metadata"] == {"name": "there", "labels": {"a": "b", NAMESPACE_LABEL: "true"}}
    assert workload["metadata"]["namespace"] == "there"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "sa", "namespace": "there"}, {"kind": "User", "name": "u"}]
    assert "namespace" not in role["metadata"]


def test_two_namespaces_that_become_one_are_there_once() -> None:
    other = {**NAMESPACE, "metadata": {"name": "other"}}
    agent = rendered(template_of(NAMESPACE, other), config_of(namespace="there"))
    assert [one["metadata"]["name"] for one in agent.manifests] == ["there"]


def test_namespaces_that_the_addon_brings_are_labelled_in_any_case() -> None:
    [space] = rendered(template_of(NAMESPACE)).manifests
    assert space["metadata"]["labels"] == {"a": "b", NAMESPACE_LABEL: "true"}


@pytest.mark.parametrize(
    ("manifests", "expected"),
    [
        ((deployment(namespace="d1"), deployment(namespace="d2")), "d1"),
        ((deployment(namespace="s1", kind="DaemonSet"), deployment(namespace="d1")), "d1"),
        ((deployment(namespace="s1", kind="DaemonSet"),), "s1"),
        ((deployment(namespace=""), deployment(namespace="s1", kind="DaemonSet")), "s1"),
        ((NAMESPACE,), ""),
    ],
)
def test_the_agent_is_where_its_first_workload_is(manifests: Any, expected: str) -> None:
    assert rendered(template_of(*manifests)).namespace == expected


def test_the_agent_is_who_the_hub_computes_it_to_be_for_its_own_signers_too() -> None:
    own = {"user": "me", "groups": ["g"], "organizationUnit": ["ou"]}
    entries = [{"type": "KubeClient"}, signer(), signer("example.com/two", subject=own), signer("example.com/one", subject=own)]
    client, default, named = rendered(template_of(registration=entries)).registrations
    assert client == KubeClient()
    assert isinstance(default, CustomSigner)
    assert (default.signer, default.user, default.groups) == ("example.com/one", USER, GROUPS)
    assert isinstance(named, CustomSigner)
    assert (named.user, named.groups, named.organization_units) == ("me", ("g",), ("ou",))
    assert named.signing_ca is not None
    assert named.signing_ca.name == "ca"


def test_rights_of_several_clients_are_those_of_one() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    [client] = rendered(
        template_of(
            registration=[
                permission(type="CurrentCluster", currentCluster={"clusterRoleName": "one"}),
                permission(type="SingleNamespace", singleNamespace={"namespace": "ns", "roleRef": role}),
            ]
        )
    ).registrations
    assert client == KubeClient(permissions=(RoleBindingRequest("ClusterRole", "one"), RoleBindingRequest("Role", "r", "ns")))


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"type": "CustomSigner"}, "customSigner is missing"),
        (signer("kubernetes.io/kube-apiserver-client"), "signer of Kubernetes"),
        (signer("kubernetes.io/kubelet-serving"), "signer of Kubernetes"),
        (signer("metrics.k8s.io/x"), "signer of Kubernetes"),
        (signer("open-cluster-management.io/grpc"), "of the hub"),
        (signer(signingCA={"name": ""}), "signingCA"),
        ({"type": "Other"}, "neither"),
        (permission(type="CurrentCluster"), "CurrentCluster"),
        (permission(type="SingleNamespace", currentCluster={"clusterRoleName": "x"}), "SingleNamespace"),
        (
            permission(
                type="SingleNamespace", singleNamespace={"namespace": "n", "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}}
            ),
            "roleRef",
        ),
        (
            permission(
                type="SingleNamespace",
                singleNamespace={
                    "namespace": "",
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                },
            ),
            "namespace",
        ),
    ],
)
def test_a_registration_that_makes_no_sense_is_named(entry: Any, named: str) -> None:
    with pytest.raises(AddonError, match=named):
        rendered(template_of(registration=[entry]))


def test_workloads_report_their_status_beside_what_the_template_asks_for() -> None:
    rules = [{"type": "JSONPaths", "jsonPaths": [{"name": "n", "path": ".p"}]}]
    identifier = {"group": "apps", "resource": "deployments", "namespace": "hello-ns", "name": "agent"}
    own = {"resourceIdentifier": identifier, "feedbackRules": rules, "updateStrategy": {"type": "CreateOnly"}}
    other = {"resourceIdentifier": {"resource": "configmaps", "name": "c", "namespace": "elsewhere"}}
    agent = rendered(
        template_of(deployment(), deployment("d", kind="DaemonSet"), configs=[own, other]), config_of(namespace="there")
    )
    first, second, third = agent.manifest_configs
    assert first.resource_identifier == ResourceIdentifier(group="apps", resource="deployments", namespace="there", name="agent")
    assert first.feedback_rules == (
        FeedbackRule(type="WellKnownStatus"),
        FeedbackRule(type="JSONPaths", json_paths=(JsonPath(name="n", path=".p"),)),
    )
    assert first.update_strategy is not None
    assert second.resource_identifier.resource == "daemonsets"
    assert second.feedback_rules == (FeedbackRule(type="WellKnownStatus"),)
    assert third.resource_identifier.namespace == "elsewhere"
    assert agent.health.mode is HealthMode.WORKLOADS


def test_the_first_template_counts_and_with_it_its_manifest_configs() -> None:
    """Defect 19: not those of the default template."""
    config = {"resourceIdentifier": {"resource": "configmaps", "name": "c"}}
    agent = rendered(template_of(configs=[config]), template_of(name="default"))
    assert [one.resource_identifier.name for one in agent.manifest_configs] == ["c"]


def test_rendering_is_a_pure_function() -> None:
    given = installation(template_of(NAMESPACE, deployment(), BINDING), config_of(namespace="there"))
    before = copy.deepcopy([config.document for config in given.configs])
    addon = TemplateAddon(ADDON)
    assert addon.agent(given) == addon.agent(given)
    assert [config.document for config in given.configs] == before


def test_without_a_template_there_is_no_agent() -> None:
    with pytest.raises(AddonError, match="no AddOnTemplate"):
        rendered(config_of())


@pytest.mark.parametrize("manifest", [{}, [], "text", {"kind": 3}])
def test_what_is_no_manifest_is_named(manifest: Any) -> None:
    with pytest.raises(AddonError, match=r"manifests\[1\]"):
        rendered(template_of(NAMESPACE, manifest))


def test_a_configuration_that_cannot_be_read_is_an_error_of_the_addon() -> None:
    with pytest.raises(AddonError, match="AddOnDeploymentConfig default/config"):
        rendered(template_of(), config_of(registries=[{"mirror": 3}]))
    with pytest.raises(AddonError, match="AddOnTemplate hello-1"):
        rendered(template_of(registration=[{"type": None}]))


@pytest.mark.parametrize("metadata", [None, 3, {"labels": 3, "name": "x"}, {"namespace": None}])
def test_odd_metadata_harms_nobody(metadata: Any) -> None:
    odd = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    rendered(template_of(odd, {**odd, "kind": "ConfigMap"}, {**BINDING, "subjects": metadata}), config_of(namespace="there"))
