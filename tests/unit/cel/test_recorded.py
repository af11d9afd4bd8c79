"""Our answers against those cel-go gave: values, costs, error texts, compile errors with their carets."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cel import STATIC_COST_LIMIT, cost_complaint, from_structural_schema, maximum_cardinality
from tests.unit.cel.recorded import ask_ours, load, worst_case

FILES = ("language", "libraries", "schemas", "roots")


def _cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["expr"]) for case in load(name)]


@pytest.mark.parametrize("case", _cases("language"))
def test_the_language_answers_as_cel_go_does(case: dict[str, Any]) -> None:
    assert ask_ours(case) == case["answer"]


@pytest.mark.parametrize("case", _cases("mistakes"))
def test_mistakes_are_reported_as_cel_go_reports_them(case: dict[str, Any]) -> None:
    assert ask_ours(case) == case["answer"]


@pytest.mark.parametrize("case", _cases("libraries"))
def test_the_libraries_answer_as_kubernetes_does(case: dict[str, Any]) -> None:
    assert ask_ours(case) == case["answer"]


@pytest.mark.parametrize("case", _cases("schemas"))
def test_declared_data_answers_as_custom_resources_do(case: dict[str, Any]) -> None:
    assert ask_ours(case) == case["answer"]


@pytest.mark.parametrize("case", _cases("roots"))
def test_resource_roots_show_type_and_name(case: dict[str, Any]) -> None:
    assert ask_ours(case) == case["answer"]


@pytest.mark.parametrize("name", FILES)
def test_the_worst_case_is_estimated_as_kubernetes_does(name: str) -> None:
    estimated = {case["expr"]: (case["worst"], worst_case(case)) for case in load(name) if case["worst"] is not None}
    assert len(estimated) > 3
    assert {expr: pair for expr, pair in estimated.items() if pair[0] != pair[1]} == {}


def test_unbounded_loops_are_told_by_their_estimate() -> None:
    items = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
    question = {"schema": items, "expr": "self.all(a, self.all(b, a == b))"}
    assert worst_case(question) > STATIC_COST_LIMIT
    bounded = {"type": "array", "maxItems": 5, "items": {"type": "array", "maxItems": 5, "items": {"type": "string"}}}
    assert worst_case({**question, "schema": bounded}) < STATIC_COST_LIMIT


def test_the_smaller_a_value_the_more_of_it_fit_a_request() -> None:
    small = from_structural_schema({"type": "integer"})
    large = from_structural_schema({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}})
    assert small is not None
    assert large is not None
    assert maximum_cardinality(small) == 1572864
    assert maximum_cardinality(large) == 241979


@pytest.mark.parametrize(
    ("cost", "factor"),
    [(10_000_001, "1.000000x"), (12_000_000, "1.200000x"), (25_000_000, "2.5x"), (10**10, "more than 100x")],
)
def test_the_excess_of_an_estimate_is_put_into_words(cost: int, factor: str) -> None:
    assert cost_complaint("estimated rule cost", cost, STATIC_COST_LIMIT) == (
        f"estimated rule cost exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems,"
        " maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
