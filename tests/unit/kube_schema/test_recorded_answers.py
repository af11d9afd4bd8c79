"""The schema engine against answers recorded from a real kube-apiserver (see recorder.py): same verdicts, same words."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from muster.kube.fielderrors import FieldError
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import default
from muster.kube.structural_schema.embedded import check_embedded, coerce
from muster.kube.structural_schema.formats import format_check
from muster.kube.structural_schema.listtypes import duplicates
from muster.kube.structural_schema.prune import prune, unknown_field
from muster.kube.structural_schema.validation import validate
from tests.unit.kube_schema.recorder import RECORDED, TEXTS

ANSWERS = orjson.loads(RECORDED.read_bytes())
TOO_BIG = 12345678901234567890
"""The real server turns an integer beyond 64 bits into a float when it decodes it, before any schema is asked."""


def resource(schema: dict[str, Any]) -> Schema:
    return Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"v": schema}}}})


def thing(value: Any) -> dict[str, Any]:
    return {
        "apiVersion": "recorder.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"v": copy.deepcopy(value)},
    }


def causes(errors: list[FieldError]) -> list[list[str]]:
    return sorted([error.reason, error.field, error.body] for error in errors)


@pytest.mark.parametrize(("schema", "value", "answer"), ANSWERS["values"])
def test_a_new_object_gets_the_recorded_verdict(schema: dict[str, Any], value: Any, answer: dict[str, Any]) -> None:
    node, obj = resource(schema), thing(value)
    unknown = prune(obj, node)
    more_unknown, malformed = coerce(obj, node)
    default(obj, node)
    if malformed is not None:
        assert answer["status"] == 400
        assert answer["message"].endswith(f": {malformed}")
        return
    assert causes(validate(obj, node) + check_embedded(obj, node) + duplicates(obj, node)) == sorted(answer["causes"])
    quoted = [unknown_field(path).replace('"', '\\"') for path in unknown + more_unknown]
    assert [f'299 - "{text}"' for text in quoted] == answer["warnings"]
    if answer["status"] == 201 and value != TOO_BIG:
        assert obj["spec"].get("v", "(absent)") == answer["v"]


@pytest.mark.parametrize(("name", "accepted"), ANSWERS["formats"].items())
def test_a_format_accepts_the_recorded_texts(name: str, accepted: list[str]) -> None:
    check = format_check(name)
    assert [text for text in TEXTS if check is None or check(text)] == accepted


@pytest.mark.parametrize(("schema", "old", "new", "expected"), ANSWERS["ratchets"])
def test_an_update_is_not_refused_for_what_it_left_alone(
    schema: dict[str, Any], old: Any, new: Any, expected: list[list[str]]
) -> None:
    node, before, after = resource(schema), thing(old), thing(new)
    errors = validate(after, node, before)
    if not duplicates(before, node):
        errors += duplicates(after, node)
    assert causes(errors) == sorted(expected)
