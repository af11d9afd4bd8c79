"""What pods of template addons are given: environment, volumes, nodes, proxies, resources."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.addon.agent_addon import AddonError
from muster.addon.templates.resources import read_requirements, resources_for
from muster.addon.templates.workloads import volume_name
from tests.support.template_addons import config_of, container_of, deployment, pod_of, rendered, template_of, variable

KUBE_CLIENT = {"type": "KubeClient"}
SIGNER = "example.com/signer.one"
CUSTOM = {"type": "CustomSigner", "customSigner": {"signerName": SIGNER, "signingCA": {"name": "ca"}}}
CA = base64.b64encode(b"PEM\n").decode()


def test_containers_get_the_hub_the_cluster_and_the_namespace_in_this_order() -> None:
    agent = rendered(template_of(deployment(env=[variable("OWN", "1")]), registration=[KUBE_CLIENT]), config_of(namespace="there"))
    assert container_of(agent)["env"] == [
        variable("OWN", "1"),
        variable("HUB_KUBECONFIG", "/managed/hub-kubeconfig/kubeconfig"),
        variable("CLUSTER_NAME", "cluster1"),
        variable("INSTALL_NAMESPACE", "there"),
    ]


def test_without_registration_and_namespace_only_the_cluster_is_told() -> None:
    assert container_of(rendered(template_of(deployment())))["env"] == [variable("CLUSTER_NAME", "cluster1")]


def test_a_variable_that_the_template_sets_itself_is_there_once() -> None:
    own: list[Any] = [{"name": "CLUSTER_NAME", "valueFrom": {"fieldRef": {}}}, variable("A", "$(CLUSTER_NAME)")]
    agent = rendered(template_of(deployment(env=own)))
    assert container_of(agent)["env"] == [variable("CLUSTER_NAME", "cluster1"), variable("A", "$(CLUSTER_NAME)")]


def test_daemon_sets_are_set_up_as_deployments_and_others_are_left_alone() -> None:
    daemon_set, job = deployment(kind="DaemonSet"), {**deployment(kind="Job"), "apiVersion": "batch/v1"}
    foreign = {**deployment(), "apiVersion": "apps.example.com/v1"}
    agent = rendered(template_of(daemon_set, job, foreign), config_of(nodePlacement={"nodeSelector": {"a": "b"}}))
    assert [("nodeSelector" in pod_of(agent, number)) for number in range(3)] == [True, False, False]


def test_credentials_are_mounted_where_templates_expect_them() -> None:
    agent = rendered(template_of(deployment(), registration=[KUBE_CLIENT, KUBE_CLIENT, CUSTOM, CUSTOM]))
    assert pod_of(agent)["volumes"] == [
        {"name": "hub-kubeconfig", "secret": {"secretName": "hello-hub-kubeconfig"}},
        {"name": "cert-example-com-signer-one", "secret": {"secretName": "hello-example.com-signer.one-client-cert"}},
    ]
    assert container_of(agent)["volumeMounts"] == [
        {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"},
        {"name": "cert-example-com-signer-one", "mountPath": "/managed/example.com-signer.one"},
    ]


def test_volumes_and_mounts_that_the_template_brings_itself_stay() -> None:
    mount = {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig", "readOnly": True}
    manifest = deployment(volumeMounts=[mount])
    own = {"name": "hub-kubeconfig", "secret": {"secretName": "mine"}}
    manifest["spec"]["template"]["spec"]["volumes"] = [own]
    agent = rendered(template_of(manifest, registration=[KUBE_CLIENT]))
    assert pod_of(agent)["volumes"] == [own]
    assert container_of(agent)["volumeMounts"] == [mount]


def test_long_signers_have_volumes_of_valid_and_different_names() -> None:
    names = {volume_name(f"cert-example.com/{'s' * 300}{tail}") for tail in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_tolerations_are_applied_without_a_node_selector() -> None:
    """Defect 20."""
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 0}]
    pod = pod_of(rendered(template_of(deployment()), config_of(nodePlacement={"tolerations": tolerations})))
    assert pod["tolerations"] == tolerations
    assert "nodeSelector" not in pod


def test_proxies_are_told_in_both_spellings_and_their_authority_is_mounted() -> None:
    proxy = {"httpProxy": "http://p", "httpsProxy": "https://p", "noProxy": "a,b", "caBundle": CA}
    agent = rendered(template_of(deployment()), config_of(namespace="there", proxyConfig=proxy))
    environment = {entry["name"]: entry["value"] for entry in container_of(agent)["env"]}
    assert (
        environment
        | {
            "HTTP_PROXY": "http://p",
            "http_proxy": "http://p",
            "HTTPS_PROXY": "https://p",
            "https_proxy": "https://p",
            "NO_PROXY": "a,b",
            "no_proxy": "a,b",
            "CA_BUNDLE_FILE_PATH": "/managed/proxy-ca/ca-bundle.crt",
        }
        == environment
    )
    assert pod_of(agent)["volumes"] == [{"name": "proxy-ca-bundle", "configMap": {"name": "hello-proxy-ca"}}]
    assert container_of(agent)["volumeMounts"] == [{"name": "proxy-ca-bundle", "mountPath": "/managed/proxy-ca"}]
    assert agent.manifests[1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "hello-proxy-ca", "namespace": "there"},
        "data": {"ca-bundle.crt": "PEM\n"},
    }


def test_an_authority_without_a_proxy_is_brought_and_not_mounted() -> None:
    agent = rendered(template_of(deployment()), config_of(proxyConfig={"caBundle": CA}))
    assert agent.manifests[1]["metadata"] == {"name": "hello-proxy-ca", "namespace": "hello-ns"}
    assert "volumes" not in pod_of(agent)


@pytest.mark.parametrize("bundle", ["***", base64.b64encode(b"\xff\xfe").decode()])
def test_an_authority_that_is_no_text_is_an_error_of_the_addon(bundle: str) -> None:
    with pytest.raises(AddonError, match="caBundle"):
        rendered(template_of(deployment()), config_of(proxyConfig={"caBundle": bundle}))


def limits(cpu: str) -> dict[str, Any]:
    return {"limits": {"cpu": cpu}}


@pytest.mark.parametrize(
    ("identifier", "container", "named"),
    [
        ("deployments:agent:main", ("deployments", "agent", "main"), True),
        ("*:*:*", ("daemonsets", "x", "y"), True),
        ("deployments:*:main", ("deployments", "other", "main"), True),
        ("deployments:agent:main", ("daemonsets", "agent", "main"), False),
        ("deployments:agent:main", ("deployments", "agent", "main2"), False),
        ("deployments:gent:main", ("deployments", "agent", "main"), False),
        ("deployments:agent-[0-9]+:main", ("deployments", "agent-12", "main"), True),
        ("deployments:a|agent:main", ("deployments", "agent", "main"), True),
        ("deployments:a|b:main", ("deployments", "a", "other"), False),
        ("deployments:[:main", ("deployments", "[", "main"), True),
        ("deployments:[:main", ("deployments", "x", "main"), False),
        ("deployments:(a+)+$:main", ("deployments", "a" * 250 + "!", "main"), False),
        ("deployments:" + "(" * 2000 + ":main", ("deployments", "x", "main"), False),
        ("deployments:((a{1,100}){1,100}){1,100}:main", ("deployments", "a", "main"), False),
    ],
)
def test_containers_are_named_by_parts(identifier: str, container: tuple[str, str, str], named: bool) -> None:
    requirements = read_requirements([{"containerID": identifier, "resources": limits("1")}])
    assert (resources_for(requirements, container) is not None) == named


@given(
    st.lists(st.text("ab*.[(+", min_size=1), min_size=3, max_size=3), st.lists(st.text("ab", min_size=1), min_size=3, max_size=3)
)
def test_any_identifier_of_three_parts_is_read_and_names_itself(parts: list[str], container: list[str]) -> None:
    requirements = read_requirements([{"containerID": ":".join(parts), "resources": limits("1")}])
    assert resources_for(requirements, (parts[0], parts[1], parts[2])) == limits("1")
    resources_for(requirements, (container[0], container[1], container[2]))


def test_the_last_requirement_that_names_a_container_counts_as_a_whole() -> None:
    entries = [
        {"containerID": "*:*:*", "resources": {"requests": {"memory": "1Gi"}, **limits("1")}},
        {"containerID": "deployments:agent:main", "resources": limits("2")},
        {"containerID": "deployments:other:*", "resources": limits("3")},
    ]
    agent = rendered(template_of(deployment(), deployment("b")), config_of(resourceRequirements=entries))
    assert container_of(agent)["resources"] == limits("2")
    assert container_of(agent, 1)["resources"] == {"requests": {"memory": "1Gi"}, **limits("1")}


@pytest.mark.parametrize("identifier", ["deployments:a:b:c", "deployments:a"])
def test_an_identifier_of_other_than_three_parts_is_named(identifier: str) -> None:
    with pytest.raises(AddonError, match=identifier):
        rendered(template_of(deployment()), config_of(resourceRequirements=[{"containerID": identifier, "resources": {}}]))


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("0", 0), ("three", "three"), ("-1", "-1"), ("9" * 30, "9" * 30)])
def test_replicas_from_a_variable_are_a_number(value: str, expected: object) -> None:
    manifest = deployment()
    manifest["spec"]["replicas"] = "{{N}}"
    agent = rendered(template_of(manifest), config_of(customizedVariables=[variable("N", value)]))
    assert agent.manifests[0]["spec"]["replicas"] == expected


@pytest.mark.parametrize(
    "spec",
    [{}, None, {"template": None}, {"template": {"spec": 3}}, {"template": {"spec": {"containers": 3}}}],
)
def test_a_workload_without_pods_is_named(spec: Any) -> None:
    manifest = {**deployment(), "spec": spec}
    with pytest.raises(AddonError, match="Deployment hello-ns/agent"):
        rendered(template_of(manifest), config_of(nodePlacement={"nodeSelector": {"a": "b"}}))
