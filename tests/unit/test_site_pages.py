"""The site's navigation is the index of the documentation, and links lead to pages of the site or become their text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.site_pages import decisions, navigation, page_for, site_links

ROOT = Path(__file__).parents[2]


def listed() -> list[str]:
    nav = navigation((ROOT / "docs/README.md").read_text())
    return [page for section in nav for pages in section.values() for page in ([pages] if isinstance(pages, str) else pages)]


def test_the_navigation_has_every_page_once() -> None:
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed()) == sorted([*pages, "decisions/README.md", *(f"project/{name}.md" for name in PROJECT)])


PROJECT = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")


def test_sections_are_those_of_the_index() -> None:
    nav = navigation("# All\n## Try it\n| a | b |\n|---|---|\n| start | [a.md](a.md) |\n## Concepts\nNo table.\n")
    assert nav[:2] == [{"Documentation": "README.md"}, {"Try it": ["a.md"]}]
    assert "Concepts" not in {name for section in nav for name in section}


@pytest.mark.parametrize(
    ("page", "target", "expected"),
    [
        ("work.md", "placement.md", "placement.md"),
        ("decisions/0001-own-http-layer.md", "../work.md", "work.md"),
        ("work.md", "../SECURITY.md", "project/SECURITY.md"),
        ("project/README.md", "docs/work.md", "work.md"),
        ("README.md", "decisions", "decisions/README.md"),
        ("work.md", "../src/muster/work/__init__.py", ""),
    ],
)
def test_where_a_link_leads(page: str, target: str, expected: str) -> None:
    assert page_for(page, target) == expected


@pytest.mark.parametrize(
    ("page", "markdown", "expected"),
    [
        ("work.md", "[a](placement.md#how)", "[a](placement.md#how)"),
        ("project/README.md", "[a](docs/work.md)", "[a](../work.md)"),
        ("decisions/0002-own-cel.md", "[a](../../SECURITY.md)", "[a](../project/SECURITY.md)"),
        ("architecture.md", "see [`cel`](../src/muster/cel/__init__.py)", "see `cel`"),
        ("work.md", "[a](nowhere.md) [b](../nowhere.py)", "[a](nowhere.md) [b](../nowhere.py)"),
        ("work.md", "[a](#here) [b](https://example.com)", "[a](#here) [b](https://example.com)"),
        ("project/README.md", "```sh\n[a](docs/work.md)\n```", "```sh\n[a](docs/work.md)\n```"),
    ],
)
def test_links_are_those_of_the_site(page: str, markdown: str, expected: str) -> None:
    assert site_links(page, markdown) == expected


def test_decisions_are_listed_by_their_titles() -> None:
    assert "(0002-own-cel.md)\n" in decisions()
