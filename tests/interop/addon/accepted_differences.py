"""Where our addon manager differs from upstream's, on purpose: the one table of it.

A row explains one fact of a step (`Seen.differences`), from what is in the step; each has its place in docs/addons.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.interop.addon.verdicts import Seen


@dataclass(frozen=True)
class Difference:
    name: str
    """What upstream does: the first cell of its row in docs/addons.md, which says what ours does instead."""
    explains: Callable[[Seen, str], bool]


def _lost_placement(seen: Seen, place: str) -> bool:
    return bool(seen.lost)


def _missing_config(seen: Seen, place: str) -> bool:
    cluster = place.partition(" ")[0]
    references = seen.theirs.get(f"{cluster} references") or ()
    return any(one[2] and not one[2][2] for one in references)


def _failed(seen: Seen, place: str) -> bool:
    return "failing" in seen.step["agents"].values()


def _counted(seen: Seen, place: str) -> bool:
    """A progression to which a cluster belongs that has configurations of its own, or that another placement has taken."""
    placement, _, what = place.partition(" ")
    if what not in ("progress", "references") or placement not in seen.chosen:
        return False
    others = {name for name in seen.chosen if name != placement}
    shared = seen.chosen[placement] & frozenset().union(*(seen.chosen[name] for name in others))
    return bool(shared or seen.chosen[placement] & seen.with_own)


TABLE: Final = (
    Difference("a cluster with configurations of its own, or one that a later placement chose, is never counted as done", _counted),
    Difference("a Placement that is deleted uninstalls its addons, and holds up those of others", _lost_placement),
    Difference("a configuration that is not there is passed over", _missing_config),
    Difference("a work that cannot be applied is still progressing", _failed),
)


def explanation(seen: Seen, place: str) -> str | None:
    return next((one.name for one in TABLE if one.explains(seen, place)), None)
