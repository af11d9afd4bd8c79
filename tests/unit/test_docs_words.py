"""Pages lead somewhere, and are read without knowing our former words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
FORMER = re.compile(
    r"\b(ground|grounds|the house|table of contents|elsewhere|heed|heeds|keeper|seam|way to the hub|fares?|faring"
    r"|says|said|tells|told|whoever|nobody|somebody|strangers?|newcomers?)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page: Path) -> None:
    assert [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()] == []


def test_the_glossary_is_found_from_the_first_pages() -> None:
    assert "docs/glossary.md" in (ROOT / "README.md").read_text()
    assert "(glossary.md)" in (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_written_without_former_words(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", page.read_text(), flags=re.DOTALL)
    assert FORMER.findall(prose) == []
