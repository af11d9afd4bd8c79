"""What `docs/troubleshooting.md` says that the programs say, they say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/troubleshooting.md"
SOURCES = [
    *(ROOT / "src/muster/administration").rglob("*.py"),
    *(ROOT / "src/muster/cli/fleet").rglob("*.py"),
]


def quoted() -> Iterator[str]:
    """The pieces of code in first columns, without what stands for details."""
    header = ""
    for before, line in zip([""] + (lines := PAGE.read_text().splitlines()), lines, strict=False):
        header = before if line.startswith("|---") else header
        if line.startswith("| ") and before.startswith("|") and header.startswith(("| message of doctor |", "| message |")):
            for text in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                yield from (piece for piece in text.split("…") if piece.strip())


def spoken() -> str:
    """All text of the programs, a line for each constant, as it is between what is filled in."""
    trees = (ast.parse(source.read_text()) for source in SOURCES)
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return "\n".join(value for value in constants if isinstance(value, str))


@pytest.fixture(scope="module")
def texts() -> str:
    return spoken()


@pytest.mark.parametrize("text", sorted(set(quoted())))
def test_a_program_says_what_the_page_quotes(text: str, texts: str) -> None:
    assert text in texts


def test_all_tables_are_read() -> None:
    assert len(set(quoted())) > 40
