"""Which clusters get a change next: by strategy, by how the others fare, by time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.cluster.v1alpha1 import RolloutStrategy
from muster.api.cluster.v1beta1 import PlacementDecision
from muster.placement.decisions import Precedence, divided_groups, groups_of
from muster.placement.rollout import BadStrategy, Group, Progress, Rollout, State, is_done, plan

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PENDING = Progress(State.PENDING)


def ago(state: State, seconds: float) -> Progress:
    return Progress(state, NOW - timedelta(seconds=seconds))


DONE = ago(State.SUCCEEDED, 10_000)
FAILED = ago(State.FAILED, 10)
RUNNING = ago(State.PROGRESSING, 10)


def one_group(*clusters: str) -> list[Group]:
    return [Group("", 0, frozenset(clusters))]


def strategy(kind: str, **config: Any) -> RolloutStrategy:
    field = {"All": "all", "Progressive": "progressive", "ProgressivePerGroup": "progressivePerGroup"}[kind]
    return msgspec.convert({"type": kind, field: config}, RolloutStrategy)


def next_of(groups: list[Group], how: RolloutStrategy, **known: Progress) -> Rollout:
    return plan(groups, how, known, NOW)


ABCDE = one_group("a", "b", "c", "d", "e")


def test_all_begins_everybody_at_once_whatever_happens() -> None:
    assert next_of(ABCDE, RolloutStrategy()).begin == ("a", "b", "c", "d", "e")
    found = next_of(ABCDE, strategy("All", progressDeadline="5s"), a=FAILED, b=RUNNING, c=DONE)
    assert (found.begin, found.late, found.stopped) == (("d", "e"), ("a", "b"), False)


def test_progressive_begins_so_many_at_a_time_by_name() -> None:
    two = strategy("Progressive", maxConcurrency=2)
    assert next_of(ABCDE, two).begin == ("a", "b")
    assert next_of(ABCDE, two, a=PENDING, b=RUNNING).begin == ()
    assert next_of(ABCDE, two, a=DONE, b=RUNNING).begin == ("c",)
    assert next_of(ABCDE, two, a=DONE, b=DONE).begin == ("c", "d")
    assert next_of(ABCDE, two, a=DONE, b=DONE, c=DONE, d=DONE, e=DONE) == Rollout(settled=True)


@pytest.mark.parametrize(("concurrency", "expected"), [("40%", 2), ("41%", 3), ("1%", 1), (9, 5), (0, 5), ("0%", 5), (None, 5)])
def test_concurrency_is_a_number_or_a_part_rounded_up(concurrency: Any, expected: int) -> None:
    how = strategy("Progressive", **({} if concurrency is None else {"maxConcurrency": concurrency}))
    assert len(next_of(ABCDE, how).begin) == expected


def test_who_has_just_succeeded_keeps_its_place_for_the_minimum_time() -> None:
    soaking = strategy("Progressive", maxConcurrency=1, minSuccessTime="1m")
    found = next_of(ABCDE, soaking, a=ago(State.SUCCEEDED, 20))
    assert (found.begin, found.again) == ((), NOW + timedelta(seconds=40))
    assert next_of(ABCDE, soaking, a=ago(State.SUCCEEDED, 60)).begin == ("b",)


def test_a_success_in_the_future_counts_from_now() -> None:
    soaking = strategy("Progressive", maxConcurrency=1, minSuccessTime="1m")
    never = Progress(State.SUCCEEDED, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert next_of(ABCDE, soaking, a=never).again == NOW + timedelta(minutes=1)
    assert next_of(ABCDE, strategy("Progressive", maxConcurrency=1), a=never).begin == ("b",)


def test_failures_stop_a_progressive_rollout_unless_they_are_tolerated() -> None:
    strict = strategy("Progressive", maxConcurrency=3)
    found = next_of(ABCDE, strict, a=FAILED)
    assert (found.begin, found.stopped, found.failures) == ((), True, 1)
    tolerant = strategy("Progressive", maxConcurrency=3, maxFailures="20%")
    assert next_of(ABCDE, tolerant, a=FAILED).begin == ("b", "c")
    assert next_of(ABCDE, tolerant, a=FAILED, b=FAILED).stopped
    assert next_of(ABCDE, strict, a=DONE).begin == ("b", "c", "d"), "a failure that recovered is none"


def test_more_tolerated_failures_than_clusters_tolerate_all_of_them() -> None:
    assert not next_of(one_group("a", "b"), strategy("Progressive", maxFailures=10), a=FAILED, b=FAILED).stopped


def test_after_the_deadline_a_place_is_free_and_a_failure_counted() -> None:
    how = strategy("Progressive", maxConcurrency=1, progressDeadline="1m", maxFailures=1)
    waiting = next_of(ABCDE, how, a=ago(State.PROGRESSING, 50))
    assert (waiting.begin, waiting.again) == ((), NOW + timedelta(seconds=10))
    late = next_of(ABCDE, how, a=ago(State.PROGRESSING, 60))
    assert (late.begin, late.late, late.failures, late.stopped) == (("b",), ("a",), 1, False)
    assert next_of(ABCDE, how, a=ago(State.FAILED, 50)).begin == (), "it may still recover, in its place"
    assert next_of(ABCDE, how, a=PENDING).again is None, "who has said nothing is not late"


GROUPS = [Group("canary", 0, frozenset("ab")), Group("rest", 1, frozenset("cd")), Group("last", 2, frozenset("e"))]


def test_group_by_group_the_next_begins_when_one_is_settled() -> None:
    how = strategy("ProgressivePerGroup")
    assert next_of(GROUPS, how).begin == ("a", "b")
    assert next_of(GROUPS, how, a=DONE, b=RUNNING).begin == ()
    assert next_of(GROUPS, how, a=DONE, b=DONE).begin == ("c", "d")
    assert next_of(GROUPS, how, a=DONE, b=FAILED).stopped
    half = strategy("ProgressivePerGroup", maxFailures="50%")
    assert next_of(GROUPS, half, a=DONE, b=FAILED).begin == ("c", "d")
    assert next_of(GROUPS, half, a=FAILED, b=FAILED).stopped


@pytest.mark.parametrize("kind", ["Progressive", "ProgressivePerGroup"])
def test_mandatory_groups_come_first_and_tolerate_no_failure(kind: str) -> None:
    groups = [{"groupName": "last"}, {"groupIndex": 1}]
    how = strategy(kind, mandatoryDecisionGroups=groups, maxFailures=5)
    assert next_of(GROUPS, how).begin == ("e",)
    assert next_of(GROUPS, how, e=RUNNING).begin == ()
    assert next_of(GROUPS, how, e=DONE).begin == ("c", "d")
    assert next_of(GROUPS, how, e=DONE, c=DONE, d=FAILED).stopped
    assert next_of(GROUPS, how, e=DONE, c=DONE, d=DONE).begin == ("a", "b")


def test_busy_clusters_of_other_groups_do_not_hold_up_the_rest() -> None:
    how = strategy("Progressive", mandatoryDecisionGroups=[{"groupName": "canary"}], maxConcurrency=2)
    assert next_of(GROUPS, how, a=DONE, b=DONE, c=RUNNING).begin == ("d",)


@pytest.mark.parametrize(
    "how",
    [
        RolloutStrategy(type="Sideways"),
        strategy("Progressive", maxConcurrency="many"),
        strategy("ProgressivePerGroup", maxFailures="x%"),
        strategy("Progressive", progressDeadline="soon"),
        strategy("All", progressDeadline="5"),
        strategy("Progressive", minSuccessTime="1y"),
    ],
)
def test_a_strategy_that_cannot_be_followed_is_refused(how: RolloutStrategy) -> None:
    with pytest.raises(BadStrategy, match="rolloutStrategy"):
        next_of(ABCDE, how)


def decision(labels: dict[str, str], *clusters: str) -> PlacementDecision:
    chosen = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    return PlacementDecision.decode({"metadata": {"name": "d", "labels": labels}, "status": {"decisions": chosen}})


def test_decisions_are_grouped_by_their_labels_and_a_cluster_has_one_group() -> None:
    name, index = (f"cluster.open-cluster-management.io/decision-group-{part}" for part in ("name", "index"))
    found = groups_of(
        [
            decision({name: "b", index: "10"}, "c", "d"),
            decision({name: "a", index: "2"}, "a"),
            decision({name: "a", index: "2"}, "b", "c"),
            decision({index: "junk"}, "e", "taken"),
        ],
        frozenset({"taken"}),
    )
    assert [(group.name, group.index, sorted(group.clusters)) for group in found] == [
        ("", 0, ["e"]),
        ("a", 2, ["a", "b", "c"]),
        ("b", 10, ["d"]),
    ]


@pytest.mark.parametrize(("precedence", "expected"), [(Precedence.FIRST, ["ab", "c", ""]), (Precedence.LAST, ["a", "", "bc"])])
def test_a_cluster_that_several_placements_chose_belongs_to_the_first_or_the_last(
    precedence: Precedence, expected: list[str]
) -> None:
    chosen = [[decision({}, *"ab")], [decision({}, *"bc")], [decision({}, *"bc")]]
    divided = divided_groups(chosen, precedence)
    assert ["".join(sorted(cluster for group in groups for cluster in group.clusters)) for groups in divided] == expected


@pytest.mark.parametrize(("kind", "seconds", "expected"), [("All", 1, True), ("Progressive", 1, False), ("Progressive", 61, True)])
def test_a_cluster_is_done_when_it_has_soaked(kind: str, seconds: float, expected: bool) -> None:
    soaked = strategy(kind, minSuccessTime="1m")
    assert is_done(soaked, ago(State.SUCCEEDED, seconds), NOW) is expected
    assert not is_done(soaked, ago(State.FAILED, seconds), NOW)


clusters = st.sets(st.sampled_from("abcdefgh"), min_size=1)
progresses = st.builds(
    Progress, st.sampled_from(State), st.none() | st.floats(0, 300).map(lambda seconds: NOW - timedelta(seconds=seconds))
)
amounts = st.integers(0, 9) | st.integers(0, 100).map(lambda part: f"{part}%")
configs = st.fixed_dictionaries(
    {},
    optional={
        "minSuccessTime": st.sampled_from(["0", "30s", "2m"]),
        "progressDeadline": st.sampled_from(["None", "0s", "1m"]),
        "maxFailures": amounts,
        "maxConcurrency": amounts,
        "mandatoryDecisionGroups": st.lists(st.integers(0, 2).map(lambda index: {"groupIndex": index}), max_size=2),
    },
)
strategies = st.builds(
    lambda kind, config: strategy(kind, **config), st.sampled_from(["All", "Progressive", "ProgressivePerGroup"]), configs
)


@st.composite
def grouped(draw: st.DrawFn) -> list[Group]:
    members = sorted(draw(clusters))
    places = draw(st.lists(st.integers(0, 2), min_size=len(members), max_size=len(members)))
    return [
        Group(str(index), index, frozenset(member for member, place in zip(members, places, strict=True) if place == index))
        for index in sorted(set(places))
    ]


@given(grouped(), strategies, st.dictionaries(st.sampled_from("abcdefgh"), progresses))
def test_only_new_chosen_clusters_are_begun_and_none_when_stopped(
    groups: list[Group], how: RolloutStrategy, known: dict[str, Progress]
) -> None:
    chosen = {cluster for group in groups for cluster in group.clusters}
    found = plan(groups, how, known, NOW)
    assert set(found.begin) <= chosen - known.keys()
    assert list(found.begin) == sorted(found.begin)
    assert not (found.stopped and found.begin)
    assert found.again is None or found.again > NOW
    assert set(found.late) <= chosen & known.keys()


@given(grouped(), strategies)
def test_a_rollout_in_which_everybody_succeeds_reaches_everybody(groups: list[Group], how: RolloutStrategy) -> None:
    chosen = {cluster for group in groups for cluster in group.clusters}
    known: dict[str, Progress] = {}
    for _ in range(len(chosen) + 1):
        found = plan(groups, how, known, NOW)
        if not found.begin:
            break
        known |= dict.fromkeys(found.begin, DONE)
    assert known.keys() == chosen
    assert found.settled


@given(grouped(), st.integers(1, 4), st.data())
def test_a_progressive_rollout_never_has_more_under_way_than_it_may(groups: list[Group], most: int, data: st.DataObject) -> None:
    how = strategy("Progressive", maxConcurrency=most)
    known: dict[str, Progress] = {}
    for _ in range(20):
        known |= dict.fromkeys(plan(groups, how, known, NOW).begin, PENDING)
        busy = [cluster for cluster, progress in known.items() if progress != DONE]
        assert len(busy) <= most
        if busy:
            known[data.draw(st.sampled_from(sorted(busy)))] = DONE
