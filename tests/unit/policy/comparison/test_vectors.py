"""How objects compare with templates: the vectors that were taken from upstream's code, by their numbers."""

from __future__ import annotations

from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.policy.comparison import ComparisonError, compare, matches

HAVE, ONLY = "musthave", "mustonlyhave"


def widget(**fields: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, **fields}


def template(**fields: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", **fields}


# Number, compliance, template's and existing spec, whether an update is needed, and the spec it would give.
SPECS: list[tuple[str, str, Any, Any, bool, Any]] = [
    ("C01", HAVE, {"a": 1}, {"a": 1, "b": 2}, False, {"a": 1, "b": 2}),
    ("C02", HAVE, {"a": 2}, {"a": 1, "b": 2}, True, {"a": 2, "b": 2}),
    ("C03", HAVE, {"l": ["d", "e"]}, {"l": ["a", "b"]}, True, {"l": ["d", "e", "a", "b"]}),
    ("C04", HAVE, {"l": ["b"]}, {"l": ["a", "b"]}, False, {"l": ["b", "a"]}),
    ("C05", ONLY, {"l": ["b"]}, {"l": ["a", "b"]}, True, {"l": ["b"]}),
    ("C06", ONLY, {"l": ["b", "a"]}, {"l": ["a", "b"]}, False, {"l": ["b", "a"]}),
    (
        "C07",
        HAVE,
        {"c": [{"name": "x", "image": "new"}]},
        {"c": [{"name": "x", "image": "old", "port": 1}, {"name": "y", "image": "o"}]},
        True,
        {"c": [{"name": "x", "image": "new", "port": 1}, {"name": "y", "image": "o"}]},
    ),
    ("C08", HAVE, {"c": [{"k": 1}]}, {"c": [{"k": 1, "z": 2}]}, False, {"c": [{"k": 1, "z": 2}]}),
    ("C09", HAVE, {"c": [{"k": 2}]}, {"c": [{"k": 1, "z": 2}]}, True, {"c": [{"k": 2}, {"k": 1, "z": 2}]}),
    ("C10", HAVE, {"l": ["a", "a"]}, {"l": ["a"]}, True, {"l": ["a", "a"]}),
    ("C11", HAVE, {"l": ["a"]}, {"l": ["a", "a"]}, False, {"l": ["a", "a"]}),
    ("C12", HAVE, {"l": []}, {"l": ["a"]}, False, {"l": ["a"]}),
    ("C17 a map", HAVE, {"m": None}, {"m": {"x": 1}}, False, {"m": {"x": 1}}),
    ("C17 a text", HAVE, {"s": None}, {"s": "x"}, True, {"s": None}),
    ("C18 a text", HAVE, {"p": "80"}, {"p": 80}, True, {"p": "80"}),
    ("C18 a number", HAVE, {"p": 80}, {"p": "80"}, False, {"p": 80}),
    ("C19 cpu", HAVE, {"cpu": "1000m"}, {"cpu": "1"}, False, {"cpu": "1000m"}),
    ("C19 memory", HAVE, {"x": "1Gi"}, {"x": "1024Mi"}, False, {"x": "1Gi"}),
    (
        "C27 musthave",
        HAVE,
        {"rules": [{"verbs": ["get"], "resources": ["pods"]}]},
        {"rules": [{"verbs": ["get", "list"], "resources": ["pods"]}]},
        False,
        {"rules": [{"verbs": ["get", "list"], "resources": ["pods"]}]},
    ),
    ("C27 mustonlyhave", ONLY, {"rules": [{"verbs": ["get"]}]}, {"rules": [{"verbs": ["get", "list"]}]}, True, None),
]


@pytest.mark.parametrize(
    ("compliance", "wanted", "existing", "mismatch", "merged"), [row[1:] for row in SPECS], ids=[row[0] for row in SPECS]
)
def test_a_spec_compares_as_under_upstream(compliance: str, wanted: Any, existing: Any, mismatch: bool, merged: Any) -> None:
    found = compare(template(spec=wanted), widget(spec=existing), compliance=compliance)
    assert found.mismatch is mismatch
    if merged is not None:
        assert found.merged["spec"] == merged


MISSING = [("C13", [], False), ("C14", {}, True), ("C15", False, False), ("C16", "", True)]


@pytest.mark.parametrize(("value", "mismatch"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING])
def test_an_empty_field_that_is_absent_is_for_a_dry_run_to_decide(value: Any, mismatch: bool) -> None:
    found = compare(template(spec={"field": value}), widget(spec={}), compliance=HAVE)
    assert (found.mismatch, found.missing_key) == (mismatch, True)


def test_c20_metadata_has_a_rule_of_its_own() -> None:
    existing = widget(metadata={"name": "w", "labels": {"a": "1", "b": "2"}})
    wanted = template(metadata={"labels": {"a": "1"}})
    assert not compare(wanted, existing, compliance=HAVE).mismatch
    found = compare(wanted, existing, compliance=HAVE, metadata_compliance=ONLY)
    assert found.mismatch
    assert found.merged["metadata"] == {"name": "w", "labels": {"a": "1"}}


def test_c21_mustonlyhave_removes_other_keys_but_the_status() -> None:
    found = compare(template(spec={"a": 1}), widget(spec={"a": 1}, extra={"x": 1}, status={"phase": "x"}), compliance=ONLY)
    assert found.mismatch
    assert found.merged == widget(spec={"a": 1}, status={"phase": "x"})


def test_a_service_account_keeps_the_secrets_that_kubernetes_gives_it() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "s"}]}
    assert not compare({"apiVersion": "v1", "kind": "ServiceAccount"}, account, compliance=ONLY).mismatch


