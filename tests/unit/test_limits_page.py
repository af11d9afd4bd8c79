"""`docs/limits.md` leads to every page that has limits of its own."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
HEADING = re.compile(r"^#+ (?:Limits\b.*|Gaps|What is alpha.*|How finished is it\?|Left out .*)$", re.MULTILINE)


def test_every_page_with_limits_is_linked_with_its_section() -> None:
    text = (DOCS / "limits.md").read_text()
    missing = [
        f"{page.name}#{anchor}"
        for page in sorted(DOCS.glob("*.md"))
        for heading in HEADING.findall(page.read_text())
        if f"({page.name}#{(anchor := re.sub(r'[^a-z0-9 -]', '', heading.lstrip('# ').lower()).replace(' ', '-'))})" not in text
    ]
    assert missing == []
