from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.yaml import YAMLError, dump, dump_all, load, load_all


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1.0", 1),
        (".5", 0.5),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("0b101", 5),
        ("1_000", 1000),
        ("-3", -3),
        ("9223372036854775807", 9223372036854775807),
        ("18446744073709551615", 1.8446744073709552e19),
        ("1e400", "1e400"),
        ("!!binary aGk=", "hi"),
        ("!mine x", "x"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("1:30", "1:30"),
        ("yes", True),
        ("n", False),
        ("Off", False),
        ("true", True),
        ("~", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("1.2.3", "1.2.3"),
        ("{1: a, true: b, null: c}", {"1": "a", "true": "b", "null": "c"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("base: &x {a: 1, b: 2}\nc:\n  <<: *x\n  b: 3", {"base": {"a": 1, "b": 2}, "c": {"b": 3, "a": 1}}),
        ('{"a": [1, "b", null]}', {"a": [1, "b", None]}),
        ("", None),
        ("# nothing\n", None),
    ],
)
def test_yaml_means_what_its_json_would(text: str, value: Any) -> None:
    assert load(text) == value
    assert type(load(text)) is type(value)


def test_a_stream_holds_several_documents() -> None:
    assert list(load_all("a: 1\n---\nb: 2\n---\n")) == [{"a": 1}, {"b": 2}, None]


def test_a_repeated_key_is_an_error() -> None:
    with pytest.raises(YAMLError, match='line 2: key "a" already set in map'):
        load("a: 1\na: 2")


def test_repeated_keys_can_be_collected_instead() -> None:
    found: list[str] = []
    assert load("a: 1\nb:\n- c: 1\n  c: 2\na: 3", found) == {"a": 3, "b": [{"c": 2}]}
    assert found == ["b[0].c", "a"]


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\t- a", "? [a]\n: b", "!!binary '?'", "!!int x", ".inf", "\x00"])
def test_what_is_not_json_like_is_refused(text: str) -> None:
    with pytest.raises(YAMLError):
        load(text)


def test_aliases_that_multiply_are_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(YAMLError, match="excessive aliasing"):
        load("\n".join(lines))


def test_a_document_that_contains_itself_is_refused() -> None:
    with pytest.raises(YAMLError):
        load("&a [*a]")


def test_very_deep_documents_are_refused() -> None:
    with pytest.raises(YAMLError):
        load("[" * 2000 + "]" * 2000)


def test_dumps_look_like_kubectls() -> None:
    value: dict[str, object] = {
        "kind": "X",
        "apiVersion": "v1",
        "list": [1, {"b": 1, "a": "x"}],
        "empty": {},
        "none": [],
        "text": "a\nb\n",
        "n": None,
    }
    assert dump(value) == (
        'apiVersion: v1\nempty: {}\nkind: X\nlist:\n- 1\n- a: x\n  b: 1\n"n": null\nnone: []\ntext: |\n  a\n  b\n'
    )
    assert dump_all([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
    assert dump("plain") == "plain\n"


@pytest.mark.parametrize("text", ["1", "1.5", "yes", "n", "null", "~", "", "2001-01-01", "2001-01-01T00:00Z", "1:30", "0x1", "1e3"])
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert dump({"a": text}) == f'a: "{text}"\n'


printable = st.characters(codec="utf-8", exclude_characters="\x7f\x85\u2028\u2029\ufeff", min_codepoint=32, max_codepoint=0xFFFD)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(printable)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("abc1-/.: y", max_size=4), inner, max_size=3)),
    max_leaves=8,
)


@given(json_values)
def test_what_is_dumped_reads_back(value: Any) -> None:
    assert load(dump(value)) == value
