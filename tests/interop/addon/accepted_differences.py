"""Where our addon manager differs from upstream's, on purpose: the one table of it.

A row explains one fact of a step (`Seen.differences`), from what is in the step; each has its place in docs/addons.md. Clusters of
one placement wait for each other, so what holds up one of them may be seen at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.api.addons import LIFECYCLE_ANNOTATION
from muster.machinery.objects import Object
from tests.interop.addon.verdicts import Facts, Seen, of_answer
from tests.support.random_addons import SETTINGS


@dataclass(frozen=True)
class Difference:
    name: str
    """What upstream does: the first cell of its row in docs/addons.md, which says what ours does instead."""
    explains: Callable[[Seen, str], bool]


def _subject(place: str) -> str:
    """The cluster or the placement that a fact is about."""
    return place.partition(" ")[0]


def _placements(seen: Seen, place: str) -> list[Object]:
    """Those that a fact has to do with: of which it is told, or that chose its cluster."""
    subject = _subject(place)
    asked = seen.offer["spec"]["installStrategy"].get("placements", ())
    return [one for one in asked if subject == one["name"] or subject in seen.chosen.get(one["name"], ())]


def _mates(seen: Seen, place: str) -> set[str]:
    """The clusters that wait for each other with that of a fact, and itself."""
    chosen = (seen.chosen.get(one["name"], frozenset()) for one in _placements(seen, place))
    return {_subject(place)}.union(*chosen)


def _given(facts: Facts, clusters: set[str]) -> set[str]:
    """Clusters that have been given their configurations."""
    return {cluster for cluster in clusters if facts.get(f"{cluster} Configured", ("",))[0] == "True"}


def _lost_placement(seen: Seen, place: str) -> bool:
    return bool(seen.lost)


def _missing_config(seen: Seen, place: str) -> bool:
    references = [one for cluster in _mates(seen, place) for one in seen.theirs.get(f"{cluster} references") or ()]
    return any(one[2] and not one[2][2] for one in references)


def _failed(seen: Seen, place: str) -> bool:
    return any(seen.step["agents"].get(cluster) == "failing" for cluster in _mates(seen, place))


def _unread(seen: Seen, place: str) -> bool:
    spec = seen.offer["spec"]
    kinds = [*spec["supportedConfigs"], *(one for each in spec["installStrategy"].get("placements", ()) for one in each["configs"])]
    read = {(one["group"], one["resource"]) for one in (SETTINGS, *kinds)}
    own = _mates(seen, place) & seen.with_own
    return any(one[:2] not in read for cluster in own for one in seen.theirs.get(f"{cluster} references") or ())


def _counted(seen: Seen, place: str) -> bool:
    if place.partition(" ")[2] not in ("progress", "references") or _subject(place) not in seen.chosen:
        return False
    return _shared(seen, place) or bool(seen.chosen[_subject(place)] & seen.with_own)


def _shared(seen: Seen, place: str) -> bool:
    """A placement from which another has taken clusters."""
    mine = [one["name"] for one in _placements(seen, place)]
    return any(seen.chosen.get(name, frozenset()) & seen.chosen[other] for name in mine for other in seen.chosen if other != name)


def _overtaken(seen: Seen, place: str) -> bool:
    """The first by name have all places, and others under way are not even counted."""
    if not any(one["rolloutStrategy"]["type"] == "Progressive" for one in _placements(seen, place)):
        return False
    ours, theirs = (_given(facts, _mates(seen, place)) for facts in (seen.ours, seen.theirs))
    uncounted = place.endswith(" progress") and seen.ours[place][:3] == seen.theirs[place][:3] and ours == theirs
    return uncounted or (ours < theirs and min(theirs - ours) < max(ours, default=""))


def _in_groups(seen: Seen, place: str) -> bool:
    strategies = [one["rolloutStrategy"] for one in _placements(seen, place)]
    return any(one["type"] == "ProgressivePerGroup" or "mandatoryDecisionGroups" in str(one) for one in strategies)


def _held_up(seen: Seen, place: str) -> bool:
    ours, theirs = (_given(facts, _mates(seen, place)) for facts in (seen.ours, seen.theirs))
    return _in_groups(seen, place) and theirs < ours


def _despite_failures(seen: Seen, place: str) -> bool:
    ours, theirs = (_given(facts, _mates(seen, place)) for facts in (seen.ours, seen.theirs))
    progress = [seen.theirs.get(f"{one['name']} progress", (0,))[3:] for one in _placements(seen, place)]
    return _in_groups(seen, place) and ours < theirs and any(sum(one[1:]) for one in progress)


def _hidden(seen: Seen, place: str) -> bool:
    """A cluster that had not applied all of what it was given before."""
    before = of_answer(seen.before) if seen.before is not None else {}
    for cluster in _mates(seen, place):
        there, turn = f"{cluster} references", f"{cluster} Configured"
        under_way = any(one[2] != one[3] for one in before.get(there) or ())
        ours, theirs = (([one[2] for one in facts.get(there) or ()], facts.get(turn)) for facts in (seen.ours, seen.theirs))
        if under_way and ours != theirs:
            return True
    return False


def _unsaid(seen: Seen, place: str) -> bool:
    return seen.theirs.get(f"{_subject(place)} Configured", ("",))[0] == "False" and not place.endswith(" Configured")


def _own_at_once(seen: Seen, place: str) -> bool:
    cluster = _subject(place)
    given = [cluster in _given(facts, {cluster}) for facts in (seen.ours, seen.theirs)]
    return cluster in seen.with_own and given == [False, True]


def _self_managed(seen: Seen, place: str) -> bool:
    return seen.offer["metadata"]["annotations"].get(LIFECYCLE_ANNOTATION) == "self"


TABLE: Final = (
    Difference("a Placement that is deleted uninstalls the addon everywhere", _lost_placement),
    Difference("an addon that manages itself waits for `Configured`, which nobody says", _self_managed),
    Difference("nothing new is said of the works of a cluster that waits for its turn", _unsaid),
    Difference("a cluster with configurations of its own, or that a later placement chose, is never counted as done", _counted),
    Difference("clusters that a later placement chose take places in the rollout of the earlier one", _shared),
    Difference("clusters whose names come first are begun though `maxConcurrency` are under way", _overtaken),
    Difference("new clusters of a group wait for those under way in any group", _held_up),
    Difference("too many failures in a group stop the next group, not the group", _despite_failures),
    Difference("a changed configuration is not noticed while one before it is not applied", _hidden),
    Difference("a configuration that a ManagedClusterAddOn names is changed though it is not its turn", _own_at_once),
    Difference("a configuration that is not there is passed over", _missing_config),
    Difference("a configuration of any kind that a ManagedClusterAddOn names is read", _unread),
    Difference("a work that cannot be applied is still progressing", _failed),
)


def explanation(seen: Seen, place: str) -> str | None:
    return next((one.name for one in TABLE if one.explains(seen, place)), None)
