"""Where our choice differs from upstream's, on purpose: the one table of it. A row explains a pass as a whole, or not at all.

Each row has its place in docs/placement.md. Beside it is what expressions may compare (`test_expressions`): numbers of all types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.machinery.objects import Object
from tests.interop.placement.verdicts import Pass

_NOBODY: Final = frozenset({"NoManagedClusterSetBindings", "NoIntersection", "AllManagedClusterSetsEmpty"})
_LONGEST_SECONDS: Final = (2**63 - 1) // 10**9


@dataclass(frozen=True)
class Difference:
    name: str
    """What upstream does: the first cell of its row in docs/placement.md, which says what ours does instead."""
    explains: Callable[[Pass], bool]


def _negative(seen: Pass) -> bool:
    return seen.spec.get("numberOfClusters", 0) < 0 and seen.choice.misconfigured.status == "True"


def _spread(seen: Pass) -> bool:
    return seen.theirs.misconfigured[2] == ":incorrect builtin prioritizer: Spread" and seen.choice.misconfigured.status == "False"


def _unnoticed(seen: Pass) -> bool:
    """The plugin at fault had no cluster to look at."""
    plugin = seen.choice.misconfigured.message.partition(":")[0]
    reached: list[Object] = seen.answer["filters"] or [{}]
    if plugin == "Predicate":
        return seen.ours.satisfied[1] in _NOBODY
    return plugin == "TaintToleration" and not reached[0].get("filteredClusters") and seen.ours.groups == seen.theirs.groups


def _constant(seen: Pass) -> bool:
    return seen.choice.misconfigured.message.startswith("Predicate:instantiation failed: ") and not seen.choice.clusters


def _groups(seen: Pass) -> bool:
    scheduled = seen.answer["totals"] is not None
    return scheduled and seen.ours.misconfigured[0] == seen.theirs.misconfigured[0] == "True" and not seen.choice.clusters


def _two_problems(seen: Pass) -> bool:
    return seen.ours.misconfigured[0] == seen.theirs.misconfigured[0] == "True" and seen.ours.satisfied == seen.theirs.satisfied


def _expired(seen: Pass) -> bool:
    expressions = [
        text
        for predicate in seen.spec["predicates"]
        for text in predicate["requiredClusterSelector"].get("celSelector", {}).get("celExpressions", ())
    ]
    return seen.expired and any("scores(" in text for text in expressions)


def _overflow(seen: Pass) -> bool:
    return any(one.get("tolerationSeconds", 0) > _LONGEST_SECONDS for one in seen.spec["tolerations"])


TABLE: Final = (
    Difference("`numberOfClusters: -1` ends the process, again and again", _negative),
    Difference("spread, `sortBy`, `scoreRateLimit`: fields only", _spread),
    Difference("predicates and tolerations are checked only when a cluster comes to them", _unnoticed),
    Difference('a constant without a value in an expression (`"a".matches("(")`) fails cluster by cluster', _constant),
    Difference("a mistake in decision groups is found after choosing", _groups),
    Difference("of two mistakes a random one is named", _two_problems),
    Difference("`validUntil` triggers no reconcile; `scores()` in expressions counts expired ones", _expired),
    Difference("`tolerationSeconds` of more than 292 years have ended", _overflow),
)


def explanation(seen: Pass) -> str | None:
    return next((one.name for one in TABLE if one.explains(seen)), None)
