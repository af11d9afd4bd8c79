"""Every page can be found: the index of the documentation leads to all of them, and the README to the index."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
CONCEPTS = (
    *("hub", "managed cluster", "klusterlet", "ManagedCluster", "acceptance", "work", "placement", "addon", "gateway"),
    *("policy", "executor"),
)


def test_the_index_leads_to_every_page() -> None:
    led_to = set(LINK.findall((DOCS / "README.md").read_text().partition("## Concepts")[0]))
    pages = {str(page.relative_to(DOCS)) for folder in (DOCS, DOCS / "reference") for page in folder.glob("*.md")}
    assert sorted(pages - led_to - {"README.md"}) == []


def test_the_index_explains_the_concepts() -> None:
    explained = {
        word.lower() for word in re.findall(r"\*\*([^*]+)\*\*", (DOCS / "README.md").read_text().partition("## Concepts")[2])
    }
    assert [concept for concept in CONCEPTS if concept.lower() not in explained] == []


def test_the_readme_leads_to_the_index() -> None:
    assert "docs/README.md" in LINK.findall((ROOT / "README.md").read_text())