def test_c22_a_status_that_differs_is_told_apart() -> None:
    found = compare(template(status={"phase": "Ready"}), widget(status={"phase": "NotReady"}), compliance=HAVE)
    assert (found.mismatch, found.status_mismatch) == (False, True)


def test_c23_conditions_are_found_among_others() -> None:
    existing = [{"type": "A", "status": "True", "reason": "r"}, {"type": "B", "status": "False"}]
    found = compare(
        template(status={"conditions": [{"type": "A", "status": "True"}]}), widget(status={"conditions": existing}), compliance=HAVE
    )
    assert (found.mismatch, found.status_mismatch) == (False, False)


ERRORS: list[tuple[str, Object, str]] = [
    ("C24", {"spec": ["a"]}, 'Error merging changes into key "spec": object type of template and existing do not match'),
    (
        "C25 a number",
        {"metadata": {"labels": {"a": 1}}},
        'invalid label, error: contains non-string value in the map under key "a": 1 is of the type int64, expected string',
    ),
    (
        "C25 a boolean",
        {"metadata": {"annotations": {"a": True}}},
        'invalid annotation, error: contains non-string value in the map under key "a": true is of the type bool, expected string',
    ),
    (
        "C25 no map",
        {"metadata": {"labels": "x"}},
        "invalid label, error: x is of the type string, expected map[string]interface{}",
    ),
]


@pytest.mark.parametrize(("wanted", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_what_cannot_be_compared_is_an_error(wanted: Object, message: str) -> None:
    with pytest.raises(ComparisonError) as error:
        compare(template(**wanted), widget(spec={"a": 1}), compliance=HAVE)
    assert str(error.value) == message


def test_c26_only_labels_and_annotations_of_metadata_count() -> None:
    found = compare(template(metadata={"name": "other", "finalizers": ["f"]}), widget(), compliance=HAVE)
    assert (found.mismatch, found.merged) == (False, widget())


def test_annotations_of_kubectl_and_openshift_are_no_mismatch() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    annotations = {"openshift.io/sa.scc.mcs": "s0", "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "1"}
    existing = {**namespace, "metadata": {"name": "n", "annotations": annotations}}
    wanted = {**namespace, "metadata": {"annotations": {"a": "1"}}}
    assert not compare(wanted, existing, compliance=ONLY).mismatch
    assert compare(template(metadata=wanted["metadata"]), widget(metadata=existing["metadata"]), compliance=ONLY).mismatch


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"user": "bWU="}}


def test_string_data_is_held_against_decoded_data() -> None:
    assert not compare({"stringData": {"user": "me"}}, SECRET, compliance=HAVE).mismatch
    assert compare({"stringData": {"user": "you"}}, SECRET, compliance=HAVE).mismatch


def test_data_that_is_not_base64_names_the_secret_and_not_its_data() -> None:
    with pytest.raises(ComparisonError, match=r"^Error decoding secret: s$"):
        compare({"stringData": {"user": "me"}}, {**SECRET, "data": {"user": "%%"}}, compliance=HAVE)


def test_what_is_absent_counts_as_zero_where_no_server_is_asked() -> None:
    assert matches(template(spec={"a": 0, "m": {}, "l": [], "b": False}), widget(spec={}), compliance=HAVE)
    assert not matches(template(spec={"a": 1}), widget(spec={}), compliance=HAVE)
    assert not matches(template(spec=["a"]), widget(spec={}), compliance=HAVE), "a clash of types is no match"
