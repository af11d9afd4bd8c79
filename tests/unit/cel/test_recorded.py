"""Our answers against those cel-go gave: values, costs, error texts, compile errors with their carets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cel.recorded import ask_ours, load


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
