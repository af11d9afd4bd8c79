"""Python before 3.11.5 (Debian 12 has 3.11.2) matches possessive repeats and atomic groups wrongly: nothing may depend on them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import regular_expressions


@pytest.fixture(scope="module")
def without() -> dict[str, list[str]]:
    command = [sys.executable, "-m", regular_expressions.__name__]
    found: dict[str, list[str]] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def test_no_expression_that_old_pythons_match_wrongly_is_compiled_there(without: dict[str, list[str]]) -> None:
    assert without["expressions"] == []


def test_yaml_is_the_same_without_them(without: dict[str, list[str]]) -> None:
    assert without["yaml"] == regular_expressions.yaml()


@pytest.mark.parametrize("pattern", ["a++", "a*+b", "a?+", "a{2,3}+", "(?>a|b)c", "x(?:[^:]++|y)*"])
def test_the_guard_knows_possessive_repeats_and_atomic_groups(pattern: str) -> None:
    assert regular_expressions.is_wrong(pattern)
    assert list(regular_expressions.in_calls(f"def f(x): return re.sub({pattern!r}, '', x)")) == [pattern]


@pytest.mark.parametrize("pattern", ["[a*+]", r"a\\+", "a+", "(?:ab)*", "a{2}"])
def test_the_guard_lets_others_pass(pattern: str) -> None:
    assert not regular_expressions.is_wrong(pattern)
