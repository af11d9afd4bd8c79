"""`docs/critiques.md` hides no benchmark that was lost, and pages do not link to what is not there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def lost() -> Iterator[list[str]]:
    """The rows of benchmarks.md in which the peer is better or the target is missed, each with the section it is in."""
    area = ""
    for line in (ROOT / "docs/benchmarks.md").read_text().splitlines():
        if line.startswith("## "):
            area = line.removeprefix("## ")
        if line.startswith("| ") and len(row := cells(line)) == 7:
            *figures, target, met = row
            behind = re.fullmatch(r"(\d+\.\d+)×", figures[-1])
            if "no" in met or (behind and float(behind[1]) < 1):
                yield [area, *figures, target]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_benchmark_that_was_lost_is_on_the_page_with_its_figures() -> None:
    shown = [cells(line) for line in (ROOT / "docs/critiques.md").read_text().splitlines() if line.startswith("| ")][2:]
    expected = list(lost())
    assert shown == expected, "write into docs/critiques.md:\n" + "\n".join(f"| {' | '.join(row)} |" for row in expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link
