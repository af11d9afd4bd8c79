"""The arithmetic of rollouts: what the next sizes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.workloads.rollout import Group, RolloutSpec, first_size, recreate, rescale, resolve, roll, was_rescaled


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "pods"),
    [
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        (0, 0, 3, (0, 1)),
        ("0%", "100%", 3, (0, 3)),
        (2, 9, 3, (2, 3)),
    ],
)
def test_percentages_become_pods_with_surge_rounded_up(
    surge: int | str, unavailable: int | str, replicas: int, pods: tuple[int, int]
) -> None:
    assert resolve(surge, unavailable, replicas) == pods


def test_a_new_set_begins_with_the_room_that_surge_leaves() -> None:
    assert first_size(RolloutSpec(4, 1, 1), [Group("old", 4)]) == 1
    assert first_size(RolloutSpec(4, 1, 1), []) == 4
    assert first_size(RolloutSpec(4, recreate=True), []) == 4


def test_old_pods_go_only_as_new_ones_become_available() -> None:
    wish = RolloutSpec(4, 1, 1)
    old = Group("old", 4, 4, available=4)
    assert roll(wish, Group("new", 1, 1, available=0), [old]) == {"old": 3}
    assert roll(wish, Group("new", 2, 2, available=0), [Group("old", 3, 3, available=3)]) == {}
    assert roll(wish, Group("new", 2, 2, available=2), [Group("old", 3, 3, available=3)]) == {"old": 1}


def test_old_pods_that_do_not_work_go_first() -> None:
    wish = RolloutSpec(3, 1, 0)
    broken = Group("a", 2, 2, available=0, created="1")
    working = Group("b", 1, 1, available=1, created="2")
    assert roll(wish, Group("new", 1, 1, available=1), [working, broken]) == {"a": 1}


def test_recreating_waits_for_the_last_old_pod() -> None:
    wish = RolloutSpec(2, recreate=True)
    assert recreate(wish, None, [Group("old", 2, 2, 2)]) == {"old": 0}
    assert recreate(wish, Group("new", 0), [Group("old", 0, 0, 0, leaving=1)]) == {}
    assert recreate(wish, Group("new", 0), [Group("old", 0)]) == {"new": 2}


def test_a_rescaled_deployment_scales_its_only_set() -> None:
    group = Group("new", 2, 2, 2, noted_replicas=2, noted_most=3)
    assert was_rescaled(RolloutSpec(5), [group])
    assert not was_rescaled(RolloutSpec(2), [group])
    assert rescale(RolloutSpec(5), group, []) == {"new": 5}


def test_a_deployment_rescaled_amid_a_rollout_shares_by_size() -> None:
    wish = RolloutSpec(20, 4, 0)
    new = Group("new", 4, 4, 4, created="2", noted_replicas=10, noted_most=12)
    old = Group("old", 8, 8, 8, created="1", noted_replicas=10, noted_most=12)
    assert rescale(wish, new, [old]) == {"new": 8, "old": 16}
    assert rescale(RolloutSpec(0, 0, 0), new, [old]) == {"new": 0, "old": 0}


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    sizes=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=4),
)
def test_no_step_of_a_rolling_update_breaks_its_bounds(
    replicas: int, surge: int, unavailable: int, sizes: list[tuple[int, int]]
) -> None:
    surge, unavailable = resolve(surge, unavailable, replicas)
    wish = RolloutSpec(replicas, surge, unavailable)
    groups = [Group(str(n), wanted, wanted, min(available, wanted), created=str(n)) for n, (wanted, available) in enumerate(sizes)]
    new, old = groups[0], groups[1:]
    step = roll(wish, new, old)
    total = sum(group.wanted for group in groups)
    after = {group.name: step.get(group.name, group.wanted) for group in groups}
    assert all(size >= 0 for size in after.values())
    assert sum(after.values()) <= max(wish.most, total)
    shrunk_old = {group.name for group in old if after[group.name] < group.wanted}
    if shrunk_old:
        kept = sum(min(group.available, after[group.name]) for group in groups)
        assert kept >= min(wish.least_available, sum(group.available for group in groups))
