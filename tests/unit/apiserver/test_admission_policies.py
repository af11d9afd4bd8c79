"""ValidatingAdmissionPolicies in a running server: what the comparison with the real one cannot pin down.

Policies of the real server take effect late and share informers, so parameters chosen by label, of custom kinds, or in other
namespaces are tested here.
"""

from typing import Any

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from tests.unit.apiserver.conftest import eventually

MAPS = object_path("v1", "configmaps", "default")
POLICIES = object_path("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
BINDINGS = object_path("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}


def policy(name: str, expression: str, **spec: Any) -> dict[str, Any]:
    constraints = {"resourceRules": [RULE], "objectSelector": {"matchExpressions": [{"key": "param", "operator": "DoesNotExist"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, "validations": [{"expression": expression}], **spec},
    }


def binding(name: str, *actions: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": list(actions or ("Deny",)), **spec}}


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


async def enforce(client: DirectClient, expression: str, bound: dict[str, Any] | None = None, **spec: Any) -> None:
    await client.create(POLICIES, policy("p", expression, **spec))
    await client.create(BINDINGS, binding("p", **(bound or {})))


async def refusal(client: DirectClient, obj: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as refused:
        await client.create(MAPS, obj)
    return refused.value.message


async def test_a_policy_without_a_binding_is_only_a_text(client: DirectClient) -> None:
    await client.create(POLICIES, policy("p", "false"))
    await client.create(MAPS, config_map("a"))


async def test_every_parameter_chosen_by_label_must_be_satisfied(client: DirectClient) -> None:
    for name, most in (("wide", "3"), ("narrow", "1")):
        await client.create(MAPS, config_map(name, {"param": "yes"}, max=most))
    await enforce(
        client,
        "size(object.data) <= int(params.data.max)",
        {"paramRef": {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    await client.create(MAPS, config_map("a", k="1"))
    assert "denied request: failed expression" in await refusal(client, config_map("b", k="1", l="2"))


async def test_parameters_may_be_custom_resources_of_the_whole_cluster(server: ApiServer, client: DirectClient) -> None:
    schema = {"type": "object", "properties": {"max": {"type": "integer"}}}
    definition = {
        "metadata": {"name": "limits.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Cluster",
            "names": {"plural": "limits", "kind": "Limit"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await client.create(object_path("apiextensions.k8s.io/v1", "customresourcedefinitions"), definition)
    table = server.clusters["default"].resources
    await eventually(lambda: table.get("x.io", "v1", "limits"), "the definition is served")
    limit = {"apiVersion": "x.io/v1", "kind": "Limit", "metadata": {"name": "one"}, "max": 1}
    await client.create(object_path("x.io/v1", "limits"), limit)
    await enforce(
        client,
        "size(object.data) <= params.max",
        {"paramRef": {"name": "one", "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "x.io/v1", "kind": "Limit"},
    )
    assert "failed expression" in await refusal(client, config_map("b", k="1", l="2"))
    await client.merge(f"{object_path('x.io/v1', 'limits')}/one", {"max": 2})
    await client.create(MAPS, config_map("b", k="1", l="2"))


async def test_a_namespace_in_the_reference_of_a_cluster_wide_kind_is_a_mistake(client: DirectClient) -> None:
    await enforce(
        client,
        "true",
        {"paramRef": {"name": "default", "namespace": "default", "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "v1", "kind": "Namespace"},
    )
    expected = "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
    assert expected in await refusal(client, config_map("a"))


async def test_a_policy_runs_out_of_budget_before_it_stops_the_server(client: DirectClient) -> None:
    dear = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != 'x')))"
    await enforce(client, dear)
    many = {f"key-{index}": "v" for index in range(300)}
    assert "cost" in await refusal(client, {**config_map("a"), "data": many})


async def test_the_same_failure_of_two_policies_is_told_once_by_the_first(client: DirectClient) -> None:
    for name in ("b", "a"):
        await client.create(POLICIES, policy(name, "false"))
        await client.create(BINDINGS, binding(name))
    assert "ValidatingAdmissionPolicy 'a' with binding 'a'" in await refusal(client, config_map("x"))


async def test_bindings_may_bind_only_some_namespaces(client: DirectClient) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    await enforce(client, "false", {"matchResources": {"namespaceSelector": selector}})
    await client.create(MAPS, config_map("a"))
    with pytest.raises(ApiError):
        await client.create(object_path("v1", "configmaps", "kube-system"), config_map("a"))


async def test_a_policy_is_looked_at_once_per_generation(server: ApiServer, client: DirectClient) -> None:
    await client.create(POLICIES, policy("p", "object.data.nothing == 1"))

    def read() -> dict[str, Any]:
        return server.clusters["default"].read("admissionregistration.k8s.io/validatingadmissionpolicies", "p") or {}

    await eventually(lambda: read()["status"].get("observedGeneration") == 1, "the policy is observed")
    assert read()["status"]["typeChecking"]["expressionWarnings"][0]["fieldRef"] == "spec.validations[0].expression"
    await client.merge(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "true"}]}})
    await eventually(lambda: read()["status"].get("observedGeneration") == 2, "the change is observed")
    assert not read()["status"].get("typeChecking")
