"""Which pages there are, and whether those in a folder are what the code would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference import commands, crds, feature_gates, metrics

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands.md": commands.page,
    "crds.md": crds.page,
    "feature-gates.md": feature_gates.page,
    "metrics.md": metrics.page,
}


def render(name: str) -> str:
    return PAGES[name]()


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (folder / name).write_text(render(name))


def stale(folder: Path) -> list[str]:
    """Pages that are missing or differ, and pages of which nothing is known."""
    found = {page.name: page.read_text() for page in folder.glob("*.md")}
    return sorted(name for name in {*PAGES, *found} if name not in PAGES or found.get(name) != render(name))
