"""Which values of applied objects are reported back."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.work.v1 import FeedbackRule, JsonPath
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.reporting import Reporter
from muster.work.agent.reporting.feedback import FeedbackReader
from tests.unit.work.reporting.builders import (
    DEPLOYMENTS,
    FIRST,
    JOBS,
    PODS,
    applied,
    complaints,
    manifest,
    paths,
    said,
    values,
    well_known,
    work,
)


def read(document: Any, *rules: FeedbackRule, resource: GVR = CONFIG_MAPS, **options: Any) -> tuple[dict[str, Any], str]:
    """The values, and what StatusFeedbackSynced says."""
    subject = manifest(resource=resource, feedback=rules)
    status = Reporter(**options).status(work(), [applied(subject, document)], FIRST)
    assert complaints(status) == []
    [entry] = status.resource_status.manifests
    synced = said(entry, "StatusFeedbackSynced")
    assert (synced.status == "True") == (synced.reason in ("StatusFeedbackSynced", "NoStatusFeedbackSynced"))
    return values(entry), synced.message.removeprefix("Sync status feedback failed with error ")


@pytest.mark.parametrize(
    ("resource", "status", "expected"),
    [
        (
            DEPLOYMENTS,
            {"readyReplicas": 1, "replicas": 2, "availableReplicas": 3},
            {"ReadyReplicas": 1, "Replicas": 2, "AvailableReplicas": 3},
        ),
        (
            GVR("apps/v1", "daemonsets", "DaemonSet"),
            {"numberReady": 1, "desiredNumberScheduled": 2, "numberAvailable": 0},
            {"NumberReady": 1, "DesiredNumberScheduled": 2, "NumberAvailable": 0},
        ),
        (
            JOBS,
            {"succeeded": 1, "conditions": [{"type": "Other", "status": "False"}, {"type": "Complete", "status": "True"}]},
            {"JobComplete": "True", "JobSucceeded": 1},
        ),
        (
            PODS,
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            {"PodReady": "True", "PodPhase": "Running"},
        ),
        (GVR("apps/v1", "statefulsets", "StatefulSet"), {"replicas": 2}, {"Replicas": 2}),
        (DEPLOYMENTS, {}, {}),
    ],
)
def test_kinds_that_are_known_report_their_own_status(resource: GVR, status: Any, expected: dict[str, Any]) -> None:
    assert read({"status": status}, well_known(), resource=resource) == (expected, "")


def test_a_kind_that_is_not_known_is_named() -> None:
    problem = "cannot find the wellknown statuses for resource with gvk /v1, Kind=ConfigMap"
    assert read({}, well_known()) == ({}, problem)


def test_values_are_typed_and_absent_ones_left_out() -> None:
    document = {"data": {"n": -3, "s": "", "b": False, "null": None}}
    asked = paths(n=".data.n", s=".data.s", b=".data.b", null=".data.null", absent=".data.x.y", root=".status")
    assert read(document, asked) == ({"n": -3, "s": "", "b": False}, "")


def test_of_several_matches_the_first_counts() -> None:
    document = {"list": [{"v": "x"}, {"v": "y"}]}
    assert read(document, paths(v=".list[*].v")) == ({"v": "x"}, "")


@pytest.mark.parametrize(
    ("value", "kind"), [(1.5, "float64"), ([1], "[]interface {}"), ({"a": 1}, "map[string]interface {}"), (2**63, "float64")]
)
def test_other_values_are_problems_of_their_own_path(value: Any, kind: str) -> None:
    found = read({"v": value, "ok": 1}, paths(v=".v", ok=".ok"))
    assert found == ({"ok": 1}, f"the type {kind} of the value for v is not found")


def test_raw_json_takes_other_values_and_several_matches() -> None:
    document = {"map": {"b": [1, 2.5], "a": "<"}, "list": [{"v": 1}, {"v": 2}], "f": 0.5}
    asked = paths(map=".map", many=".list[*].v", one=".list[0].v", f=".f")
    assert read(document, asked, raw_json=True) == (
        {"map": '{"a":"\\u003c","b":[1,2.5]}', "many": "[1,2]", "one": 1, "f": "0.5"},
        "",
    )


@pytest.mark.parametrize(("limit", "reported"), [(10, 10), (5000, 1024)])
def test_raw_json_is_limited_and_never_beyond_what_the_hub_takes(limit: int, reported: int) -> None:
    document = {"short": [1], "long": ["x" * 2000]}
    problem = f"the length of returned json raw string for name long is larger than the maximum length {reported}"
    found = read(document, paths(short=".short", long=".long"), raw_json=True, max_json_raw_length=limit)
    assert found == ({"short": "[1]"}, problem)


def test_a_very_long_string_is_a_problem_of_its_own_path() -> None:
    found, problem = read({"long": "x" * 40000, "ok": 1}, paths(long=".long", ok=".ok"))
    assert found == {"ok": 1}
    assert problem == "the string for name long is longer than 32768 characters"


def test_a_path_for_another_version_is_a_problem_of_its_own() -> None:
    rule = FeedbackRule(
        type="JSONPaths",
        json_paths=(JsonPath(name="old", path=".v", version="v1beta1"), JsonPath(name="new", path=".v", version="v1")),
    )
    assert read({"v": 1}, rule) == ({"new": 1}, "version set in the path old is not matched for the related resource")


def test_paths_that_cannot_be_read_are_all_named() -> None:
    found, problem = read({"v": 1}, paths(bad=".v[", worse=".v.]", ok=".v"))
    assert found == {"ok": 1}
    assert problem.startswith("[failed to parse json path .v[ of bad with error: ")
    assert ", failed to parse json path .v.] of worse with error: " in problem


def test_a_name_given_twice_is_reported_once_and_named() -> None:
    found, problem = read({"a": 1, "b": 2}, paths(v=".a"), paths(v=".b", w=".b"))
    assert found == {"v": 1, "w": 2}
    assert problem == "the name v is given by more than one rule, only the first value is reported"


def test_nothing_asked_is_nothing_reported() -> None:
    [entry] = Reporter().status(work(), [applied()], FIRST).resource_status.manifests
    synced = said(entry, "StatusFeedbackSynced")
    assert (synced.status, synced.reason, synced.message) == ("True", "NoStatusFeedbackSynced", "")


def test_objects_given_as_json_are_read_like_documents() -> None:
    assert read(b'{"v": 7}', paths(v=".v", kind=".kind")) == ({"v": 7, "kind": "ConfigMap"}, "")


def test_the_reader_does_not_change_what_it_reads() -> None:
    document = {"v": [1]}
    FeedbackReader(raw_json=True).read(CONFIG_MAPS, document, [paths(v=".v")])
    assert document == {"v": [1]}


def test_a_bare_word_is_told_as_upstream_tells_it() -> None:
    _, problem = read({"kind": "Pod"}, paths(word="kind"))
    assert problem == "failed to find value for word with error: unrecognized identifier kind"


def test_paths_without_end_are_told_and_hold_up_nobody() -> None:
    document: Any = {}
    for _ in range(30):
        document = {"a": document}
    doubling = ".a" + "['a','a']" * 29
    feedback = FeedbackReader().read(CONFIG_MAPS, document, [paths(**{f"v{number}": doubling for number in range(2000)})])
    assert feedback.values == ()
    assert len(feedback.problems) == 2000
    assert feedback.problems[0] == "failed to find value for v0 with error: it selects too much"
