"""What holds for every text and every input."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cel import DYN, CelError, CompileError, Environment, EvaluationError, from_structural_schema

ENV = Environment({"a": DYN, "b": DYN, "c": DYN})
_TOKENS = """
a b c ( ) [ ] { } . , ? : ! - + * / % < <= > >= == != && || in 1 2u 0.5 'x' b'y' true null has all map size string int x.y
.? [? r'z' "q" @ ` \\ '' timestamp duration matches optional.of format exists filter // 'open
"""
TOKENS = st.sampled_from(_TOKENS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abck"), inner, max_size=3),
    max_leaves=8,
)

_OPERATORS = "+ - * / % < <= > >= == != && || in"
_CALLS = """
size() isSorted() sum() max() first() hasValue() value() lowerAscii() trim() flatten() sort() distinct() reverse()
getHours() join() split('x') charAt(0) substring(1) indexOf('x') matches('x') find('x') orValue(1) or(a) format([a])
isInteger() major() family() masked() getHost() unwrapOpt()
"""
_CONVERSIONS = """
int uint double string bytes bool type dyn timestamp duration size optional.of quantity ip cidr url semver isIP
"""
_SIMPLE = "a b c 1 -1 2u 1.5 'x' '1h' b'z' true false null [] {} [1,2] {'k':1}"
_LEAVES = st.sampled_from(_SIMPLE.split())
_BINARY = st.sampled_from(_OPERATORS.split())
_METHODS = st.sampled_from(_CALLS.split())
_FUNCTIONS = st.sampled_from(_CONVERSIONS.split())
_LOOPS = st.sampled_from(["all", "exists", "exists_one", "map", "filter", "sortBy"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, _BINARY, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("(dyn({})).{}".format, inner, _METHODS),
        st.builds("{}(dyn({}))".format, _FUNCTIONS, inner),
        st.builds("(dyn({})).{}(k, {})".format, inner, _LOOPS, inner),
        st.builds("(dyn({})).transformMap(i, v, {})".format, inner, inner),
        st.builds("(dyn({})).k".format, inner),
        st.builds("(dyn({})).?k".format, inner),
        st.builds("has((dyn({})).k)".format, inner),
        st.builds("(dyn({}))[{}]".format, inner, inner),
        st.builds("(dyn({}))[?{}]".format, inner, inner),
        st.builds("[dyn({}), dyn({})]".format, inner, inner),
        st.builds("{{'k': dyn({})}}".format, inner),
        st.builds("!{}".format, inner),
        st.builds("-({})".format, inner),
    )


EXPRESSIONS = st.recursive(_LEAVES, _compound, max_leaves=6)


@given(st.text(max_size=60))
def test_no_text_makes_compilation_raise_anything_but_compile_errors(text: str) -> None:
    with suppress(CompileError):
        ENV.compile(text)


@given(st.lists(TOKENS, max_size=14).map(" ".join))
@settings(max_examples=400)
def test_no_sequence_of_tokens_makes_compilation_raise_anything_but_compile_errors(text: str) -> None:
    with suppress(CompileError):
        ENV.compile(text)


@given(EXPRESSIONS, JSON, JSON, JSON)
@settings(max_examples=500, deadline=None)
def test_no_input_makes_evaluation_raise_anything_but_cel_errors(text: str, a: Any, b: Any, c: Any) -> None:
    with suppress(CelError):
        ENV.compile(text).evaluate({"a": a, "b": b, "c": c})


SCHEMA = from_structural_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "b": {"type": "object", "additionalProperties": {"type": "number"}},
            "c": {"type": "string", "format": "date-time"},
            "k": {"x-kubernetes-int-or-string": True},
        },
    }
)
assert SCHEMA is not None
DECLARED = Environment({"self": SCHEMA})


@given(
    st.sampled_from(
        [
            "self.a.all(x, x.startsWith('a'))",
            "self.a + ['q'] == ['q'] + self.a",
            "self.b.all(k, v, v > 0.5)",
            "self.b['k'] + self.b.a > 1.0",
            "self.c.getFullYear() > 2000",
            "self.k == 1 || self.k == 'a'",
            "self.?c.hasValue() && self == self",
            "dyn(self).map(k, dyn(self)[k]).size() > 0",
            "'%s'.format([self.a])",
        ]
    ),
    JSON,
)
@settings(max_examples=300, deadline=None)
def test_data_that_breaks_its_schema_gives_cel_errors(text: str, value: Any) -> None:
    with suppress(CelError):
        DECLARED.compile(text).evaluate({"self": value})


@given(st.lists(st.booleans() | st.none(), min_size=1, max_size=6))
def test_logic_does_not_depend_on_the_order_of_errors(operands: list[bool | None]) -> None:
    """None stands for an operand that fails."""
    texts = ["1 / 0 == 1" if operand is None else str(operand).lower() for operand in operands]
    for operator, deciding in (("&&", False), ("||", True)):
        program = ENV.compile(f" {operator} ".join(texts))
        if deciding in operands:
            assert program.evaluate({}) is deciding
        elif None in operands:
            with pytest.raises(EvaluationError, match="division by zero"):
                program.evaluate({})
        else:
            assert program.evaluate({}) is (not deciding)
