"""Strict decoding of JSON bodies: refusals in the recorded words of the real server, and what the walkers do on their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode import DecodeError, Unrecognized, strict
from muster.apiserver.decode.jsonsyntax import syntax_problem
from muster.kube.schema_node import Schema

RECORDED: list[dict[str, str]] = json.loads((Path(__file__).parent / "data/refusals.json").read_text())


def schema(kind: str) -> Schema:
    return next(row.schema for row in builtin_resources() if row.kind == kind)


def verdict(sample: dict[str, str]) -> str:
    """The message of the answer under fieldValidation=Strict; empty when the body is fine."""
    kind, version = sample["kind"], sample["apiVersion"].rpartition("/")[2]
    try:
        obj, duplicates = strict.decode_json(sample["body"].encode(), find_duplicates=True)
        _, unknown = strict.decode_typed(obj, schema(kind))
    except Unrecognized as error:
        return error.message(kind)
    except DecodeError as error:
        return strict.cannot_be_handled(kind, version, str(error))
    found = strict.strict_warnings(unknown, duplicates, sample["body"].encode())
    return strict.cannot_be_handled(kind, version, f"strict decoding error: {', '.join(found)}") if found else ""


@pytest.mark.parametrize("sample", RECORDED, ids=lambda sample: sample["body"][:60] or "empty")
def test_a_body_is_judged_in_the_real_servers_words(sample: dict[str, str]) -> None:
    assert verdict(sample) == sample["message"]


def test_asking_for_unknown_fields_leaves_the_object_alone() -> None:
    obj = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "bogus": 1}]}, "bogus": {}}
    before = json.dumps(obj)
    assert strict.unknown_fields(obj, schema("Pod")) == ["spec.containers[0].bogus", "bogus"]
    assert json.dumps(obj) == before


def test_unknown_fields_are_dropped_and_reported_in_document_order() -> None:
    obj, unknown = strict.decode_typed({"zz": 1, "metadata": {"aa": 2}, "data": {"k": "v"}}, schema("ConfigMap"))
    assert obj == {"metadata": {}, "data": {"k": "v"}}
    assert unknown == ["zz", "metadata.aa"]


def test_at_most_a_hundred_problems_are_reported() -> None:
    obj: dict[str, Any] = {f"field{n}": n for n in range(250)}
    assert len(strict.decode_typed(obj, schema("ConfigMap"))[1]) == 100


def test_a_type_without_a_layout_is_left_alone() -> None:
    anything = {"spec": {"whatever": [None, 1]}}
    assert strict.decode_typed(anything, Schema({}, None, "com.example.Thing")) == (anything, [])
    assert strict.unknown_fields(anything, Schema({})) == []


def test_the_last_of_two_duplicates_wins() -> None:
    obj, duplicates = strict.decode_json(b'{"data":{"a":"1","a":"2"},"data":{"b":"3"}}', find_duplicates=True)
    assert obj == {"data": {"b": "3"}}
    assert duplicates == ["data.a", "data"]


@pytest.mark.parametrize("body", [b'{"a":1,"b":[{"c":"x"}]}', b'{"a":1}\n', '{"é":"☃"}'.encode()])
def test_a_compact_body_without_duplicates_needs_no_second_look(body: bytes) -> None:
    assert not strict.may_have_duplicates(body, json.loads(body))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"a":1e400}', "cannot unmarshal number 1e400 into Go value of type float64"),
        (b'{"a":' + b"7" * 5000 + b"}", f"cannot unmarshal number {'7' * 1000} into Go value of type float64"),
        (b'{"a":"\xff"}', "str is not valid UTF-8"),
        (b'{"a":"\\u00zz"}', "invalid escaped sequence"),
    ],
)
def test_what_is_json_and_yet_no_object_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        strict.parse(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    )
)
def test_no_problem_is_found_in_json(value: Any) -> None:
    assert syntax_problem(json.dumps(value).encode()) == ""


@given(st.binary(max_size=60))
def test_looking_for_a_syntax_problem_never_fails(text: bytes) -> None:
    assert isinstance(syntax_problem(text), str)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=4))
def test_any_object_decodes_as_a_pod_or_is_refused(obj: dict[str, Any]) -> None:
    try:
        decoded, _ = strict.decode_typed({"spec": obj, **obj}, schema("Pod"))
        again, unknown = strict.decode_typed(json.loads(json.dumps(decoded)), schema("Pod"))
        assert (again, unknown) == (decoded, [])
    except DecodeError:
        pass
