"""Templates that mean harm end in an error, in bounded time and memory; no text makes the parser do anything else."""

from __future__ import annotations

import contextlib
import resource
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.gotemplate import ExecError, LimitError, Limits, ParseError, Template, TemplateError, parse
from muster.gotemplate.values import Struct

LIMITS = Limits(output_bytes=1 << 20, steps=200_000, depth=100, seconds=3.0)
DOUBLING = '{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range until 60 }}{{ $x = CALL }}{{ end }}{{ $x | len }}'

HOSTILE = {
    "a range over a billion": "{{ range 1000000000 }}x{{ end }}",
    "ranges within ranges": "{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}{{ end }}",
    "much text in small loops": "{{ range 400 }}{{ range 400 }}" + "y" * 5000 + "{{ end }}{{ end }}",
    "a long list of numbers": "{{ until 1000000000 | len }}",
    "a long sequence": "{{ untilStep 0 1000000000 1 | len }}{{ seq 1 1000000000 | len }}",
    "a gigantic repeat": '{{ repeat 1000000000 "abc" }}',
    "repeats of repeats": '{{ repeat 100000 "abc" | repeat 100000 }}',
    "a string doubled by printf": DOUBLING.replace("CALL", 'printf "%s%s" $x $x'),
    "a string doubled by print": DOUBLING.replace("CALL", "print $x $x"),
    "a string doubled by cat": DOUBLING.replace("CALL", "cat $x $x"),
    "a string doubled by replace": DOUBLING.replace("CALL", 'replace "a" "aa" $x'),
    "a string doubled by join": DOUBLING.replace("CALL", 'join "" (list $x $x)'),
    "a string grown by b64enc": DOUBLING.replace("until 60", "until 400").replace("CALL", "b64enc $x"),
    "a string grown by indent": DOUBLING.replace("CALL", 'indent 99999 (printf "%s\\n" $x)'),
    "a string grown by regexReplaceAll": DOUBLING.replace("CALL", 'regexReplaceAll "a" $x "aa"'),
    "a string grown by toJson": DOUBLING.replace("CALL", "toJson (list $x $x)"),
    "a list doubled": "{{ $x := list 1 2 }}{{ range until 60 }}{{ $x = concat $x $x }}{{ end }}{{ $x | len }}",
    "a value shared many times": (
        '{{ $x := dict "a" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ $x }}'
    ),
    "a shared value as JSON": (
        '{{ $x := dict "a" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x | len }}'
    ),
    "a shared value copied": (
        '{{ $x := dict "a" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ deepCopy $x | len }}'
    ),
    "a shared value compared": (
        '{{ $x := dict "a" 1 }}{{ $y := dict "a" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}'
        '{{ $y = dict "a" $y "b" $y }}{{ end }}{{ deepEqual $x $y }}'
    ),
    "a value that contains itself": '{{ $x := dict }}{{ $_ := set $x "me" $x }}{{ $x }}',
    "such a value copied": '{{ $x := dict }}{{ $_ := set $x "me" $x }}{{ deepCopy $x }}',
    "such a value merged": '{{ $x := dict "a" 1 }}{{ $_ := set $x "me" $x }}{{ merge (deepCopy $x) $x }}',
    "a template that calls itself": '{{ define "T" }}{{ template "T" . }}{{ end }}{{ template "T" }}',
    "a template that calls itself twice": (
        '{{ define "T" }}{{ if . }}{{ template "T" (rest .) }}{{ template "T" (rest .) }}{{ end }}{{ end }}'
        '{{ template "T" (until 60) }}'
    ),
    "a wide format": '{{ range until 1000 }}{{ printf "%999999d" 1 }}{{ end }}',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends_in_an_error_within_the_limits(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    with pytest.raises(TemplateError):
        Template(HOSTILE[name], limits=LIMITS).render({})
    assert time.monotonic() - start < LIMITS.seconds + 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_a_template_that_contains_itself_as_json_gives_nothing_as_in_go() -> None:
    assert Template('{{ $x := dict }}{{ $_ := set $x "me" $x }}[{{ toJson $x }}]').render() == "[]"


@pytest.mark.parametrize(
    ("inner", "named"),
    [("$", "map[string]interface {}"), ("(list (list $))", "[]interface {}")],
)
def test_structs_are_no_level_of_a_cycle_in_json_as_in_go(inner: str, named: str) -> None:
    with pytest.raises(ExecError) as caught:
        Template(f'{{{{ $_ := set .M "me" {inner} }}}}{{{{ mustToJson . }}}}').render(Struct({"Name": "n", "M": {}}))
    assert str(caught.value.__cause__) == f"json: unsupported value: encountered a cycle via {named}"


@pytest.mark.parametrize(
    ("limits", "text", "reason"),
    [
        (Limits(steps=100), "{{ range 1000 }}{{ end }}", "limit of 100 steps"),
        (Limits(output_bytes=10), "{{ range 20 }}x{{ end }}", "limit of 10 bytes of output"),
        (Limits(seconds=0.05), "{{ range 100000 }}{{ range 100 }}{{ end }}{{ end }}", "limit of 0.05 seconds"),
    ],
)
def test_a_limit_error_says_which_limit(limits: Limits, text: str, reason: str) -> None:
    with pytest.raises(LimitError, match=reason):
        Template(text, limits=limits).render()


def test_a_limit_error_has_a_place() -> None:
    with pytest.raises(LimitError) as failure:
        Template('ab\n{{ repeat 99999999 "x" }}').render()
    assert (failure.value.line, failure.value.column) == (2, 3)


def test_recursion_is_bounded_by_depth_with_gos_words() -> None:
    text = '{{ define "T" }}{{ template "T" . }}{{ end }}{{ template "T" }}'
    with pytest.raises(TemplateError, match=r"exceeded maximum template depth \(50\)"):
        Template(text, limits=Limits(depth=50)).render()


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ if 1 }}" * 5000 + "{{ end }}" * 5000,
        "{{ if 0 }}" + "{{ else if 0 }}" * 5000 + "{{ end }}",
        "{{ with 1 }}" * 300 + "{{ end }}" * 300,
        '{{ block "x" . }}' * 3000 + "{{ end }}" * 3000,
    ],
    ids=["parentheses", "ifs", "else ifs", "withs", "blocks"],
)
def test_deep_nesting_is_refused_when_parsed(text: str) -> None:
    with pytest.raises(ParseError, match=r"too deeply|max expression depth exceeded"):
        Template(text)


