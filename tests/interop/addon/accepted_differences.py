"""Where our addon manager differs from upstream's, on purpose: the one table of it.

A row explains one fact of a step (`Seen.differences`), from what is in the step; each has its place in docs/addons.md. Clusters of
one placement wait for each other, so what holds up one of them may be seen at all. A row that is `exact` says what both must have
made of the very fact: anything else there is not explained, and `test_differential` puts something else there to see that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from muster.api.addons import LIFECYCLE_ANNOTATION
from muster.machinery.objects import Object
from tests.interop.addon.verdicts import Facts, Seen, of_answer
from tests.support.random_addons import NAME, SETTINGS

Reference = tuple[Any, ...]
"""To a configuration: group, resource, and namespace, name and hash."""
WORK: Final = f"addon-{NAME}-deploy-0"
CONFIGURED: Final = ("True", "ConfigurationsConfigured", "Configurations configured")
NOT_CONFIGURED: Final = ("False", "ConfigurationsNotConfigured", "Configurations updated and not configured yet")
NOT_FOUND: Final = "Placement default/{} is not found; no cluster gains or loses the addon by it"
NOT_READY: Final = ("True", "Progressing", "progressing... work is not ready")
NOTHING_SAID: Final = ("", "", "")
HAS_FAILED: Final = ("False", "Failed", f"failed to apply manifestWork {WORK}: ")
UNSUPPORTED: Final = (
    "False",
    "ConfigurationUnsupported",
    "Configuration with gvr /secrets is not supported for this addon",
)
UNDER_WAY: Final = (
    ("WaitingForManifestApplied", "Waiting for ManagedClusterAddOn ManifestApplied condition"),
    ("Progressing", "progressing... mca and work configs mismatch"),
    ("Progressing", "progressing... no addon works"),
)
_DEPLOYED: Final = ("True", "AddonManifestApplied", "manifests of addon are applied successfully")
_REFUSED: Final = ("False", "AddonManifestAppliedFailed", "failed to apply the manifests of addon")
APPLIED: Final = {"ready": _DEPLOYED, "applied": _DEPLOYED, "failing": _REFUSED, "silent": NOTHING_SAID}
"""By how the work agent fares, what is said of its works."""
_DONE: Final = ("False", "Completed", "completed with no errors.")
PROGRESS: Final = {"ready": _DONE, "applied": NOT_READY, "failing": HAS_FAILED, "silent": NOT_READY}


@dataclass(frozen=True)
class Difference:
    name: str
    """What upstream does: the first cell of its row in docs/addons.md, which says what ours does instead."""
    explains: Callable[[Seen, str], bool]
    exact: bool = False
    """Whether it explains nothing but what it makes of the very fact; else what may follow from it anywhere in the step."""


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


# What a cluster has, and whose turn it is


def _desired(facts: Facts, cluster: str) -> list[Reference]:
    """The configurations that it was given, with their hashes."""
    return [one[:3] for one in facts.get(f"{cluster} references") or ()]


def _names(facts: Facts, cluster: str) -> list[Reference]:
    """The configurations that it was given, whatever is in them."""
    return [(*one[:2], *one[2][:2]) for one in _desired(facts, cluster)]


def _work(facts: Facts, cluster: str) -> Object | None:
    """What its work carries, if it has one."""
    return facts.get(f"{cluster} work {WORK}")


def _before(seen: Seen) -> Facts:
    return of_answer(seen.before) if seen.before is not None else {}


def _is_left_alone(seen: Seen, facts: Facts, cluster: str) -> bool:
    """A cluster has what it had before the step, neither more nor less."""
    before = _before(seen)
    return _desired(facts, cluster) == _desired(before, cluster) and _work(facts, cluster) in (None, _work(before, cluster))


def _waits(seen: Seen, facts: Facts, cluster: str) -> bool:
    """It is told that it is not its turn, and is left alone."""
    return facts.get(f"{cluster} Configured") == NOT_CONFIGURED and _is_left_alone(seen, facts, cluster)


def _has_its_turn(facts: Facts, cluster: str) -> bool:
    """It has been given configurations, and its work carries them, unless one is missing."""
    hashes = {
        f"{kind}.{group}/{'/'.join(config[:2])}".replace("./", "/"): config[2] for group, kind, config in _desired(facts, cluster)
    }
    complete = _work(facts, cluster) == hashes or not all(hashes.values())
    return facts.get(f"{cluster} Configured") == CONFIGURED and complete


def _is_told_rightly(seen: Seen, place: str) -> bool:
    """What ours says there of a cluster, if it is a condition, is one that its agent and its turn can bring."""
    cluster, _, kind = place.partition(" ")
    agent, said = _agent(seen, cluster), seen.ours.get(place)
    if kind == "Configured":
        return said in (CONFIGURED, NOT_CONFIGURED)
    if kind == "ManifestApplied" and said is not None:
        # Of works as they are, as they were when somebody last spoke of them, or of none.
        return said in (NOTHING_SAID, APPLIED[agent], _before(seen).get(place))
    if kind == "Progressing" and said is not None:
        unsupported = cluster in seen.with_own and said == UNSUPPORTED
        return said == PROGRESS[agent] or said[1:] in UNDER_WAY or unsupported
    return True


def _agent(seen: Seen, cluster: str) -> str:
    return str(seen.step["agents"].get(cluster, "silent"))


def _own_placement(seen: Seen, cluster: str) -> str:
    """The placement that counts for a cluster: of those that are there and chose it, the last."""
    asked = [one["name"] for one in seen.offer["spec"]["installStrategy"].get("placements", ())]
    chosen = [name for name in asked if cluster in seen.chosen.get(name, ()) and name not in seen.lost]
    return chosen[-1] if chosen else ""


def _strategy(seen: Seen, placement: str) -> Object:
    asked = seen.offer["spec"]["installStrategy"].get("placements", ())
    return next((one["rolloutStrategy"] for one in asked if one["name"] == placement), {})


def _share(seen: Seen, placement: str) -> set[str]:
    """The clusters for which a placement counts."""
    return {cluster for cluster in seen.chosen.get(placement, ()) if _own_placement(seen, cluster) == placement}


def _another_turn(seen: Seen, cluster: str) -> int:
    """Positive where it has its turn by ours and waits by theirs, negative the other way round, else zero."""
    for sign, first, second in ((1, seen.ours, seen.theirs), (-1, seen.theirs, seen.ours)):
        if _has_its_turn(first, cluster) and _waits(seen, second, cluster):
            return sign
    return 0


# The rows


def _lost_placement(seen: Seen, place: str) -> bool:
    """Upstream takes the addon away where no other placement chose it, and configures it nowhere as long as one is lost. Ours says
    that it is lost, keeps what clusters were given, and goes on with other placements."""
    subject, _, kind = place.partition(" ")
    if not seen.lost:
        return False
    if subject in seen.lost:
        return kind == "progress" and seen.ours[place] == ("Unknown", "PlacementNotFound", NOT_FOUND.format(subject))
    before = _before(seen)
    if subject in seen.chosen:
        if kind == "references":
            same = [one[:3] for one in seen.ours[place]] == [one[:3] for one in seen.theirs[place]]
            return same and seen.ours[f"{subject} progress"][:2] == ("False", "Completed")
        # Whose configurations are others now is no longer told how far they were.
        return (
            kind == "progress"
            and seen.theirs[place] in (before.get(place), NOTHING_SAID)
            and (seen.ours[place][2:3] == (len(seen.chosen[subject]),) or seen.ours[place] == NOTHING_SAID)
        )
    if not _is_told_rightly(seen, place):
        return False
    if _keeps(seen, subject) or _has_defaults(seen, subject):
        return True
    left = _names(seen.theirs, subject) == _names(before, subject) and (
        subject in seen.with_own or _is_left_alone(seen, seen.theirs, subject)
    )
    turn = f"{subject} Configured"
    stands_still = left and seen.theirs.get(turn) in (before.get(turn, NOTHING_SAID), NOTHING_SAID)
    goes_on = _has_its_turn(seen.ours, subject) or _waits(seen, seen.ours, subject)
    return stands_still and bool(_own_placement(seen, subject)) and goes_on


def _keeps(seen: Seen, cluster: str) -> bool:
    """By upstream it has lost the addon or has another placement's configurations, by ours it has what it had."""
    held = _desired(_before(seen), cluster)
    taken = f"{cluster} Configured" not in seen.theirs or _desired(seen.theirs, cluster) != held
    return bool(held) and taken and f"{cluster} Configured" in seen.ours and _is_left_alone(seen, seen.ours, cluster)


