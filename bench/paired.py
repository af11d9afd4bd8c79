"""What a change costs, measured in pairs: both servers do the same thing right after each other, and each pair gives a ratio.

Figures of two runs differ by more than most changes do, because the machine does. Within a pair it is nearly the same machine, so
the ratios scatter far less than the figures. A round has one pair for each verb, and who begins changes from pair to pair. What is
told is the geometric mean of the ratios (so that it does not matter which side is divided by which) and the interval that holds it
with 95 % certainty, by Student's distribution: a change is seen where the interval leaves 1 out.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Measure = Callable[[str, str, int, int], float]
"""The figure of a side, doing this verb by so many clients, in this round; more is better."""

_CRITICAL = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
"""Of Student's distribution at 97.5 %, for 1, 2, 3 … degrees of freedom."""
_MANY = 2.09
"""For more degrees than that; right for twenty, and a little too much for more."""
PAIRED_OBJECTS = 500
PAIRED_SECONDS = 0.6


@dataclass(frozen=True)
class PairedRatio:
    """Ours by the other's."""

    title: str
    mean: float
    low: float
    high: float
    rounds: int

    @property
    def differs(self) -> bool:
        return not self.low <= 1.0 <= self.high

    def __str__(self) -> str:
        verdict = "" if not self.differs else "  faster" if self.mean > 1 else "  slower"
        return f"{self.title:<20} {self.mean:.3f}  [{self.low:.3f}, {self.high:.3f}]  {self.rounds} pairs{verdict}"


def ratio(title: str, pairs: Sequence[tuple[float, float]]) -> PairedRatio:
    """Of (ours, the other's), of which two pairs are needed at least."""
    logarithms = [math.log(ours / others) for ours, others in pairs]
    mean, degrees = statistics.fmean(logarithms), len(logarithms) - 1
    critical = _CRITICAL[degrees - 1] if degrees <= len(_CRITICAL) else _MANY
    margin = critical * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    return PairedRatio(title, math.exp(mean), math.exp(mean - margin), math.exp(mean + margin), len(pairs))


def compare(sides: tuple[str, str], verbs: Sequence[str], clients: int, rounds: int, measure: Measure) -> list[PairedRatio]:
    """One ratio for each verb; in every round they are done in this order."""
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in range(rounds):
        for place, verb in enumerate(verbs):
            order = sides if (number + place) % 2 == 0 else sides[::-1]
            figures = {side: measure(side, verb, clients, number) for side in order}
            pairs[verb].append((figures[sides[0]], figures[sides[1]]))
    return [ratio(f"{verb}, {clients}", pairs[verb]) for verb in verbs]


def verb_flags(verb: str, clients: int, number: int) -> Mapping[str, Any]:
    """For the load generator: what one server does of one pair. Creating and deleting are of so many objects, the rest is for so
    long; in between there are always as many objects on either side."""
    flags: dict[str, Any] = {"clients": clients, "prefix": f"pair{clients}-{number}", "verb": verb}
    if verb in ("create", "delete"):
        return flags | {"count": PAIRED_OBJECTS, "seconds": 60}
    return flags | {"pool": PAIRED_OBJECTS, "seconds": PAIRED_SECONDS}
