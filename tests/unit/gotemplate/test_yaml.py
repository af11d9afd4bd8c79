"""YAML as yaml.v3 reads and writes it. Every expectation here was made by yaml.v3; `tests/interop/policy` compares many more."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang.json import marshal
from muster.gotemplate.golang.time import Duration, Time
from muster.gotemplate.golang.yaml import YAMLError, dump, load
from muster.gotemplate.golang.yaml.order import sorted_keys
from muster.gotemplate.golang.yaml.reader import load_by_the_book
from muster.gotemplate.values import ANY_MAP, MISSING, Float32, Int64, Map, Slice, Struct, Uint64, nil_slice

# Writing

STYLES = {
    "true": '"true"', "yes": '"yes"', "On": '"On"', "y": '"y"', "N": '"N"', "null": '"null"', "~": '"~"', "12": '"12"',
    "1.10": '"1.10"', "0x1F": '"0x1F"', "1_000": '"1_000"', "12:30:45": '"12:30:45"', "2001-01-01": '"2001-01-01"', "": '""',
    "a: b": "'a: b'", "a #b": "'a #b'", "a:": "'a:'", " x": "' x'", "x ": "'x '", "- x": "'- x'", "-x": "-x", "? x": "'? x'",
    "[x]": "'[x]'", "*x": "'*x'", "---": "'---'", "it's": "it's", "'a": "'''a'", '"a': "'\"a'", "a, b": "a, b", ".": ".",
    "=": "=", "<<": "<<", "a\tb": '"a\\tb"', "😱": '"\\U0001F631"', "é": "é", "a \nb": '"a \\nb"', "a\\b": "a\\b",
    "\ufeffa": '"\\uFEFF\\x61"', "{{ .x }}": "'{{ .x }}'", "{{ `it's` }}": "'{{ `it''s` }}'", "x {{ .y }}": "x {{ .y }}",
    "\x7f": '"\\x7F"', ".5_0": '".5_0"', "a\nb\n": "|\n  a\n  b", "a\nb": "|-\n  a\n  b", "a\n\n": "|+\n  a\n",
    "  a\nb": "|2-\n    a\n  b", "\na": "|2-\n  a", "\n": "|2+", "a\n\tb\n": "|\n  a\n  \tb", "a\u2028b": "'a\u2028  b'",
    "0b-1": '"0b-1"', "08": '"08"', "1e400": "1e400",
}  # fmt: skip
ORDER = ["_z", "9", "10", "A", "B", "a", "a-b", "a.b", "a2", "a10", "aB", "ab", "apiVersion", "b", "kind", "metadata", "spec", "é"]


@pytest.mark.parametrize(("text", "written"), STYLES.items())
def test_a_string_is_written_in_the_style_that_keeps_it(text: str, written: str) -> None:
    assert dump({"k": text}) == f"k: {written}\n"


def test_keys_are_written_in_natural_order() -> None:
    assert sorted_keys(reversed(ORDER)) == ORDER


def test_lists_are_indented_under_their_keys_and_maps_follow_dashes() -> None:
    value: dict[str, Any] = {"b": [1, {"c": "d", "e": [[], {}]}, ["x", ["y"]]], "a": {}, "n": None}
    assert dump(value) == 'a: {}\nb:\n  - 1\n  - c: d\n    e:\n      - []\n      - {}\n  - - x\n    - - "y"\n"n": null\n'


def test_a_key_of_several_lines_or_more_than_128_bytes_stands_alone() -> None:
    assert dump({"a\nb": {"x": 1, "z": [1]}}) == "? |-\n  a\n  b\n: x: 1\n  z:\n    - 1\n"
    assert dump({"k" * 128: 1}) == f"{'k' * 128}: 1\n"
    assert dump({"k" * 129: [1]}) == f"? {'k' * 129}\n: - 1\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.0, "1"), (1e6, "1e+06"), (0.1, "0.1"), (Float32(0.1), "0.1"), (math.inf, ".inf"), (-math.inf, "-.inf"),
        (math.nan, ".nan"), (Int64(5), "5"), (2**63, "9223372036854775808"), (True, "true"), (None, "null"),
        (MISSING, "null"), (Time(1709164800), "2024-02-29T00:00:00Z"), (Duration(90_000_000_000), "1m30s"),
        (b"ab", "- 97\n- 98"), (nil_slice(), "[]"), (Map((), ANY_MAP, is_nil=True), "{}"), (Slice(["a"]), "- a"),
        ((1, 2), "- 1\n- 2"), (Struct({"Name": "x", "B": 1, "hidden": 2}), "name: x\nb: 1"),
        (Map({10: "a", 9: "b"}, "map[int]string"), '9: b\n10: a'), ("caf\udce9", "!!binary Y2Fm6Q=="),
        ("a\nb", "|-\n  a\n  b"), (Map({"a": 2, 1: 1}, "map[interface {}]interface {}"), "1: 1\na: 2"),
    ],
)  # fmt: skip
def test_values_of_go_are_written_as_yaml_v3_writes_them(value: Any, written: str) -> None:
    assert dump(value) == written + "\n"


def test_what_has_no_yaml_form_is_refused() -> None:
    with pytest.raises(YAMLError, match=r"^yaml marshal error: cannot marshal type: complex128$"):
        dump({"a": 1j})


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(LimitExceeded):
        dump(value)


# Reading

SCALARS = {
    "true": "true", "True": "true", "yes": '"yes"', "on": '"on"', "~": "null", "": "null", "null": "null", "0777": "511",
    "0o17": "15", "0x1F": "31", "0b11": "3", "0b-1": "-1", "-0b11": "-3", "1_000": "1000", ".5": "0.5", "1.": "1", "+1": "1",
    "08": "8", "1e3": "1000", "1e400": '"1e400"', "18446744073709551615": "18446744073709551615",
    "18446744073709551616": "18446744073709552000", "-9223372036854775809": "-9223372036854776000",
    "2024-02-29": '"2024-02-29T00:00:00Z"', "2024-2-9": '"2024-02-09T00:00:00Z"',
    "2001-12-14t21:59:43.10-05:00": '"2001-12-14T21:59:43.1-05:00"', "2001-12-14 21:59:43": '"2001-12-14T21:59:43Z"',
    "2001-13-01": '"2001-13-01"', "12:30:45": '"12:30:45"', "1.2.3": '"1.2.3"', "'it''s'": '"it\'s"',
    '"a\\x41\\n"': '"aA\\n"', "'a\n\n  b'": '"a\\nb"', "a\n  b": '"a b"', "!!str 12": '"12"', '!!int "12"': "12",
    "!!float 1": "1", "!!binary aGk=": '"hi"', "!t x": '"x"', "<<": '"\\u003c\\u003c"',
    "[a, 'b', {c: d}]": '["a","b",{"c":"d"}]', "{a: 1, b}": '{"a":1,"b":null}', "[a: b]": '[{"a":"b"}]',
    "|\n  a\n   b\n\n": '"a\\n b\\n"', "|-\n  a\n": '"a"', "|+\n  a\n\n": '"a\\n\\n"', ">\n  a\n  b\n\n  c\n": '"a b\\nc\\n"',
    "|2\n   a\n": '" a\\n"',
}  # fmt: skip
DOCUMENTS = {
    "a: &x {b: 1}\nc: *x\n": '{"a":{"b":1},"c":{"b":1}}',
    "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\n": '{"a":{"b":1,"c":2},"d":{"b":3,"c":2}}',
    "<<: [{a: 1}, {a: 2, b: 3}]\nc: 4\n": '{"a":1,"b":3,"c":4}',
    "a: 1\n---\nb: 2\n": '{"a":1}',
    "--- a\n...\n": '"a"',
    "": "null",
    "# only a comment\n": "null",
    "a:\n- 1\n- 2\nb: 3\n": '{"a":[1,2],"b":3}',
    "- - 1\n  - 2\n-\n  - 3\n": "[[1,2],[3]]",
    "a: b # c\n# d\n\nc: |\n  # no comment\n": '{"a":"b","c":"# no comment\\n"}',
    '{"a": "\\u00e9", "b": [1.0, 1e3, -0]}': '{"a":"é","b":[1,1000,0]}',
    "? a\n: b\n": '{"a":"b"}',
    "a: {b: [1, 2], c: }\n": '{"a":{"b":[1,2],"c":null}}',
    "%TAG !e! tag:x:\n---\n!e!y z\n": '"z"',
    "\ufeffa: 1\r\nb: 2\r\n": '{"a":1,"b":2}',
}
ERRORS = {
    "a: b: c": "mapping values are not allowed in this context",
    "v: x a\nb\n": "line 2: could not find expected ':'",
    "v: 'it's'": "did not find expected key",
    "a:\n\tb: c": "line 2: found character that cannot start any token",
    "a: [b": "line 1: did not find expected ',' or ']'",
    "a: 'b": "found unexpected end of stream",
    'a: "\\q"': "found unknown escape character",
    "a: *b": "unknown anchor 'b' referenced",
    "&a [*a]": "anchor 'a' value contains itself",
    "<<: 1": "map merge requires map or sequence of maps as the value",
    "!!int x": "cannot decode !!str `x` as a !!int",
    "a: |0\n  b": "found an indentation indicator equal to 0",
    "%YAML 1.2\n---\na": "found incompatible YAML document",
    "- a\nb: c": "line 1: did not find expected '-' indicator",
    "? [a]\n: b": 'invalid map key: []interface {}{"a"}',
    "a: \x00": "control characters are not allowed",
    "a: \udcff": "invalid leading UTF-8 octet",
    "!!binary x": "!!binary value contains invalid base64 data",
    "a: 1\nb: 2\na: 3\n": 'unmarshal errors:\n  line 3: mapping key "a" already defined at line 1',
    "x: {a: 1, a: 2}\ny: {b: 1, b: 2}": "unmarshal errors:\n"
    '  line 1: mapping key "a" already defined at line 1\n  line 2: mapping key "b" already defined at line 2',
}


@pytest.mark.parametrize(("text", "value"), [*SCALARS.items(), *DOCUMENTS.items()])
def test_a_text_is_read_as_yaml_v3_reads_it(text: str, value: str) -> None:
    assert marshal(load(text)) == value
    assert marshal(load_by_the_book(text)) == value


@pytest.mark.parametrize(("text", "problem"), ERRORS.items())
def test_an_error_has_yaml_v3s_words_and_line(text: str, problem: str) -> None:
    with pytest.raises(YAMLError) as raised:
        load(text)
    assert str(raised.value) == f"yaml: {problem}"


def test_a_mapping_with_other_keys_than_strings_has_no_json_form() -> None:
    value = load("2: a\n~: c\n2.5: d\n")
    assert value == {2: "a", None: "c", 2.5: "d"}
    with pytest.raises(ValueError, match=r"^json: unsupported type: map\[interface \{\}\]interface \{\}$"):
        marshal(value)


def test_integers_beyond_an_int64_are_unsigned() -> None:
    assert load("9223372036854775808").__class__ is Uint64
    assert load("9223372036854775807").__class__ is int


def test_aliases_give_values_of_their_own() -> None:
    value = load("a: &x {b: [1]}\nc: *x\n")
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_what_follows_the_first_document_is_not_read() -> None:
    assert load("a: 1\n--- [\n") == {"a": 1}


# Hostile texts


def test_aliases_that_multiply_are_refused_before_they_are_built() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    start = time.process_time()
    with pytest.raises(YAMLError, match=r"^yaml: document contains excessive aliasing$"):
        load("\n".join(lines))
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{a: " * 5000, "- " * 5000, "".join(" " * depth + "a:\n" for depth in range(2000)), "? " * 5000]
)
def test_deep_nesting_is_an_error_and_no_crash(text: str) -> None:
    with pytest.raises(YAMLError):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n" * 12_000,
        "".join(f"k{number}: |\n  text\n" for number in range(12_000)),
        "a: '" + "x y " * 50_000 + "'",
        "a:" + " b" * 60_000,
        "[" + "a, " * 20_000 + "]",
        "# c\n" * 100_000,
        "a: |\n" + "  x\n\n" * 30_000,
        "\n" * 100_000 + "a",
        "!!str " + "%41" * 50_000 + " x",
        '"' + "\\n" * 100_000 + '"',
        "x" * 600_000 + "\x00",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    start = time.process_time()
    problems = []
    for read in (load, load_by_the_book):
        try:
            read(text)
        except YAMLError as error:
            problems.append(str(error))
    assert all(len(problem) < 20_000 for problem in problems)
    assert time.process_time() - start < 10


# Properties

SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
TEXTS = st.text(alphabet="ab1 :#-'\"\n\t.,{}[]\\é_|>&*!?%~\r\u2028<=", max_size=60)
PLAIN_LINES = st.lists(
    st.sampled_from(
        [
            "a: b",
            "- a: 1",
            "  b: c",
            "- x",
            "  - y",
            "c:",
            "d: |",
            "    text",
            "",
            "# c",
            "e: 'q' # c",
            'f: "g\\n"',
            "  h: [1, a]",
            "- ",
            "  ",
        ]
    ),
    max_size=8,
).map("\n".join)


def _lossless(value: Any) -> bool:
    """Whether no string in it starts with a line break and is written as a literal, which loses it."""
    if isinstance(value, dict):
        return all(_lossless(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return all(map(_lossless, value))
    return not (isinstance(value, str) and value[:1] in ("\n", "\u2028", "\u2029"))


def _alike(value: Any) -> Any:
    """Floats without a fraction are read as integers where they are written as such."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _alike(item) for key, item in value.items()}
    return [_alike(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(VALUES.filter(_lossless))
def test_what_is_written_is_read_again_as_it_was(value: Any) -> None:
    assert _alike(load(dump(value))) == _alike(value)


@settings(max_examples=300, deadline=None)
@given(TEXTS | PLAIN_LINES)
def test_both_readers_agree_on_every_text(text: str) -> None:
    results = []
    for read in (load, load_by_the_book):
        try:
            results.append(repr(read(text)))
        except YAMLError as error:
            results.append(str(error))
    assert results[0] == results[1]


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_json_is_read_as_the_value_that_was_written(value: Any) -> None:
    text = json.dumps(value)
    if "\\ud" not in text and "\x7f" not in text:
        assert _alike(load(text)) == _alike(json.loads(text))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="aB09-._1/"), min_size=2, max_size=2))
def test_the_quick_order_of_ascii_keys_is_the_order(pair: list[str]) -> None:
    # A key that is not ASCII makes the whole list be compared rune by rune; it comes last.
    assert sorted_keys(pair) == sorted_keys([*pair, "zé"])[:2]
