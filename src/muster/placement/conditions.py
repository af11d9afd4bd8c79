"""The two conditions of a placement, with upstream's reasons: whether it has the requested clusters, and whether its spec is
valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.cluster.v1beta1 import MISCONFIGURED, SATISFIED
from muster.api.meta import Condition
from muster.placement.misconfiguration import Misconfigured

NO_BINDINGS: Final = "NoManagedClusterSetBindings"
NO_INTERSECTION: Final = "NoIntersection"
SETS_EMPTY: Final = "AllManagedClusterSetsEmpty"
NOT_ALL_SCHEDULED: Final = "NotAllDecisionsScheduled"
NO_MATCH: Final = "NoManagedClusterMatched"
ALL_SCHEDULED: Final = "AllDecisionsScheduled"

WELL_CONFIGURED: Final = Condition(
    type=MISCONFIGURED, status="False", reason="Succeedconfigured", message="Placement configurations check pass"
)


def misconfigured(problem: Misconfigured) -> Condition:
    return Condition(type=MISCONFIGURED, status="True", reason="Misconfigured", message=_cut(str(problem)))


def satisfied(
    wanted_sets: Sequence[str], bindings: int, eligible: Sequence[str], available: int, chosen: int, unscheduled: int
) -> Condition:
    """The first cause that prevents it."""
    if not bindings:
        return _unsatisfied(NO_BINDINGS, "No valid ManagedClusterSetBindings found in placement namespace")
    if not eligible:
        return _unsatisfied(
            NO_INTERSECTION, f"None of ManagedClusterSets [{','.join(wanted_sets)}] is bound to placement namespace"
        )
    if not available:
        return _unsatisfied(SETS_EMPTY, f"All ManagedClusterSets [{','.join(eligible)}] have no member ManagedCluster")
    if not chosen:
        return _unsatisfied(NO_MATCH, "No ManagedCluster matches any of the cluster predicate")
    if unscheduled:
        return _unsatisfied(NOT_ALL_SCHEDULED, f"{unscheduled} cluster decisions unscheduled")
    return Condition(type=SATISFIED, status="True", reason=ALL_SCHEDULED, message="All cluster decisions scheduled")


def _unsatisfied(reason: str, message: str) -> Condition:
    return Condition(type=SATISFIED, status="False", reason=reason, message=_cut(message))


_LONGEST: Final = 32768
"""The maximum length of a condition's message."""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