def _has_defaults(seen: Seen, cluster: str) -> bool:
    """One that was never given anything, and that no placement chose: as if it were installed by hand."""
    if _desired(_before(seen), cluster) or _own_placement(seen, cluster) or f"{cluster} Configured" in seen.theirs:
        return False
    defaults = [one[:3] for one in seen.ours["defaults"]]
    return _has_its_turn(seen.ours, cluster) and (cluster in seen.with_own or _desired(seen.ours, cluster) == defaults)


def _numbers_differ(seen: Seen, place: str) -> bool:
    """Of a progression, and not who was selected."""
    ours, theirs = seen.ours[place], seen.theirs[place]
    return len(ours) == len(theirs) == 6 and ours[2] == theirs[2]


def _missing_config(seen: Seen, place: str) -> bool:
    """Both refer to it, without a hash; upstream deploys all the same."""
    cluster, _, kind = place.partition(" ")
    ours, theirs = (_desired(facts, cluster) for facts in (seen.ours, seen.theirs))
    if ours != theirs or all(one[2][2] for one in ours if one[2]):
        return False
    before = _before(seen)
    if kind.startswith("work "):
        return _work(seen.ours, cluster) in (None, _work(before, cluster)) and "" in (_work(seen.theirs, cluster) or {}).values()
    if kind == "ManifestApplied":
        return _is_told_rightly(seen, place) and seen.theirs[place] in (NOTHING_SAID, APPLIED[_agent(seen, cluster)])
    return kind == "Progressing" and seen.ours[place][1:] in UNDER_WAY


