"""The definitions that come out of the types are ones an API server stores and kubectl shows well."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from muster.api import crds
from muster.api.crds import ALL, ConversionWebhook, Definition, definitions
from muster.api.markers import REQUIRED, Int32, Time, default, keyed_by, length, one_of
from muster.api.resource import Record
from muster.api.structural import object_schema
from muster.apiserver.crd.definition import check_definition, prepare
from muster.kube import yaml

each_definition = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
WEBHOOK = ConversionWebhook(ca_bundle="", service="webhook", namespace="hub")


class Part(Record):
    """One part."""

    key: Annotated[str, length(1, 5)]
    since: Time = ""


class Whole(Record):
    """A whole
    of parts."""

    size: Int32 = 7
    mode: Annotated[str, one_of("A", "B"), REQUIRED] = "A"
    parts: Annotated[tuple[Part, ...], keyed_by("key")] = ()
    part: Annotated[Part | None, default({"key": "k"})] = None


def test_types_marks_and_defaults_make_the_schema() -> None:
    part = {
        "type": "object",
        "description": "One part.",
        "properties": {
            "key": {"type": "string", "minLength": 1, "maxLength": 5},
            "since": {"type": "string", "format": "date-time"},
        },
        "required": ["key"],
    }
    assert object_schema(Whole) == {
        "type": "object",
        "description": "A whole\nof parts.",
        "properties": {
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
            "part": {**part, "default": {"key": "k"}},
            "parts": {"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
            "size": {"type": "integer", "format": "int32", "default": 7},
        },
        "required": ["mode"],
    }


@each_definition
def test_a_server_finds_nothing_wrong_with_the_definition(kind: Definition) -> None:
    for webhook in (None, WEBHOOK):
        [document] = definitions([kind], webhook)
        prepare(document, None)
        assert [str(error) for error in check_definition(document, None)] == []


@each_definition
def test_every_kind_explains_itself(kind: Definition) -> None:
    for version in kind.versions:
        schema = object_schema(version)
        assert schema["description"]
        assert all("description" in schema["properties"][part] for part in ("spec", "status") if part in schema["properties"])


def test_no_kind_is_defined_twice() -> None:
    names = [kind.name for kind in ALL]
    assert len(names) == len(set(names))


def test_versions_that_differ_are_converted_by_the_webhook_and_only_those() -> None:
    converted = {document["metadata"]["name"] for document in definitions(webhook=WEBHOOK) if "conversion" in document["spec"]}
    assert converted == {
        "clustermanagementaddons.addon.open-cluster-management.io",
        "managedclusteraddons.addon.open-cluster-management.io",
    }
    for kind in ALL:
        schemas = [object_schema(version) for version in kind.versions]
        assert kind.converted == any(schema != schemas[0] for schema in schemas)


def test_the_command_prints_the_definitions_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["managedclusters", "klusterlets"]) == 0
    printed: list[Any] = list(yaml.load_all(capsys.readouterr().out))
    assert [document["spec"]["names"]["kind"] for document in printed] == ["ManagedCluster", "Klusterlet"]
    assert printed == definitions(kind for kind in ALL if kind.resource.plural in ("managedclusters", "klusterlets"))


def test_the_command_names_what_there_is_when_asked_for_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["pods"]) == 1
    said = capsys.readouterr().err
    assert "no definition of pods" in said
    assert "managedclusters" in said
