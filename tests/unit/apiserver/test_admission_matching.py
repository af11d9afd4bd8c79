"""Which operations rules and selectors match: groups, versions, resources and subresources, operations, scope, names, labels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.admission.attributes import AdmissionAttributes
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.matcher import Matcher, Rule
from muster.apiserver.builtin.strategy import request_type
from muster.apiserver.client import DirectClient
from muster.apiserver.context import Context
from muster.apiserver.errors import ApiError
from muster.apiserver.request import Query
from muster.apiserver.server import ApiServer
from muster.http import Headers, Request
from muster.http.message import Connection
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes

EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}


def subject(
    server: ApiServer,
    operation: str = "CREATE",
    target: tuple[str, str, str] = ("apps", "v1", "deployments"),
    sub: str = "",
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    old: dict[str, Any] | None = None,
) -> AdmissionAttributes:
    cluster = server.clusters["default"]
    resource = cluster.resources.get(*target)
    assert resource is not None
    request = Request("POST", "/", Headers([]), Connection(("", 0), "https"), received=0.0)
    attributes = AccessAttributes("create", *target, subresource=sub, namespace=namespace, name="a")
    ctx = Context(cluster, request, UserInfo("x"), attributes, Query(""))
    new = None if operation == "DELETE" else {"metadata": {"name": "a", "labels": labels or {}}}
    return AdmissionAttributes(ctx, resource, Operation(operation, new, old))


def matches(about: AdmissionAttributes, **rule: Any) -> bool:
    return Rule({**EVERYTHING, **rule}).matches(about, about.resource)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, True),
        ({"apiGroups": ["apps"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiGroups": []}, False),
        ({"apiVersions": ["v1", "v2"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["deployments"]}, True),
        ({"resources": ["pods", "deployments"]}, True),
        ({"resources": ["deployments/status"]}, False),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["*/status"]}, False),
        ({"operations": ["CREATE", "UPDATE"]}, True),
        ({"operations": ["DELETE"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"resourceNames": ["a", "b"]}, True),
        ({"resourceNames": ["b"]}, False),
    ],
)
async def test_a_rule_about_the_creation_of_a_deployment(server: ApiServer, rule: dict[str, Any], expected: bool) -> None:
    assert matches(subject(server), **rule) is expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (["deployments"], False),
        (["*"], False),
        (["deployments/*"], True),
        (["*/status"], True),
        (["*/*"], True),
        (["*/scale"], False),
    ],
)
async def test_a_rule_about_a_subresource_must_name_it(server: ApiServer, resources: list[str], expected: bool) -> None:
    assert matches(subject(server, "UPDATE", sub="status"), resources=resources) is expected


async def test_a_namespace_is_an_object_of_the_cluster_although_its_path_names_one(server: ApiServer) -> None:
    about = subject(server, target=("", "v1", "namespaces"), namespace="a")
    assert matches(about, scope="Cluster")
    assert not matches(about, scope="Namespaced")


async def test_an_equivalent_version_matches_unless_the_policy_is_exact(server: ApiServer) -> None:
    about = subject(server, target=("autoscaling", "v2", "horizontalpodautoscalers"))
    rule = {**EVERYTHING, "apiGroups": ["autoscaling"], "apiVersions": ["v1"]}
    found = Matcher([rule], "Equivalent", None, None).match(about)
    assert found is not None
    assert found.version == "v1"
    assert Matcher([rule], "Exact", None, None).match(about) is None


async def test_events_are_the_same_objects_in_both_of_their_groups(server: ApiServer) -> None:
    about = subject(server, target=("events.k8s.io", "v1", "events"))
    rule = {**EVERYTHING, "apiGroups": [""]}
    found = Matcher([rule], "Equivalent", None, None).match(about)
    assert found is not None
    assert found.api_version == "v1"


async def test_an_object_selector_is_satisfied_by_the_old_or_the_new_object(server: ApiServer) -> None:
    matcher = Matcher([EVERYTHING], "", None, {"matchLabels": {"l": "1"}})
    labelled = {"metadata": {"labels": {"l": "1"}}}
    assert matcher.match(subject(server, labels={"l": "1"}))
    assert matcher.match(subject(server, "UPDATE", old=labelled))
    assert matcher.match(subject(server, "DELETE", old=labelled))
    assert not matcher.match(subject(server, "UPDATE", old={"metadata": {}}))


async def test_what_lives_in_no_namespace_passes_every_namespace_selector(server: ApiServer) -> None:
    matcher = Matcher([EVERYTHING], "", {"matchLabels": {"no": "namespace"}}, None)
    assert matcher.match(subject(server, target=("", "v1", "nodes"), namespace=""))
    assert not matcher.match(subject(server))


async def test_a_selector_about_a_namespace_that_is_gone_is_an_error(server: ApiServer) -> None:
    matcher = Matcher([EVERYTHING], "", {"matchLabels": {"no": "namespace"}}, None)
    with pytest.raises(ApiError) as missing:
        matcher.match(subject(server, namespace="gone"))
    assert missing.value.code == 404


async def test_excluded_rules_win(server: ApiServer, client: DirectClient) -> None:
    matcher = Matcher([EVERYTHING], "", None, None, [{**EVERYTHING, "resourceNames": ["a"]}])
    assert matcher.match(subject(server)) is None


WORDS = st.lists(st.sampled_from(["*", "", "apps", "v1", "deployments", "deployments/*", "*/*", "CREATE", "pods"]), max_size=3)


@given(groups=WORDS, versions=WORDS, resources=WORDS, operations=WORDS)
def test_a_rule_matches_exactly_if_each_of_its_lists_does(
    groups: list[str], versions: list[str], resources: list[str], operations: list[str]
) -> None:
    row = request_type("apps", "v1", "Deployment")
    rule = {"apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": operations}
    expected = (
        bool({"*", "apps"} & set(groups))
        and bool({"*", "v1"} & set(versions))
        and bool({"*", "deployments", "deployments/*", "*/*"} & set(resources))
        and bool({"*", "CREATE"} & set(operations))
    )
    about = AdmissionAttributes.__new__(AdmissionAttributes)
    about.operation, about.subresource, about.namespace, about.name, about.is_namespace = "CREATE", "", "default", "a", False
    assert Rule(rule).matches(about, row) is expected
