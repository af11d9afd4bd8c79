"""Addons that go from one version to the other and back are the same addons."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.api import TypedObject
from muster.api.addon import v1alpha1, v1beta1
from muster.api.addon.conversion import (
    CONFIGURATION_ANNOTATION,
    INSTALL_NAMESPACE_ANNOTATION,
    KUBE_CLIENT_SIGNER,
    NO_DEFAULT_CONFIG,
    ConversionError,
    answer_review,
    convert,
)
from muster.api.structural import object_schema
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.prune import prune
from muster.kube.structural_schema.validation import SchemaValidator
from tests.unit.api.objects import Maker

ALPHA = "addon.open-cluster-management.io/v1alpha1"
BETA = "addon.open-cluster-management.io/v1beta1"
PAIRS: list[tuple[type[TypedObject], type[TypedObject]]] = [
    (v1alpha1.ClusterManagementAddOn, v1beta1.ClusterManagementAddOn),
    (v1alpha1.ManagedClusterAddOn, v1beta1.ManagedClusterAddOn),
    (v1alpha1.AddOnDeploymentConfig, v1beta1.AddOnDeploymentConfig),
]
each_pair = pytest.mark.parametrize(("alpha", "beta"), PAIRS, ids=lambda kind: kind.__name__)
makers = st.integers(0, 1 << 32).map(Maker)


def addon(kind: str, version: str = ALPHA, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **parts}


def test_an_addon_offers_its_configurations_by_default_name() -> None:
    document = addon(
        "ClusterManagementAddOn",
        spec={
            "supportedConfigs": [
                {"group": "g", "resource": "widgets", "defaultConfig": {"name": "n", "namespace": "ns"}},
                {"group": "", "resource": "things"},
            ],
            "addOnConfiguration": {"crdName": "widgets.g"},
        },
        status={"defaultconfigReferences": [{"resource": "widgets"}]},
    )
    converted = convert(document, BETA)
    assert converted["spec"] == {
        "defaultConfigs": [
            {"group": "g", "resource": "widgets", "name": "n", "namespace": "ns"},
            {"group": "", "resource": "things", "name": NO_DEFAULT_CONFIG},
        ]
    }
    assert converted["metadata"]["annotations"] == {CONFIGURATION_ANNOTATION: '{"crdName": "widgets.g"}'}
    assert converted["status"] == {"defaultConfigReferences": [{"resource": "widgets"}]}
    assert convert(converted, ALPHA) == document


def test_an_installed_addon_keeps_its_namespace_and_registrations() -> None:
    document = addon(
        "ManagedClusterAddOn",
        spec={"installNamespace": "here"},
        status={
            "kubeClientDriver": "token",
            "registrations": [
                {"signerName": KUBE_CLIENT_SIGNER, "subject": {"user": "u", "groups": ["g"]}},
                {"signerName": "example.com/signer", "subject": {"user": "v", "organizationUnit": ["o"]}},
            ],
            "configReferences": [{"resource": "widgets", "name": "n", "desiredConfig": {"name": "n", "specHash": "1"}}],
        },
    )
    converted = convert(document, BETA)
    assert converted["metadata"]["annotations"] == {INSTALL_NAMESPACE_ANNOTATION: "here"}
    assert converted["status"] == {
        "registrations": [
            {"type": "kubeClient", "kubeClient": {"subject": {"user": "u", "groups": ["g"]}, "driver": "token"}},
            {
                "type": "customSigner",
                "customSigner": {"signerName": "example.com/signer", "subject": {"user": "v", "organizationUnits": ["o"]}},
            },
        ],
        "configReferences": [{"resource": "widgets", "desiredConfig": {"name": "n", "specHash": "1"}}],
    }
    assert convert(converted, ALPHA) == document


@pytest.mark.parametrize(
    "registration", [{"type": "kubeClient"}, {"type": "customSigner"}, {"type": "kubeClient", "kubeClient": None}]
)
def test_a_registration_without_its_member_does_not_make_the_addon_unreadable(registration: dict[str, Any]) -> None:
    document = addon("ManagedClusterAddOn", BETA, spec={}, status={"registrations": [registration]})
    read = v1alpha1.ManagedClusterAddOn.decode(convert(document, ALPHA))
    assert len(read.status.registrations) == 1


def test_an_annotation_that_somebody_spoiled_is_dropped() -> None:
    document = addon("ClusterManagementAddOn", BETA, spec={})
    document["metadata"]["annotations"] = {CONFIGURATION_ANNOTATION: "{"}
    assert convert(document, ALPHA) == addon("ClusterManagementAddOn", spec={})


FIELDS = [
    "supportedConfigs",
    "defaultConfigs",
    "defaultConfig",
    "addOnConfiguration",
    "installNamespace",
    "defaultconfigReferences",
    "registrations",
    "configReferences",
    "desiredConfig",
    "subject",
    "organizationUnit",
    "signerName",
    "type",
    "kubeClient",
    "customSigner",
    "kubeClientDriver",
    "name",
]
SPOILED = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", KUBE_CLIENT_SIGNER, "kubeClient"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("kind", ["ClusterManagementAddOn", "ManagedClusterAddOn", "AddOnDeploymentConfig"])
@pytest.mark.parametrize(("old", "new"), [("v1alpha1", "v1beta1"), ("v1beta1", "v1alpha1")])
@given(spec=SPOILED, status=SPOILED)
@settings(max_examples=60, deadline=None)
def test_whatever_was_stored_once_spoils_no_list_that_it_is_in(kind: str, old: str, new: str, spec: Any, status: Any) -> None:
    """A definition may have allowed it in an earlier version."""
    kept = {INSTALL_NAMESPACE_ANNOTATION: "ns", CONFIGURATION_ANNOTATION: "{"}
    document = {"kind": kind, "metadata": {"name": "a", "annotations": kept}, "spec": spec, "status": status}
    found = convert({**document, "apiVersion": f"{v1alpha1.GROUP}/{old}"}, f"{v1alpha1.GROUP}/{new}")
    assert found["metadata"]["name"] == "a"
    assert all(isinstance(value, str) for value in found["metadata"].get("annotations", {}).values())


def test_other_kinds_and_versions_are_refused() -> None:
    with pytest.raises(ConversionError, match="ConfigMap of v1 cannot be converted"):
        convert({"apiVersion": "v1", "kind": "ConfigMap"}, BETA)


def test_a_review_is_answered_for_all_its_objects_or_not_at_all() -> None:
    objects = [addon("AddOnDeploymentConfig", spec={}), addon("ManagedClusterAddOn", BETA, spec={})]
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    answer = answer_review({**review, "request": {"uid": "1", "desiredAPIVersion": BETA, "objects": objects}})
    assert answer["response"]["uid"] == "1"
    assert answer["response"]["result"] == {"status": "Success"}
    assert [document["apiVersion"] for document in answer["response"]["convertedObjects"]] == [BETA, BETA]
    objects.append({"apiVersion": "v1", "kind": "Secret"})
    refused = answer_review({**review, "request": {"uid": "2", "desiredAPIVersion": BETA, "objects": objects}})
    assert refused["response"]["result"]["status"] == "Failure"
    assert "Secret" in refused["response"]["result"]["message"]
    assert refused["response"]["convertedObjects"] == []


@each_pair
@settings(max_examples=40, deadline=None)
@given(maker=makers)
def test_what_is_stored_is_unchanged_by_a_visit_to_v1beta1(alpha: type[TypedObject], beta: type[TypedObject], maker: Maker) -> None:
    document = maker.object(object_schema(alpha), ALPHA, alpha.resource.kind)
    given_document = copy.deepcopy(document)
    visited = convert(document, BETA)
    assert document == given_document
    assert SchemaValidator(object_schema(beta)).errors(visited) == []
    assert prune(copy.deepcopy(visited), Schema(object_schema(beta))) == []
    kept = _without_what_controllers_write_anew(document)
    assert _without_what_controllers_write_anew(convert(visited, ALPHA)) == kept


@each_pair
@settings(max_examples=40, deadline=None)
@given(maker=makers)
def test_what_is_written_as_v1beta1_can_be_read_as_v1alpha1(
    alpha: type[TypedObject], beta: type[TypedObject], maker: Maker
) -> None:
    document = maker.object(object_schema(beta), BETA, beta.resource.kind)
    assume(not SchemaValidator(object_schema(beta)).errors(document))
    assert alpha.decode(convert(document, ALPHA)).metadata.name == "x"


def _without_what_controllers_write_anew(document: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(document)
    if not document.get("spec", {}).get("addOnConfiguration"):
        document.get("spec", {}).pop("addOnConfiguration", None)
    status = document.get("status", {})
    for field in ("addOnConfiguration", "kubeClientDriver"):
        status.pop(field, None)
    for reference in status.get("configReferences", ()):
        for field in ("name", "namespace"):
            reference.pop(field, None)
    for registration in status.get("registrations", ()):
        registration.setdefault("subject", {})
        if registration["signerName"] == KUBE_CLIENT_SIGNER:
            registration["subject"].pop("organizationUnit", None)
    return document
