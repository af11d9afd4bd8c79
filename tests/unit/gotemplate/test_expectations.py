"""Every stored case gives what Go gave: output or error text, word for word."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from muster.gotemplate import Template, TemplateError
from tests.unit.gotemplate.cases import DATA, Case, all_cases

STORED: dict[str, Any] = json.loads(Path(__file__).with_name("expectations.json").read_text())
CASES = all_cases()


def result(case: Case) -> dict[str, str]:
    """What we make of the case, in the notation of the stored replies."""
    try:
        template = Template(case.text, delims=(case.left, case.right), sprig=not case.plain, missing_key=case.missing or "default")
        output = template.render_bytes(copy.deepcopy(DATA[case.data]))
    except TemplateError as error:
        # Stored errors went through JSON, in which bytes that are not UTF-8 are U+FFFD.
        return {"e": re.sub("[\udc80-\udcff]", "�", str(error))}
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return {"x": output.hex()}
    return {"o": text} if text else {}


def test_expectations_name_the_go_that_made_them_and_are_many() -> None:
    assert STORED["go"].startswith("go1.")
    assert STORED["sprig"] == "v3.3.0"
    assert len(STORED["cases"]) >= 400


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_case_gives_what_go_gave(number: int) -> None:
    expected = dict(STORED["cases"][number])
    assert expected.pop("t") == CASES[number].text, "run tools/gotemplate_expectations.py: the cases have changed"
    assert result(CASES[number]) == expected
