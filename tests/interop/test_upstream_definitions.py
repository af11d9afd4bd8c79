"""Our definitions and upstream's take the same objects, default them alike and keep the same fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tools.upstream_crds import compare

from muster.api.crds import definitions
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import default
from muster.kube.structural_schema.prune import prune
from muster.kube.structural_schema.validation import validate
from tests.interop.ocm import manifests
from tests.unit.api.objects import Maker

OURS = {document["metadata"]["name"]: document for document in definitions()}
NOT_OURS = {"clusterprofiles.multicluster.x-k8s.io", "clusterproperties.about.k8s.io"}
DRAWS = 40
NEWER = ("jqPathExpressions", "jsonPointers")
"""Other ways to name ignored fields, which upstream's next release has; until then jsonPaths are all there is."""
ADDED = ("sortBy", "scoreRateLimit", "lastScoreUpdateTime", "score", "placementConfiguration")
"""Fields of placements, and of a hub's, that upstream's next release has; the first two have defaults."""
OWN_OPTIONS = "driverOptions"
"""Beside an authType that may name any driver."""


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    documents = [*manifests("hub"), *manifests("agent")]
    return {
        document["metadata"]["name"]: document
        for document in documents
        if document["kind"] == "CustomResourceDefinition" and document["metadata"]["name"] not in NOT_OURS
    }


def schemas(definition: dict[str, Any]) -> dict[str, Schema]:
    return {version["name"]: Schema(version["schema"]["openAPIV3Schema"]) for version in definition["spec"]["versions"]}


def seen(document: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], bool]:
    """The object as a server with this schema stores it, and whether it takes it."""
    stored = copy.deepcopy(document)
    prune(stored, schema)
    default(stored, schema)
    return stored, not validate(stored, schema)


def as_in_the_release(raw: Any) -> Any:
    """Our schema without what is newer than the release, and with upstream's drivers alone."""
    if isinstance(raw, list):
        return [as_in_the_release(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    copied = {key: as_in_the_release(value) for key, value in raw.items()}
    properties = copied.get("properties")
    if isinstance(properties, dict) and OWN_OPTIONS in properties:
        copied["properties"] = {key: value for key, value in properties.items() if key != OWN_OPTIONS}
        copied["properties"]["authType"] = {"type": "string", "default": "csr", "enum": ["csr", "awsirsa", "grpc"]}
    if isinstance(properties, dict) and NEWER[0] in properties:
        copied["properties"] = {key: value for key, value in properties.items() if key not in NEWER}
        copied["properties"]["jsonPaths"] |= {"minItems": 1}
        copied["required"] = [*copied.get("required", ()), "jsonPaths"]
    return copied


def without_added(raw: Any) -> Any:
    """Our schema without fields that the release does not have."""
    if isinstance(raw, list):
        return [without_added(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    kept = {key: value for key, value in raw.items() if key not in ADDED or "type" not in value}
    return {key: without_added(value) for key, value in kept.items()}


def test_upstream_defines_nothing_that_ours_lacks_or_narrows(theirs: dict[str, Any]) -> None:
    assert len(theirs) >= 14
    assert [problem for name, definition in theirs.items() for problem in compare(definition, OURS[name])] == []


def test_random_objects_of_either_schema_mean_the_same_to_both(theirs: dict[str, Any]) -> None:
    for name, definition in theirs.items():
        our_schemas = {version: Schema(without_added(one.raw)) for version, one in schemas(OURS[name]).items()}
        for version, their_schema in schemas(definition).items():
            for source in (their_schema, Schema(as_in_the_release(our_schemas[version].raw))):
                for seed in range(DRAWS):
                    spec = definition["spec"]
                    document = Maker(seed).object(source.raw, f"{spec['group']}/{version}", spec["names"]["kind"])
                    assert seen(document, our_schemas[version]) == seen(document, their_schema), (name, version, seed)
