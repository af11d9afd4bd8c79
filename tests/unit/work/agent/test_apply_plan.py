"""Manifests become objects with a place, an order and a treatment; what cannot says why, and the others go on."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.work.v1 import ManifestWork, ManifestWorkSpec
from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS
from muster.work.agent.apply_plan import ApplyPlan, kinds, make_plan, rank_of

DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
SERVED: dict[tuple[str, str], GVR | str] = {
    (one.api_version, one.kind): one for one in (CONFIG_MAPS, NAMESPACES, SECRETS, DEPLOYMENTS)
}


def manifest(kind: str, name: str, namespace: str = "app", api_version: str = "v1", **fields: Any) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def spec(*manifests: Any, **fields: Any) -> ManifestWorkSpec:
    work = {"metadata": {"name": "w"}, "spec": {"workload": {"manifests": list(manifests)}, **fields}}
    return ManifestWork.decode(work).spec


def plan(*manifests: Any, **fields: Any) -> ApplyPlan:
    return make_plan(spec(*manifests, **fields), SERVED)


def config(plural: str, name: str, namespace: str = "app", group: str = "", **options: Any) -> Object:
    return {"resourceIdentifier": {"group": group, "resource": plural, "name": name, "namespace": namespace}, **options}


def test_a_manifest_is_placed_where_its_kind_lives() -> None:
    made = plan(manifest("ConfigMap", "a"), manifest("Namespace", "n", "ignored"))
    first, second = made.manifests
    assert (first.ref.resource, first.ref.namespace, first.ref.name) == (CONFIG_MAPS, "app", "a")
    assert (second.ref.resource, second.ref.namespace) == (NAMESPACES, "")
    assert second.document["metadata"] == {"name": "n"}


def test_what_only_a_server_can_say_of_an_object_is_left_out() -> None:
    told = manifest("ConfigMap", "a")
    told["metadata"] |= {"uid": "u", "resourceVersion": "1", "managedFields": [], "labels": {"x": "y"}}
    assert plan(told).manifests[0].document["metadata"] == {"name": "a", "namespace": "app", "labels": {"x": "y"}}


def test_others_stand_on_what_goes_first() -> None:
    made = plan(manifest("Deployment", "d", api_version="apps/v1"), manifest("Secret", "s"), manifest("Namespace", "n", ""))
    assert [[one.ref.resource.kind for one in rank] for rank in made.ranks] == [["Namespace"], ["Secret"], ["Deployment"]]
    assert [one.ordinal for one in made.manifests] == [0, 1, 2]
    assert rank_of("widgets") > rank_of("apiservices") > rank_of("deployments") > rank_of("services") > rank_of("configmaps")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "apiVersion or kind is missing"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "apiVersion or kind is missing"),
        ({"apiVersion": 1, "kind": ["x"]}, "apiVersion or kind is missing"),
        ("text", "apiVersion or kind is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app"}}, "metadata.name is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "none"}, "metadata.name is missing"),
        (manifest("ConfigMap", "a", ""), "metadata.namespace is missing: configmaps live in namespaces"),
        (manifest("ConfigMap", ".."), "metadata.name '..' is no name"),
        (manifest("ConfigMap", "."), "metadata.name '.' is no name"),
        (manifest("ConfigMap", "../../secrets/s"), "may not have '/' or '%' in it"),
        (manifest("ConfigMap", "a", ".."), "metadata.namespace '..' is no name"),
        (manifest("ConfigMap", "a%2f"), "may not have '/' or '%' in it"),
        (manifest("Widget", "a"), 'the server doesn\'t have a resource type "Widget"'),
    ],
)
def test_what_cannot_be_an_object_of_the_cluster_says_why_and_the_others_go_on(wrong: Any, problem: str) -> None:
    made = plan(wrong, manifest("ConfigMap", "fine"))
    (invalid_manifest,) = made.invalid
    assert problem in invalid_manifest.problem
    assert invalid_manifest.nowhere is ("namespace is missing" in problem)
    assert invalid_manifest.meta.ordinal == 0
    assert [one.ref.name for one in made.manifests] == ["fine"]


def test_of_two_manifests_for_one_object_the_first_counts() -> None:
    made = plan(manifest("ConfigMap", "a"), manifest("ConfigMap", "a"))
    assert [one.ordinal for one in made.manifests] == [0]
    assert made.invalid[0].problem == "manifest 0 is about the same object"


def test_for_each_question_the_first_configuration_that_says_something_counts() -> None:
    feedback = [{"type": "WellKnownStatus"}]
    made = plan(
        manifest("ConfigMap", "web-1"),
        manifest("ConfigMap", "other"),
        manifestConfigs=[
            config("configmaps", "web-*", feedbackRules=feedback),
            config("configmaps", "web-1", updateStrategy={"type": "CreateOnly"}),
            config("configmaps", "*", "*", updateStrategy={"type": "ServerSideApply"}, feedbackRules=[{"type": "JSONPaths"}]),
        ],
    )
    first, second = made.manifests
    assert (first.strategy.type, first.feedback[0].type) == ("CreateOnly", "WellKnownStatus")
    assert (second.strategy.type, second.feedback[0].type) == ("ServerSideApply", "JSONPaths")


@pytest.mark.parametrize(
    ("name", "matches"), [("we*", True), ("*b", True), ("w*b", True), ("w.b", False), ("eb", False), ("web", True), ("*", True)]
)
def test_stars_stand_for_anything_and_everything_else_for_itself(name: str, matches: bool) -> None:
    made = plan(manifest("ConfigMap", "web"), manifestConfigs=[config("configmaps", name, updateStrategy={"type": "ReadOnly"})])
    assert (made.manifests[0].strategy.type == "ReadOnly") is matches


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_what_is_nested_too_deeply_to_be_sent_is_no_object() -> None:
    manifests = [manifest("ConfigMap", "deep", data=deep(300)), manifest("ConfigMap", "fine", data=deep(200))]
    work = json.dumps({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": manifests}}})
    made = make_plan(ManifestWork.decode(work.encode()).spec, SERVED)
    assert [one.ref.name for one in made.manifests] == ["fine"]
    assert [(one.meta.name, one.problem) for one in made.invalid] == [("deep", "it is nested too deeply")]


@given(st.text("ab*", max_size=8), st.text("ab", min_size=1, max_size=12))
def test_stars_match_as_a_shells_do(pattern: str, name: str) -> None:
    made = plan(manifest("ConfigMap", name), manifestConfigs=[config("configmaps", pattern, updateStrategy={"type": "ReadOnly"})])
    assert (made.manifests[0].strategy.type == "ReadOnly") is fnmatch.fnmatchcase(name, pattern)


def test_many_stars_hold_up_nobody() -> None:
    # As a regular expression, this would be tried for longer than anybody lives.
    stars = config("configmaps", "*a" * 60 + "*b", updateStrategy={"type": "ReadOnly"})
    made = plan(manifest("ConfigMap", "a" * 253), manifestConfigs=[stars] * 50)
    assert made.manifests[0].strategy.type == "Update"


@pytest.mark.parametrize(
    ("option", "owned"),
    [
        (None, True),
        ({"propagationPolicy": "Foreground"}, True),
        ({"propagationPolicy": "Orphan"}, False),
        ({"propagationPolicy": "SelectivelyOrphan"}, True),
        (
            {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [{"resource": "configmaps", "name": "a", "namespace": "app"}]},
            },
            False,
        ),
        (
            {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [{"resource": "configmaps", "name": "*", "namespace": "app"}]},
            },
            True,
        ),
    ],
)
def test_what_goes_with_the_work_is_owned(option: Object | None, owned: bool) -> None:
    fields = {} if option is None else {"deleteOption": option}
    assert plan(manifest("ConfigMap", "a"), **fields).manifests[0].owned is owned


def test_what_is_only_read_is_not_owned() -> None:
    configs = [config("configmaps", "a", updateStrategy={"type": "ReadOnly"})]
    assert not plan(manifest("ConfigMap", "a"), manifestConfigs=configs).manifests[0].owned


def test_a_digest_tells_what_is_to_be_done_anew() -> None:
    def digest(document: Object, **fields: Any) -> bytes:
        return plan(document, **fields).manifests[0].digest

    plain = digest(manifest("ConfigMap", "a"))
    assert plain == digest(manifest("ConfigMap", "a"))
    applied = [config("configmaps", "a", updateStrategy={"type": "ServerSideApply"})]
    others = {
        digest(manifest("ConfigMap", "a", data={"x": "y"})),
        digest(manifest("ConfigMap", "a"), manifestConfigs=applied),
        digest(manifest("ConfigMap", "a"), deleteOption={"propagationPolicy": "Orphan"}),
    }
    assert len(others | {plain}) == 4


def test_what_discovery_is_asked_for_is_each_kind_once() -> None:
    asked = kinds(
        spec(manifest("ConfigMap", "a"), manifest("ConfigMap", "b"), {"kind": "x"}, "text", {"apiVersion": 3, "kind": "y"})
    )
    assert asked == {("v1", "ConfigMap")}


def test_an_object_whose_kind_is_not_served_at_the_moment_is_protected() -> None:
    made = make_plan(spec(manifest("Widget", "w", api_version="example.org/v1")), {})
    assert made.protects(("example.org", "widgets", "app", "w"))
    assert made.protects(("example.org", "widgets", "", "w"))
    assert not made.protects(("example.org", "widgets", "app", "other"))
    assert not made.protects(("", "widgets", "app", "w"))
    assert not plan(manifest("ConfigMap", "a", "")).protects(("", "configmaps", "", "a"))