def test_a_template_of_too_many_tokens_is_refused() -> None:
    with pytest.raises(ParseError, match="the template is too large"):
        Template("{{ 1 }}\n" * 30_000)


def test_long_templates_are_no_deep_ones() -> None:
    assert Template("{{ 1 }}" * 5000).render() == "1" * 5000
    assert Template("{{ if 0 }}" + "{{ else if 0 }}" * 150 + "{{ else }}x{{ end }}").render() == "x"
    assert Template("{{ 1" + " | print" * 90 + " }}").render() == "1"


def test_a_regular_expression_cannot_backtrack() -> None:
    start = time.monotonic()
    assert Template('{{ regexMatch "^(a+)+$" (printf "%s!" (repeat 50000 "a")) }}').render() == "false"
    assert Template('{{ regexMatch "(x+x+)+y" (repeat 20000 "x") }}').render() == "false"
    assert time.monotonic() - start < 3


PIECES = [
    "{{", "}}", "{{-", "-}}", "/*", "*/", '"', "`", "'", "(", ")", "|", "$", "$x", ".", ".a", ":=", "=", ",", " ", "\n",
    "if", "else", "end", "range", "with", "define", "template", "block", "break", "continue", "nil", "true", "0x1p", "1e",
    "1_0", "i", "+", "-", "\\", "é", "\0", "\udcff", "print", "eq", "upper", "x", "0", "9", "#", "😀", "\r", "\t",
]  # fmt: skip
soup = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(max_examples=1500, deadline=None)
@given(soup)
def test_no_text_makes_the_parser_raise_anything_else(text: str) -> None:
    failure = None
    try:
        parse(text)
    except TemplateError as error:
        failure = error
    assert failure is None or (failure.line >= 1 and str(failure).startswith("template: tmpl:"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=600, deadline=None)
@given(soup.map(lambda body: "{{ " + body + " }}"), values)
def test_no_execution_raises_anything_else(text: str, data: Any) -> None:
    with contextlib.suppress(TemplateError):
        Template(text, limits=LIMITS).render(data)


@settings(max_examples=400, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_text_without_actions_is_itself(text: str) -> None:
    if "{{" not in text:
        assert Template(text).render_bytes() == text.encode()


@settings(max_examples=400, deadline=None)
@given(values)
def test_any_value_prints(value: Any) -> None:
    assert isinstance(Template('{{ . }}{{ printf "%v %d %s %q %x %#v %T" . . . . . . . }}').render(value), str)
