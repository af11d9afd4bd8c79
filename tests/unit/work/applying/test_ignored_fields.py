"""Which fields selectors take out of a manifest."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.api.work.v1 import IgnoreField
from muster.work.agent.applying.ignored_fields import without_ignored
from muster.work.agent.interfaces import ApplyProblem

DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "x", "annotations": {"a.b/c": "1", "keep": "2"}},
    "spec": {
        "replicas": 3,
        "containers": [{"name": "app", "image": "a:1", "args": ["x"]}, {"name": "side", "image": "s:1"}],
        "list": [1, 2, 3],
        "text": "hello",
    },
}


def left(**selectors: list[str]) -> dict[str, Any]:
    before = copy.deepcopy(DOCUMENT)
    fields: dict[str, Any] = {key: tuple(value) for key, value in selectors.items()}
    kept = without_ignored(DOCUMENT, (IgnoreField(**fields),))
    assert before == DOCUMENT
    return kept


def gone(kept: Any, original: Any = DOCUMENT, path: str = "") -> set[str]:
    if isinstance(original, dict):
        missing = {f"{path}/{key}" for key in original if key not in kept}
        return missing.union(*(gone(kept[key], original[key], f"{path}/{key}") for key in kept))
    if isinstance(original, list):
        if len(kept) != len(original):
            return {f"{path}:{len(original) - len(kept)}"}
        return set().union(
            *(gone(mine, theirs, f"{path}/{at}") for at, (mine, theirs) in enumerate(zip(kept, original, strict=True)))
        )
    return set()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", {"/spec/replicas"}),
        ("spec.replicas", {"/spec/replicas"}),
        ("{.spec.replicas}", {"/spec/replicas"}),
        ("$.spec.replicas", {"/spec/replicas"}),
        (".spec", {"/spec"}),
        (".spec.containers[*].image", {"/spec/containers/0/image", "/spec/containers/1/image"}),
        (".spec.containers[0].image", {"/spec/containers/0/image"}),
        ('.spec.containers[?(@.name=="side")].image', {"/spec/containers/1/image"}),
        (".metadata.annotations['a.b/c']", {"/metadata/annotations/a.b~1c"}),
        (".spec.nothing.here", set()),
    ],
)
def test_json_paths_take_out_the_field_they_end_with(path: str, expected: set[str]) -> None:
    assert gone(left(json_paths=[path])) == {where.replace("~1", "/") for where in expected}


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("/spec/replicas", {"/spec/replicas"}),
        ("/metadata/annotations/a.b~1c", {"/metadata/annotations/a.b/c"}),
        ("/spec/containers/1/image", {"/spec/containers/1/image"}),
        ("/spec/containers/0", {"/spec/containers:1"}),
        ("/spec/containers/7/image", set()),
        ("/no/such/thing", set()),
    ],
)
def test_json_pointers_take_out_what_they_point_at(pointer: str, expected: set[str]) -> None:
    assert gone(left(json_pointers=[pointer])) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (".spec.replicas", {"/spec/replicas"}),
        ('.metadata.annotations["a.b/c"]', {"/metadata/annotations/a.b/c"}),
        ('.metadata.annotations."a.b/c"', {"/metadata/annotations/a.b/c"}),
        (".spec.containers[0].image", {"/spec/containers/0/image"}),
        (".spec.containers[-1].image", {"/spec/containers/1/image"}),
        (".spec.containers[].image", {"/spec/containers/0/image", "/spec/containers/1/image"}),
        (".spec.list[]", {"/spec/list:3"}),
        (".spec.replicas, .spec.text", {"/spec/replicas", "/spec/text"}),
        ('.spec.containers[] | select(.name == "app") | .image', {"/spec/containers/0/image"}),
        ('.spec.containers[] | select(.name != "app") | .image, .args', {"/spec/containers/1/image"}),
        (".spec.containers[] | select(.args) | .image", {"/spec/containers/0/image"}),
        ('.spec.containers[] | select(.name == "app")', {"/spec/containers:1"}),
        ("(.spec | .containers)[1].image", {"/spec/containers/1/image"}),
        (".spec.text.below?", set()),
        (".nothing.here", set()),
        (".spec.list[9]", set()),
    ],
)
def test_jq_paths_take_out_what_they_name(expression: str, expected: set[str]) -> None:
    assert gone(left(jq_path_expressions=[expression])) == expected


@pytest.mark.parametrize(
    ("selectors", "text"),
    [
        ({"json_paths": [".spec.list[0]"]}, "JSONPath error in '.spec.list[0]': it must end with the name of a field"),
        ({"json_paths": [".spec[?(@.x].y"]}, "JSONPath error in"),
        ({"json_pointers": ["spec"]}, "JSON Pointer error in 'spec': it must begin with '/'"),
        ({"jq_path_expressions": [".spec | keys"]}, "'keys' is not a path"),
        ({"jq_path_expressions": ["."]}, "it selects the whole object"),
        ({"jq_path_expressions": [""]}, "a path is missing"),
        ({"jq_path_expressions": [".spec."]}, "unexpected"),
        ({"jq_path_expressions": [".."]}, "'..' is not a path"),
        ({"jq_path_expressions": [".spec.text.below"]}, "a string has no field 'below'"),
        ({"jq_path_expressions": [".spec.text[]"]}, "a string has no elements"),
        ({"jq_path_expressions": [".spec[0]"]}, "an object has no element 0"),
        ({"jq_path_expressions": [".a[1:2]"]}, "unexpected ':2]'"),
        ({"jq_path_expressions": [".a[.b]"]}, "a name or a number is expected"),
        ({"jq_path_expressions": ["select(.a == .b)"]}, "select compares with a constant"),
        ({"jq_path_expressions": [".a[0"]}, "']' is expected, not 'the end'"),
    ],
)
def test_what_cannot_be_understood_is_reported(selectors: dict[str, list[str]], text: str) -> None:
    with pytest.raises(ApplyProblem) as caught:
        left(**selectors)
    assert caught.value.reason == "AppliedManifestSSAIgnoreFieldError"
    assert caught.value.message.startswith("Failed to process ignoreFields: ")
    assert text in caught.value.message


def test_paths_come_first_then_pointers_then_jq() -> None:
    kept = left(json_paths=[".spec.text"], json_pointers=["/spec/containers/0"], jq_path_expressions=[".spec.containers[0].image"])
    assert kept["spec"]["containers"] == [{"name": "side"}]


def test_fields_ignored_only_when_changed_stay_in_what_is_applied() -> None:
    kept = without_ignored(DOCUMENT, (IgnoreField(condition="OnSpokeChange", json_paths=(".spec.replicas",)),))
    assert kept == DOCUMENT


@pytest.mark.parametrize(
    "selectors",
    [
        {"jq_path_expressions": [" | ".join([".a, .a"] * 60) + " | .b"]},
        {"jq_path_expressions": [".spec.containers[] | " + " | ".join(["(., .)"] * 60) + " | .name"]},
        {"json_paths": [".spec['list','list','list','list'][0:3].x"] * 50_000},
    ],
)
def test_selectors_without_end_are_reported_and_hold_up_nobody(selectors: dict[str, list[str]]) -> None:
    with pytest.raises(ApplyProblem, match="it selects too much"):
        left(**selectors)
