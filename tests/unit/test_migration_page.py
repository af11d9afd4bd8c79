"""`docs/migration.md` names the versions that the suites build and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/migration.md"
VERSION = re.compile(
    r"^\| [^|]*`(?P<module>[\w./-]+)`[^|]* \| (?P<version>v[\d.]+) \| \[[^\]]+\]\(\.\./(?P<file>peers/[\w/.]+)\) \|$", re.M
)
FILE_OR_TEST = re.compile(r"\]\(\.\./(?P<file>tests/[^)]+)\)|`(?P<test>test_\w+)`")


def functions_in(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_versions_are_those_that_the_suites_build() -> None:
    rows = VERSION.findall(PAGE.read_text())
    assert len(rows) == 11
    wrong = [
        (module, version)
        for module, version, file in rows
        if not re.search(
            rf"^(?:require |\t){re.escape(module)} {re.escape(version)}(?: // indirect)?$", (ROOT / file).read_text(), re.M
        )
    ]
    assert wrong == []


def test_every_test_that_is_named_is_in_the_file_before_it() -> None:
    file, missing, named = PAGE, [], 0
    for found in FILE_OR_TEST.finditer(PAGE.read_text()):
        if found["file"]:
            file = ROOT / found["file"]
            continue
        named += 1
        if found["test"] not in functions_in(file):
            missing.append((file.name, found["test"]))
    assert missing == []
    assert named > 20
