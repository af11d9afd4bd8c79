"""The table of cases of registration by AWS identities names tests that are there, and forgets none of the stories' own."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_case_is_shown_by_tests_that_are_there():
    rows = [line for line in (TESTS / "e2e/aws/README.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for file, name in named:
            assert name in functions(TESTS / file), f"{file}::{name}"


def test_every_story_is_a_case():
    named = {name for _, name in NAMED.findall((TESTS / "e2e/aws/README.md").read_text())}
    told = {name for path in (TESTS / "e2e/aws").glob("test_*.py") for name in functions(path) if name.startswith("test_")}
    assert told - named == set()
