"""Counters, gauges and histograms as plain numbers; text in Prometheus' format is made only when somebody scrapes.

A component asks once for its `Counter` or `Histogram` (name and label values fixed) and then only adds. Gauges are functions
that are called at the scrape, so nothing has to be kept in step. Names are those of client-go and controller-runtime, so that
dashboards for Go controllers fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Labels = tuple[tuple[str, str], ...]


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def samples(self, name: str, labels: Labels) -> list[str]:
        return [f"{name}{_braces(labels)} {self.value:.15g}"]


class Gauge:
    __slots__ = ("read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read

    def samples(self, name: str, labels: Labels) -> list[str]:
        return [f"{name}{_braces(labels)} {self.read():.15g}"]


class Histogram:
    __slots__ = ("buckets", "counts", "sum")

    def __init__(self, buckets: tuple[float, ...] = BUCKETS) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.buckets, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self, name: str, labels: Labels) -> list[str]:
        lines, running = [], 0
        for edge, count in zip((*self.buckets, "+Inf"), self.counts, strict=True):
            running += count
            lines.append(f"{name}_bucket{_braces((*labels, ('le', str(edge))))} {running}")
        return [*lines, f"{name}_sum{_braces(labels)} {self.sum:.9g}", f"{name}_count{_braces(labels)} {running}"]


class Metrics:
    """Everything one process exposes. Asking twice for the same name and labels gives the same counter; a gauge is replaced."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, dict[Labels, Counter | Gauge | Histogram]]] = {}

    def counter(self, name: str, text: str, /, **labels: str) -> Counter:
        found = self._family(name, "counter", text).setdefault(_labels(labels), Counter())
        assert isinstance(found, Counter)
        return found

    def histogram(self, name: str, text: str, /, **labels: str) -> Histogram:
        found = self._family(name, "histogram", text).setdefault(_labels(labels), Histogram())
        assert isinstance(found, Histogram)
        return found

    def gauge(self, name: str, text: str, read: Callable[[], float], /, **labels: str) -> None:
        self._family(name, "gauge", text)[_labels(labels)] = Gauge(read)

    def _family(self, name: str, kind: str, text: str) -> dict[Labels, Counter | Gauge | Histogram]:
        found = self._families.setdefault(name, (kind, text, {}))
        if found[0] != kind:
            raise ValueError(f"metric {name} is a {found[0]}, not a {kind}")
        return found[2]

    def render(self) -> bytes:
        lines = []
        for name, (kind, text, members) in sorted(self._families.items()):
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for labels, member in sorted(members.items(), key=lambda item: item[0]):
                lines += member.samples(name, labels)
        return ("\n".join(lines) + "\n").encode()


def _labels(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
