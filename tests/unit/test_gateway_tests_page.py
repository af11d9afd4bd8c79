"""`docs/gateway-tests.md` names tests that exist, for every scenario."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/gateway-tests.md"
FILE_OR_TEST = re.compile(r"\]\(\.\./(?P<file>[^)]+)\)|`(?P<test>test_\w+)`")
ROW = re.compile(r"^\| ([ABCD]\d+(?:, [ABCD]\d+)*)? ?\| .* \| (.+) \|$", re.MULTILINE)
SCENARIOS = {"A": 7, "B": 10, "C": 5, "D": 17}


def functions_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_scenario_has_a_row_and_every_row_a_test() -> None:
    rows = [(row, tests) for row, tests in ROW.findall(PAGE.read_text()) if tests != "tests"]
    numbers = {number for row, _ in rows for number in row.split(", ")} - {""}
    assert numbers == {f"{letter}{number}" for letter, last in SCENARIOS.items() for number in range(1, last + 1)}
    assert [row for row, tests in rows if "`test_" not in tests] == []


def test_every_test_that_is_named_is_in_the_file_before_it() -> None:
    file, missing = PAGE, []
    for found in FILE_OR_TEST.finditer(PAGE.read_text()):
        if found["file"]:
            file = ROOT / found["file"]
            assert file.is_file(), file
        elif found["test"] not in functions_in(file):
            missing.append((file.name, found["test"]))
    assert missing == []
