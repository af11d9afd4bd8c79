"""Verdicts over CustomResourceDefinitions, against the answers a real server gave to the same definitions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.apiserver.builtin.defaults import DEFAULTS
from muster.apiserver.crd.definition import check_definition, check_status, definition_warnings, internal_form, prepare
from tests.differential import golden
from tests.differential.cases.definitions import GROUPS, base, obj, put, two

DEFAULT = DEFAULTS["apiextensions.k8s.io", "v1", "CustomResourceDefinition"]
ANSWERS = golden.load("definitions")
JUDGED = [
    pytest.param(body, answer["body"], id=f"{group}: {name}")
    for group, bodies in GROUPS.items()
    for (name, body), answer in zip(bodies.items(), ANSWERS[f"definitions: {group}"], strict=True)
]


def received(body: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """A definition as it reaches validation: defaulted and prepared."""
    definition = copy.deepcopy(body)
    DEFAULT(definition)
    prepare(definition, old)
    return definition


def established(body: dict[str, Any]) -> dict[str, Any]:
    definition = received(body)
    definition["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return definition


@pytest.mark.parametrize(("body", "answer"), JUDGED)
def test_a_definition_gets_the_recorded_verdict(body: dict[str, Any], answer: dict[str, Any]) -> None:
    definition = received(body)
    errors = sorted([error.reason, error.field, error.body] for error in check_definition(definition, None))
    assert errors == [list(cause) for cause in answer.get("causes", [])]
    if not errors:
        assert definition["status"] == answer["status"]


def test_scope_and_kind_are_fixed_once_established() -> None:
    old = established(base())
    new = received(put("spec.scope", "Namespaced"), old)
    new["spec"]["names"]["kind"] = "Other"
    assert [str(error) for error in check_definition(new, old)] == [
        'spec.scope: Invalid value: "Namespaced": field is immutable',
        'spec.names.kind: Invalid value: "Other": field is immutable',
    ]


def test_scope_may_change_before_that() -> None:
    old = received(base())
    assert check_definition(received(put("spec.scope", "Namespaced"), old), old) == []


def test_group_and_plural_never_change() -> None:
    old = received(base())
    new = received(put("spec.group", "other.example.com"), old)
    assert [str(error) for error in check_definition(new, old)] == [
        'spec.group: Invalid value: "other.example.com": field is immutable'
    ]


def test_a_former_storage_version_must_stay() -> None:
    old = established(base())
    new = received(put("spec.versions.0.name", "v2"), old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    (error,) = check_definition(new, old)
    assert str(error).startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously')


def test_an_update_keeps_the_status_the_server_wrote() -> None:
    old = established(base())
    new = received({**base(), "status": {"storedVersions": ["forged"]}}, old)
    assert new["status"] == old["status"]


def test_a_certificate_bundle_is_checked_once_established() -> None:
    config = {"url": "https://x", "caBundle": "bm90IGEgY2VydA=="}
    body = put("spec.conversion", {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}})
    assert check_definition(received(body), None) == []
    old = established(base())
    (error,) = check_definition(received(body, old), old)
    assert error.field == "spec.conversion.webhookClientConfig.caBundle"


def test_status_updates_check_the_accepted_names() -> None:
    definition = established(base())
    definition["status"]["acceptedNames"] = {"plural": "A_b", "kind": "X", "listKind": "X"}
    assert [error.field for error in check_status(definition)] == ["status.acceptedNames.plural", "status.acceptedNames.listKind"]


def test_unknown_formats_of_strings_are_warned_about_once() -> None:
    body = base(obj({"a": {"type": "string", "format": "foo"}, "b": {"type": "integer", "format": "int32"}}))
    assert definition_warnings(body, None) == ['unrecognized format "foo"']
    assert definition_warnings(body, body) == []


def test_what_all_versions_share_moves_to_the_top() -> None:
    form = internal_form(two(lambda second: second.update(subresources={"status": {}}))["spec"])
    assert form["validation"] == {"openAPIV3Schema": obj({"spec": obj({"a": {"type": "string"}})})}
    assert [version.get("subresources") for version in form["versions"]] == [None, {"status": {}}]