def _failed(seen: Seen, place: str) -> bool:
    """Ours says of its own cluster that it has failed; where that is too many, its mates are not begun."""
    subject, _, kind = place.partition(" ")
    if subject not in seen.chosen:
        own = kind == "Progressing" and _has_failed(seen, subject)
        placement = _own_placement(seen, subject)
        mates = _share(seen, placement) - {subject}
        held_up = _another_turn(seen, subject) < 0 and _strategy(seen, placement).get("type") != "All"
        held_up = held_up and _is_told_rightly(seen, place)
        return own or (held_up and any(_has_failed(seen, mate) for mate in mates))
    if kind != "progress" or not any(_has_failed(seen, cluster) for cluster in _share(seen, subject)):
        return False
    # Who failed just now has its deadline before it; who waits for that is neither under way nor late, and nobody else differs.
    failed = sum(_has_failed(seen, cluster) for cluster in _share(seen, subject))
    waiting = sum(_another_turn(seen, cluster) < 0 for cluster in _share(seen, subject))
    (*_, begun, _, late), (*_, others_begun, _, others_late) = seen.ours[place], seen.theirs[place]
    as_many = begun + late + waiting == others_begun + others_late
    return _numbers_differ(seen, place) and as_many and abs(others_late - late) <= failed + waiting


def _has_failed(seen: Seen, cluster: str) -> bool:
    said = (seen.theirs.get(f"{cluster} Progressing"), seen.ours.get(f"{cluster} Progressing"))
    return _agent(seen, cluster) == "failing" and said == (NOT_READY, HAS_FAILED)


def _unread(seen: Seen, place: str) -> bool:
    subject, _, kind = place.partition(" ")
    spec = seen.offer["spec"]
    kinds = [*spec["supportedConfigs"], *(one for each in spec["installStrategy"].get("placements", ()) for one in each["configs"])]
    read = {(one["group"], one["resource"]) for one in (SETTINGS, *kinds)}
    if subject in seen.chosen and kind == "references":
        # Of an addon that manages itself now, from the time when it was another's to say.
        ours, theirs = ([one for one in facts[place] if one[:2] in read] for facts in (seen.ours, seen.theirs))
        return _manages_itself(seen) and ours == theirs
    own = _mates(seen, place) & seen.with_own
    return any(one[:2] not in read for cluster in own for one in seen.theirs.get(f"{cluster} references") or ())


