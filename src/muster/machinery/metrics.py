"""Counters, gauges and histograms as plain numbers; Prometheus' text format is produced only when they are scraped.

A component gets its `Counter` or `Histogram` (name and label values fixed) once and then only adds. Values that exist elsewhere are
read by functions at the scrape, so they need no updates. Names are those of the API server, client-go and controller-runtime, so
that their dashboards can be used. Why not prometheus-client: decision 0016.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
EXPIRATION_METRIC = "muster_certificate_expiration_timestamp_seconds"
EXPIRATION_HELP = "When a certificate of this process expires, in seconds since 1970-01-01."

Labels = tuple[tuple[str, str], ...]


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def samples(self, name: str, labels: str) -> list[str]:
        return [f"{_series(name, labels)} {self.value:.15g}"]


class Reading:
    """A gauge, or a counter that is kept elsewhere."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read

    def samples(self, name: str, labels: str) -> list[str]:
        return [f"{_series(name, labels)} {self.read():.15g}"]


class Readings:
    """A varying set of gauges: their labels are read too."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        self.read = read

    def samples(self, name: str, labels: str) -> list[str]:
        return [f"{_series(name, _text(own))} {value:.15g}" for own, value in sorted(self.read())]


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

    def samples(self, name: str, labels: str) -> list[str]:
        lines, running = [], 0
        bucket = f"{name}_bucket{{{labels},le=" if labels else f"{name}_bucket{{le="
        for edge, count in zip((*self.buckets, "+Inf"), self.counts, strict=True):
            running += count
            lines.append(f'{bucket}"{edge}"}} {running}')
        return [*lines, f"{_series(f'{name}_sum', labels)} {self.sum:.9g}", f"{_series(f'{name}_count', labels)} {running}"]


Member = Counter | Reading | Readings | Histogram


class Metrics:
    """All metrics of a process. The same name and labels return the same counter; read functions are replaced. Labels are in the
    given order."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, dict[Labels, Member]]] = {}

    def counter(self, name: str, text: str, /, **labels: str) -> Counter:
        found = self._family(name, "counter", text).setdefault(tuple(labels.items()), Counter())
        assert isinstance(found, Counter)
        return found

    def histogram(self, name: str, text: str, buckets: tuple[float, ...] = BUCKETS, /, **labels: str) -> Histogram:
        found = self._family(name, "histogram", text).setdefault(tuple(labels.items()), Histogram(buckets))
        assert isinstance(found, Histogram)
        return found

    def gauge(self, name: str, text: str, read: Callable[[], float], /, **labels: str) -> None:
        self._family(name, "gauge", text)[tuple(labels.items())] = Reading(read)

    def gauges(self, name: str, text: str, read: Callable[[], Iterable[tuple[Labels, float]]], /) -> None:
        """All gauges of a name, with their labels."""
        self._family(name, "gauge", text)[()] = Readings(read)

    def counter_of(self, name: str, text: str, read: Callable[[], float], /, **labels: str) -> None:
        """A counter that exists elsewhere."""
        self._family(name, "counter", text)[tuple(labels.items())] = Reading(read)

    def forget(self, label: str, value: str, *names: str) -> None:
        """Drop every counter and histogram with that label, or those of the given names: what it represents is gone. Counters still
        in use are no longer exposed."""
        for _, _, members in [self._families[name] for name in names or self._families if name in self._families]:
            for labels in [labels for labels in members if (label, value) in labels]:
                del members[labels]

    def _family(self, name: str, kind: str, text: str) -> dict[Labels, Member]:
        found = self._families.setdefault(name, (kind, text, {}))
        if found[0] != kind:
            raise ValueError(f"metric {name} is a {found[0]}, not a {kind}")
        return found[2]

    def render(self) -> bytes:
        lines = []
        for name, (kind, text, members) in sorted(self._families.items()):
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"] if text else [f"# TYPE {name} {kind}"]
            for labels, member in sorted(members.items(), key=lambda item: item[0]):
                lines += member.samples(name, _text(labels))
        return ("\n".join(lines) + "\n").encode()


def _text(labels: Labels) -> str:
    return ",".join(f'{label}="{_escape(value)}"' for label, value in labels)


def _series(name: str, labels: str) -> str:
    return f"{name}{{{labels}}}" if labels else name


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
