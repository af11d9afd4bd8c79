"""Rows of a comparison, as a table on the terminal and in docs/benchmarks.md."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sqlite3
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Row:
    """One measurement of both sides. `better` says what a larger figure means: "more" for throughput, "less" for time and
    memory. `target` is the least `ratio` (how many times better ours is); `limit` is the worst that our figure itself may be."""

    title: str
    unit: str
    ours: float | None
    theirs: float | None
    better: str = "more"
    target: float | None = None
    limit: float | None = None

    @property
    def ratio(self) -> float | None:
        """None where one of them is missing, or is not above zero."""
        if self.ours is None or self.theirs is None or min(self.ours, self.theirs) <= 0:
            return None
        return self.ours / self.theirs if self.better == "more" else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None where there is none."""
        if self.limit is not None:
            return self.ours is not None and (self.ours >= self.limit if self.better == "more" else self.ours <= self.limit)
        if self.target is not None:
            return self.ratio is not None and self.ratio >= self.target
        return None

    @property
    def wanted(self) -> str:
        if self.limit is not None:
            return f"{'≥' if self.better == 'more' else '≤'} {shown(self.limit)} {self.unit}"
        return f"≥ {self.target:g}×" if self.target is not None else ""

    def cells(self) -> list[str]:
        ratio = f"{self.ratio:.1f}×" if self.ratio is not None else ""
        verdict = {True: "yes", False: "**no**", None: ""}[self.met]
        return [self.title, self.unit, shown(self.ours), shown(self.theirs), ratio, self.wanted, verdict]


HEADINGS = ["", "unit", "Muster", "peer", "better by", "target", "met"]


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def text_table(rows: Sequence[Row]) -> str:
    table = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    aligned = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in table]
    return "\n".join("  ".join([line[0].ljust(widths[0]), *cells[1:]]) for line, cells in zip(table, aligned, strict=True))


def markdown_table(rows: Sequence[Row]) -> str:
    lines = [HEADINGS, ["---", "---", *["---:"] * (len(HEADINGS) - 2)], *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


HEADER = """# Benchmarks

Made by `make bench`, or for some areas by `python -m bench AREA … --write`; do not edit by hand. Each section says when, where
and on what it was measured.
"""


def write(sections: Sequence[tuple[str, str, Sequence[Row]]], order: Sequence[str]) -> None:
    """Put sections (title, what was measured and how, rows) into docs/benchmarks.md, in place of older ones of the same title.

    Sections of other titles stay as they are; what is not in `order` goes.
    """
    occasion = _occasion()
    kept = written_sections(DOCUMENT.read_text()) if DOCUMENT.exists() else {}
    new = {title: f"## {title}\n\n{occasion}\n\n{text.strip()}\n\n{markdown_table(rows)}\n" for title, text, rows in sections}
    found = kept | new
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text("\n".join([HEADER, *(found[title] for title in order if title in found)]))


def written_sections(document: str) -> dict[str, str]:
    """The sections of a document, with their headings, by title."""
    parts = re.split(r"^(?=## )", document, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].removeprefix("## "): part.rstrip() + "\n" for part in parts}


def _occasion() -> str:
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    model = next((line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}"
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {', '.join(_peers())}"
    return f"{today}, commit {commit.stdout.strip() or 'unknown'}, {machine}; {versions}."


PINS = {
    "kube-apiserver": ("go.mod", "k8s.io/kubernetes"),
    "etcd": ("go.mod", "go.etcd.io/etcd/server/v3"),
    "OCM": ("ocm/go.mod", "open-cluster-management.io/ocm"),
}


def _peers() -> list[str]:
    """The pinned versions of the peers, from their Go modules."""
    pinned = {name: (ROOT / "peers" / file).read_text() for name, (file, _) in PINS.items()}
    found = {name: re.search(rf"^\s*(?:require )?{re.escape(PINS[name][1])} (v\S+)", text, re.M) for name, text in pinned.items()}
    return [f"{name} {match[1]}" for name, match in found.items() if match is not None]


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