def _counted(seen: Seen, place: str) -> bool:
    if place.partition(" ")[2] not in ("progress", "references") or _subject(place) not in seen.chosen:
        return False
    return _is_shared(seen, _subject(place)) or bool(seen.chosen[_subject(place)] & seen.with_own)


def _is_shared(seen: Seen, placement: str) -> bool:
    """A later placement has taken clusters from it."""
    return seen.chosen.get(placement, frozenset()) != _share(seen, placement)


def _shared(seen: Seen, place: str) -> bool:
    """In a rollout from which a later placement took clusters, others have another turn, or are counted otherwise."""
    subject, _, kind = place.partition(" ")
    if subject in seen.chosen:
        return kind == "progress" and _is_shared(seen, subject) and _numbers_differ(seen, place)
    placement = _own_placement(seen, subject)
    limited = _strategy(seen, placement).get("type", "All") != "All"
    return limited and _is_shared(seen, placement) and _another_turn(seen, subject) != 0 and _is_told_rightly(seen, place)


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
    if cluster in seen.with_own and given == [False, True]:
        return True
    # Whether that is under way and takes a place counts for its mates.
    placement, before = _own_placement(seen, cluster), _before(seen)
    changed = (mate for mate in _share(seen, placement) & seen.with_own if _desired(seen.theirs, mate) != _desired(before, mate))
    return _strategy(seen, placement).get("type", "All") != "All" and _another_turn(seen, cluster) != 0 and any(changed)


def _manages_itself(seen: Seen) -> bool:
    return bool(seen.offer["metadata"]["annotations"].get(LIFECYCLE_ANNOTATION) == "self")


def _self_managed(seen: Seen, place: str) -> bool:
    """Where nobody has said `Configured`, upstream has deployed nothing, ours what the addon's status refers to; where somebody
    had, ours deploys that at the hashes it says, and upstream whatever there is."""
    cluster, _, kind = place.partition(" ")
    if not _manages_itself(seen) or cluster in seen.chosen:
        return False
    if kind.startswith("work ") and any(
        seen.hashes.get((*one[:2], *one[2][:2])) != one[2][2] for one in _desired(seen.ours, cluster)
    ):
        return seen.ours[place] == _before(seen).get(place)
    hashes = [one[2][2] for one in _desired(seen.ours, cluster) if one[2]]
    if _desired(seen.ours, cluster) != _desired(seen.theirs, cluster) or _work(seen.theirs, cluster) is not None:
        return False
    if kind.startswith("work "):
        return sorted(seen.ours[place].values()) == sorted(hashes)
    told = kind == "ManifestApplied" and _is_told_rightly(seen, place)
    return told and seen.theirs[place] == NOTHING_SAID and _work(seen.ours, cluster) is not None


TABLE: Final = (
    Difference(
        "a Placement that is deleted uninstalls the addon everywhere, and nothing of it is configured until it is back",
        _lost_placement,
        exact=True,
    ),
    Difference("an addon that manages itself waits for `Configured`, which is never set", _self_managed, exact=True),
    Difference("changes of the works of a cluster that waits for its turn are not reported", _unsaid),
    Difference("a cluster with configurations of its own, or that a later placement chose, is never counted as done", _counted),
    Difference("clusters that a later placement chose take places in the rollout of the earlier one", _shared, exact=True),
    Difference("clusters whose names come first are begun though `maxConcurrency` are under way", _overtaken),
    Difference("new clusters of a group wait for those under way in any group", _held_up),
    Difference("too many failures in a group stop the next group, not the group", _despite_failures),
    Difference("a changed configuration is not noticed while one before it is not applied", _hidden),
    Difference("a configuration that a ManagedClusterAddOn names is changed though it is not its turn", _own_at_once),
    Difference("a configuration that is not there is passed over", _missing_config, exact=True),
    Difference("a configuration of any kind that a ManagedClusterAddOn names is read", _unread),
    Difference("a work that cannot be applied is still progressing", _failed, exact=True),
)


def explanation(seen: Seen, place: str) -> str | None:
    return next((one.name for one in TABLE if one.explains(seen, place)), None)
