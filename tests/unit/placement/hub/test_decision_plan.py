"""From decisions that are written to those that are wanted: at no moment is a cluster missing that stays chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from muster.placement.hub.decision_plan import LIMIT, Change, Create, Decision, Delete, Write, free_names, in_batches, plan_writes

NAMES = [f"p-decision-{number}" for number in range(1, 9)]


def decision(*clusters: str, **labels: str) -> Decision:
    return Decision({"placement": "p", **labels}, tuple((cluster, 0) for cluster in clusters))


def planned(present: Mapping[str, Decision], wanted: Mapping[str, Decision], limit: int = LIMIT) -> list[Write]:
    return plan_writes(present, wanted, free_names("p", lambda name: name in present or name in wanted), limit)


def replayed(present: Mapping[str, Decision], writes: Sequence[Write]) -> list[dict[str, Decision]]:
    """What a reader finds before the first write, after each, and within those that are two requests."""
    state = dict(present)
    seen = [dict(state)]
    for write in writes:
        match write:
            case Create(name, content):
                assert name not in state
                seen.append({**state, name: Decision(content.labels)})
                state[name] = content
            case Change(name, content, labels, clusters):
                before = state[name]
                assert labels or clusters
                relabelled = {**before.labels, **content.labels} if labels else before.labels
                seen.append({**state, name: Decision(relabelled, before.clusters)})
                state[name] = Decision(relabelled, content.clusters if clusters else before.clusters)
            case Delete(name):
                del state[name]
        seen.append(dict(state))
    return seen


def chosen(decisions: Mapping[str, Decision]) -> set[str]:
    return {cluster for one in decisions.values() for cluster in one.names}


@st.composite
def some_decisions(draw: st.DrawFn) -> dict[str, Decision]:
    clusters = draw(st.lists(st.sampled_from([f"c{number:03}" for number in range(24)]), unique=True))
    found: dict[str, Decision] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6)):
        size = draw(st.integers(0, 4))
        found[name] = decision(*clusters[:size], group=draw(st.sampled_from(["0", "1"])))
        clusters = clusters[size:]
    return found


@given(some_decisions(), some_decisions(), st.integers(1, 4))
def test_defect_4_at_every_moment_every_cluster_that_stays_chosen_is_in_some_decision(
    present: dict[str, Decision], wanted: dict[str, Decision], limit: int
) -> None:
    """Upstream's defect 4, ocm#1346."""
    limit = max([limit, *(len(one.clusters) for one in (*present.values(), *wanted.values()))])
    writes = planned(present, wanted, limit)
    states = replayed(present, writes)
    staying = chosen(present) & chosen(wanted)
    for state in states:
        assert staying <= chosen(state)
        assert chosen(state) <= chosen(present) | chosen(wanted)
        assert all(len(one.clusters) <= limit for one in state.values())
    assert states[-1] == {
        name: Decision({**present.get(name, one).labels, **one.labels}, one.clusters) for name, one in wanted.items()
    }


@given(some_decisions())
def test_what_is_as_wanted_costs_no_write(decisions: dict[str, Decision]) -> None:
    assert planned(decisions, decisions) == []
    labelled = {name: Decision({**one.labels, "of": "users"}, one.clusters) for name, one in decisions.items()}
    assert planned(labelled, decisions) == [], "labels of others stay"


def test_a_cluster_that_sorts_in_front_moves_the_last_one_on_before_the_first_decision_is_written() -> None:
    clusters = [f"c{number:03}" for number in range(1, 201)]
    first, second = decision(*clusters[:100]), decision(*clusters[100:])
    moved = ["c000", *clusters]
    wanted = dict(zip(NAMES, (decision(*part) for part in in_batches(moved)), strict=False))
    writes = planned({NAMES[0]: first, NAMES[1]: second}, wanted)
    assert [write.name for write in writes] == [NAMES[2], NAMES[1], NAMES[0]]


def test_the_ordinary_change_is_one_write() -> None:
    (write,) = planned({NAMES[0]: decision("a", "b")}, {NAMES[0]: decision("a", "c")})
    assert write == Change(NAMES[0], decision("a", "c"), labels=False, clusters=True)


def test_full_decisions_that_swap_a_cluster_need_one_in_transit() -> None:
    left, right = [f"l{number:02}" for number in range(LIMIT)], [f"r{number:02}" for number in range(LIMIT)]
    present = {NAMES[0]: decision(*left), NAMES[1]: decision(*right)}
    wanted = {NAMES[0]: decision(*left[1:], right[0]), NAMES[1]: decision(*right[1:], left[0])}
    writes = planned(present, wanted)
    assert [type(write) for write in writes] == [Create, Change, Change, Delete]
    assert all(len(one.clusters) <= LIMIT for state in replayed(present, writes) for one in state.values())


def test_surplus_decisions_go_last() -> None:
    present = {NAMES[0]: decision("a"), NAMES[1]: decision("b"), NAMES[2]: decision("c")}
    writes = planned(present, {NAMES[0]: decision("b", "c")})
    assert [type(write) for write in writes] == [Change, Delete, Delete]


def test_names_that_are_taken_are_passed_over() -> None:
    names = free_names("p", lambda name: name == "p-decision-2")
    assert [next(names) for _ in range(3)] == ["p-decision-1", "p-decision-3", "p-decision-4"]
