"""Sets of completion indexes in the notation of a Job's status (`0,2-4`): sorted intervals, so that large Jobs cost little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """Sorted intervals that neither overlap nor touch."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        return cls(_joined((number, number) for number in numbers))

    @classmethod
    def parse(cls, text: str | None, limit: int) -> Indexes:
        """The indexes below the limit; an invalid part is ignored."""
        found = []
        for part in (text or "").split(","):
            first, _, last = part.partition("-")
            if first.isdecimal() and (last or first).isdecimal():
                found.append((int(first), min(int(last or first), limit - 1)))
        return cls(_joined((first, last) for first, last in found if first <= last))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_joined((*self.intervals, *other.intervals)))

    def __contains__(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self.intervals)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(_written, self.intervals))

    def count_within(self, other: Indexes) -> int:
        """The number of these indexes that are also in the other set."""
        shared = (min(a[1], b[1]) - max(a[0], b[0]) + 1 for a in self.intervals for b in other.intervals)
        return sum(count for count in shared if count > 0)

    def missing(self, limit: int) -> Iterator[int]:
        """Those below the limit that are not in it, in order."""
        candidate = 0
        for first, last in (*self.intervals, (limit, limit)):
            yield from range(candidate, min(first, limit))
            candidate = max(candidate, last + 1)


def _joined(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _written(interval: tuple[int, int]) -> str:
    first, last = interval
    return str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
