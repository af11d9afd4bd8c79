"""What annotations, values and configurations make of the policy controller of a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.addon.agent_addon import Agent, ConfigObject, Installation
from muster.api.addon.v1alpha1 import GROUP, AddOnDeploymentConfig, ManagedClusterAddOn
from muster.api.addons import HOSTED_MANIFEST_LOCATION, HOSTING_CLUSTER_ANNOTATION, VALUES_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import Object
from muster.policy.addons import POLICY_ADDONS
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.client import served

CONFIGS = served(AddOnDeploymentConfig)
ADDONS = {one.name: one.make("muster:1") for one in POLICY_ADDONS}


def installation(
    name: str = CONFIG_POLICY_ADDON,
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    beside: tuple[str, ...] = (),
    **spec: Any,
) -> Installation:
    def addon(of: str) -> ManagedClusterAddOn:
        return ManagedClusterAddOn.decode(
            {"metadata": {"name": of, "namespace": "c1", "annotations": annotations or {}}, "spec": {}}
        )

    cluster = ManagedCluster.decode({"metadata": {"name": "c1", "labels": labels or {}}, "spec": {}})
    document = {"apiVersion": CONFIGS.api_version, "kind": CONFIGS.kind, "metadata": {"name": "x", "namespace": "y"}, "spec": spec}
    configs = (ConfigObject(GROUP, CONFIGS.plural, document, "hash"),)
    return Installation(cluster, addon(name), configs, {one: addon(one) for one in beside})


def agent(**given: Any) -> Agent:
    return ADDONS[CONFIG_POLICY_ADDON].agent(installation(**given))


def controller(found: Agent) -> Object:
    (deployment,) = [one for one in found.manifests if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def arguments(**given: Any) -> list[str]:
    return list(controller(agent(**given))["args"])


def variables(**values: str) -> list[Object]:
    return [{"name": name, "value": value} for name, value in values.items()]


def test_the_command_line_that_the_policy_addon_controller_of_ocm_renders() -> None:
    container = controller(agent(beside=(STANDALONE_ADDON,)))
    assert container["command"] == ["config-policy-controller"]
    assert container["args"] == [
        "controller",
        "--enable-lease=true",
        "--cluster-name=c1",
        "--hub-kubeconfig-path=/var/run/klusterlet/kubeconfig",
        "--leader-elect=false",
        "--log-encoder=console",
        "--log-level=0",
        "--v=0",
        "--evaluation-concurrency=2",
        "--client-max-qps=30",
        "--client-burst=45",
        "--health-probe-bind-address=$(POD_IP):8081",
        "--enable-operator-policy=true",
        "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig",
    ]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["WATCH_NAMESPACE"] == "c1"
    assert {one["name"]: one["mountPath"] for one in container["volumeMounts"]} == {
        "klusterlet-config": "/var/run/klusterlet",
        "standalone-hub-templating-kubeconfig": "/var/run/standalone-hub-templating",
    }
    assert container["resources"] == {"requests": {"memory": "128Mi"}, "limits": {"memory": "512Mi"}}


def test_kinds_of_the_policy_framework_are_not_brought() -> None:
    definitions = [one["spec"]["names"]["kind"] for one in agent().manifests if one["kind"] == "CustomResourceDefinition"]
    assert definitions == ["ConfigurationPolicy", "OperatorPolicy"]


def test_the_namespace_of_policies_stays_when_the_addon_goes() -> None:
    namespaces = {one["metadata"]["name"]: one["metadata"] for one in agent().manifests if one["kind"] == "Namespace"}
    assert list(namespaces) == ["open-cluster-management-policies"]
    assert "addon.open-cluster-management.io/deletion-orphan" in namespaces["open-cluster-management-policies"]["annotations"]


@pytest.mark.parametrize(
    ("annotation", "variable", "value", "flags"),
    [
        ("log-level", "logLevel", "2", ["--log-level=2", "--v=0"]),
        ("log-level", "logLevel", "error", ["--log-level=error", "--v=-3"]),
        ("policy-evaluation-concurrency", "evaluationConcurrency", "20", ["--evaluation-concurrency=20", "--client-burst=441"]),
        ("client-qps", "clientQPS", "7", ["--client-max-qps=7", "--client-burst=45"]),
        ("client-burst", "clientBurst", "8", ["--client-burst=8"]),
        ("prometheus-metrics-enabled", "prometheusEnabled", "true", ["--metrics-bind-address=$(POD_IP):8383"]),
        ("", "logEncoder", "json", ["--log-encoder=json"]),
        ("", "tlsMinVersion", "VersionTLS13", ["--tls-min-version=VersionTLS13"]),
        ("", "tlsCipherSuites", "TLS_A,TLS_B", ["--tls-cipher-suites=TLS_A,TLS_B"]),
    ],
)
def test_a_setting_by_annotation_or_by_variable(annotation: str, variable: str, value: str, flags: list[str]) -> None:
    if annotation:
        assert set(flags) <= set(arguments(annotations={annotation: value}))
    assert set(flags) <= set(arguments(customizedVariables=variables(**{variable: value})))


def test_values_override_annotations_and_variables_override_values() -> None:
    values = json.dumps({"logLevel": 3, "operatorPolicy": {"disabled": True}, "global": {"imageOverrides": {}}})
    both = {"log-level": "1", VALUES_ANNOTATION: values}
    found = arguments(annotations=both)
    assert "--log-level=3" in found
    assert "--enable-operator-policy=true" not in found
    assert "--log-level=4" in arguments(annotations=both, customizedVariables=variables(logLevel="4"))


def test_operator_policies_can_be_switched_off_and_have_a_namespace_on_openshift() -> None:
    assert "--enable-operator-policy=true" not in arguments(annotations={"operator-policy-disabled": "true"})
    assert "--enable-operator-policy=true" not in arguments(customizedVariables=variables(operatorPolicyDisabled="1"))
    openshift = {"openshiftVersion-major": "4"}
    assert "--operator-policy-default-namespace=openshift-operators" in arguments(labels=openshift)


def test_another_image_by_value_or_by_registry() -> None:
    values = json.dumps({"global": {"imageOverrides": {"config_policy_controller": "example.com/cpc:2"}}})
    found = agent(annotations={VALUES_ANNOTATION: values})
    assert controller(found)["image"] == "example.com/cpc:2"
    mirrored = agent(registries=[{"source": "muster", "mirror": "mirror.example/muster"}])
    (hook,) = [one for one in mirrored.manifests if one["kind"] == "Pod"]
    assert controller(mirrored)["image"] == hook["spec"]["containers"][0]["image"] == "mirror.example/muster:1"


def test_the_hook_runs_where_the_controller_does() -> None:
    placement = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "x", "operator": "Exists"}]}
    proxies = {"httpsProxy": "http://proxy:3128", "noProxy": "10.0.0.0/8"}
    (hook,) = [one for one in agent(nodePlacement=placement, proxyConfig=proxies).manifests if one["kind"] == "Pod"]
    assert (hook["spec"]["nodeSelector"], hook["spec"]["tolerations"]) == ({"a": "b"}, [{"key": "x", "operator": "Exists"}])
    environment = {one["name"]: one["value"] for one in hook["spec"]["containers"][0]["env"]}
    assert environment["HTTPS_PROXY"] == "http://proxy:3128"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [("log-level", "loud"), ("policy-evaluation-concurrency", "0"), ("client-qps", "1e3"), ("operator-policy-disabled", "yes")],
)
def test_what_makes_no_sense_is_left_at_its_default_and_said(annotation: str, value: str) -> None:
    found = agent(annotations={annotation: value})
    assert controller(found)["args"] == controller(agent())["args"]
    (warning,) = found.warnings
    assert annotation in warning
    assert value in warning


def test_what_nobody_knows_is_said() -> None:
    found = agent(annotations={VALUES_ANNOTATION: '{"replicas": 3}'}, customizedVariables=variables(logLevle="1"))
    assert found.warnings == ("value replicas has no effect", "AddOnDeploymentConfig: variable logLevle has no effect")


def test_a_pause_leaves_credentials_alone() -> None:
    found = agent(annotations={"policy-addon-pause": "true"})
    assert "policy-addon-pause" in found.paused
    assert found.registrations
    assert agent(annotations={"policy-addon-pause": "false"}).paused == ""


def test_a_hosted_controller_has_everything_on_its_host() -> None:
    found = agent(annotations={HOSTING_CLUSTER_ANNOTATION: "host"}, beside=(STANDALONE_ADDON,))
    assert found.namespace == "klusterlet-c1"
    assert {one["metadata"]["annotations"][HOSTED_MANIFEST_LOCATION] for one in found.manifests} == {"hosting"}
    assert {one["metadata"].get("namespace", "") for one in found.manifests} == {"", "klusterlet-c1"}
    container = controller(found)
    assert "--target-kubeconfig-path=/var/run/managed-kubeconfig/kubeconfig" in container["args"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["WATCH_NAMESPACE"] == "klusterlet-c1"
    (hook,) = [one for one in found.manifests if one["kind"] == "Pod"]
    assert "--policy-namespace=klusterlet-c1" in hook["spec"]["containers"][0]["args"]
    assert not [flag for flag in hook["spec"]["containers"][0]["args"] if flag.startswith("--additional-namespace")]
    # Not more on the host than for its policies.
    roles = {one["kind"]: one["rules"] for one in found.manifests if one["kind"] in ("Role", "ClusterRole")}
    assert all("*" not in part for rules in roles.values() for rule in rules for part in rule.values())
    assert [rule["resources"] for rule in roles["ClusterRole"]] == [["customresourcedefinitions"]]
    info = ADDONS[STANDALONE_ADDON].agent(installation(STANDALONE_ADDON, annotations={HOSTING_CLUSTER_ANNOTATION: "host"}))
    assert info.namespace == "klusterlet-c1"


_TEXT = st.text(max_size=12) | st.sampled_from(
    ["-1", "127", "128", "٣", "--x", "1 ", "999999999999", "true", "TRUE", "a b", "$(X)"]
)
_NAMES = ("log-level", "policy-evaluation-concurrency", "client-qps", "client-burst", "prometheus-metrics-enabled")


@given(st.dictionaries(st.sampled_from(_NAMES), _TEXT))
def test_no_annotation_takes_policies_away_or_adds_a_flag(annotations: dict[str, str]) -> None:
    found = agent(annotations=annotations)
    plain = [flag.partition("=")[0] for flag in controller(agent())["args"]]
    flags = [flag.partition("=")[0] for flag in controller(found)["args"]]
    assert [flag for flag in flags if flag != "--metrics-bind-address"] == plain
    for flag in controller(found)["args"]:
        name, _, value = flag.partition("=")
        if name in ("--evaluation-concurrency", "--client-max-qps", "--client-burst"):
            assert int(value) > 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
        lambda inner: st.dictionaries(_TEXT, inner) | st.lists(inner),
    )
)
def test_any_values_render_or_say_what_is_wrong(values: Any) -> None:
    found = agent(annotations={VALUES_ANNOTATION: json.dumps({"logLevel": values, "operatorPolicy": values, "global": values})})
    assert controller(found)["args"][0] == "controller"
