"""Our metrics beside prometheus-client, for decision 0016.

    python -m bench metrics [--short]

Each side runs in processes of its own, in turns, and measures itself by CPU time and by the bytes that it holds: what both say of
the request path is what one finished request costs the API server.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from bench.report import ROOT, Row, median

TITLE = "Metrics"
TEXT = """
`muster.machinery.metrics` and prometheus-client: CPU time and memory of one process each, median of several rounds. A request
is counted in a counter with seven labels and a histogram with six labels and 23 buckets; a component has a registry with one
counter, one histogram and one gauge, of which the simulation has thousands in a process.
"""
ROUNDS = 7
REQUESTS, SERIES, COMPONENTS = 20_000, 1000, 200
BUCKETS = (*(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0), *(3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60))
ROWS = (
    ("import", "ms of CPU"),
    ("memory after the import", "KiB"),
    ("count a request", "µs of CPU"),
    ("count a request, labels looked up before", "µs of CPU"),
    (f"memory of {SERIES} kinds of requests", "KiB"),
    (f"scrape of {SERIES} kinds of requests", "ms of CPU"),
    ("a component's registry", "µs of CPU"),
    ("memory of a component's registry", "KiB"),
)


def run(short: bool) -> list[Row]:
    turns = [(_measured("ours", short), _measured("theirs", short)) for _ in range(1 if short else ROUNDS)]
    found = [(median([ours[row] for ours, _ in turns]), median([theirs[row] for _, theirs in turns])) for row in range(len(ROWS))]
    return [Row(title, unit, ours, theirs, "less") for (title, unit), (ours, theirs) in zip(ROWS, found, strict=True)]


def _measured(side: str, short: bool) -> list[float]:
    command = [sys.executable, "-m", "bench.metrics", side, str(100 if short else REQUESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=ROOT)
    figures: list[float] = json.loads(done.stdout)
    return figures


class Ours:
    def __init__(self) -> None:
        from muster.machinery.metrics import Counter, Histogram, Metrics

        self._metrics = Metrics()
        self._kept: dict[str, tuple[Counter, Histogram]] = {}

    def count(self, resource: str) -> None:
        labels = {
            "verb": "GET",
            "group": "apps",
            "version": "v1",
            "resource": resource,
            "subresource": "",
            "component": "apiserver",
        }
        self._metrics.counter("requests_total", "", **labels, code="200").inc()
        self._metrics.histogram("seconds", "", BUCKETS, **labels).observe(0.012)

    def count_kept(self, resource: str) -> None:
        kept = self._kept.get(resource)
        if kept is None:
            found = self._metrics
            kept = self._kept[resource] = found.counter("kept_total", "", name=resource), found.histogram("kept", "", name=resource)
        kept[0].inc()
        kept[1].observe(0.012)

    def scrape(self) -> bytes:
        return self._metrics.render()

    @staticmethod
    def component() -> object:
        from muster.machinery.metrics import Metrics

        metrics = Metrics()
        metrics.counter("a_total", "Some", name="x").inc()
        metrics.histogram("b", "Some", name="x").observe(0.1)
        metrics.gauge("c", "Some", lambda: 1, name="x")
        return metrics


class Theirs:
    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry = CollectorRegistry()
        labels = ("verb", "group", "version", "resource", "subresource", "component")
        self._requests = Counter("requests", "-", (*labels, "code"), registry=self._registry)
        self._seconds = Histogram("seconds", "-", labels, buckets=BUCKETS, registry=self._registry)
        self._kept_requests = Counter("kept", "-", ("name",), registry=self._registry)
        self._kept_seconds = Histogram("kept_seconds", "-", ("name",), registry=self._registry)
        self._kept: dict[str, tuple[Counter, Histogram]] = {}

    def count(self, resource: str) -> None:
        self._requests.labels("GET", "apps", "v1", resource, "", "apiserver", "200").inc()
        self._seconds.labels("GET", "apps", "v1", resource, "", "apiserver").observe(0.012)

    def count_kept(self, resource: str) -> None:
        kept = self._kept.get(resource)
        if kept is None:
            kept = self._kept[resource] = self._kept_requests.labels(resource), self._kept_seconds.labels(resource)
        kept[0].inc()
        kept[1].observe(0.012)

    def scrape(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    @staticmethod
    def component() -> object:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        registry = CollectorRegistry()
        Counter("a", "Some", ("name",), registry=registry).labels("x").inc()
        Histogram("b", "Some", ("name",), registry=registry).labels("x").observe(0.1)
        Gauge("c", "Some", ("name",), registry=registry).labels("x").set_function(lambda: 1)
        return registry


def _figures(side: type[Ours | Theirs], requests: int) -> list[float]:
    """In the order of ROWS."""
    began, before = time.process_time(), _resident()
    measured = side()
    imported, held = time.process_time() - began, _resident() - before
    tracemalloc.start()
    names = [f"resource{number}" for number in range(SERIES)]
    grown = _grown(lambda: [measured.count(name) for name in names])
    registries = _grown(lambda: [side.component() for _ in range(COMPONENTS)])
    tracemalloc.stop()
    asked = [names[number % 20] for number in range(requests)]
    counting, kept = _seconds(measured.count, asked), _seconds(measured.count_kept, asked)
    scraping = _seconds(lambda _: measured.scrape(), [""])
    making = _seconds(lambda _: side.component(), [""] * COMPONENTS)
    return [
        imported * 1e3,
        held / 1024,
        counting * 1e6,
        kept * 1e6,
        grown / 1024,
        scraping * 1e3,
        making * 1e6,
        registries / 1024 / COMPONENTS,
    ]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _grown(make: Callable[[], list[object]] | Callable[[], list[None]]) -> int:
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    grown = tracemalloc.get_traced_memory()[0] - before
    made.clear()
    return grown


def _seconds(work: Callable[[str], object], names: list[str]) -> float:
    """CPU time of one, the best of three."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        for name in names:
            work(name)
        taken.append((time.process_time() - began) / len(names))
    return min(taken)


if __name__ == "__main__":
    print(json.dumps(_figures(Ours if sys.argv[1] == "ours" else Theirs, int(sys.argv[2]))))
