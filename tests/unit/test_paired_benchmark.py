"""Figures in pairs: what the machine does to both sides of a pair does not count, and who begins changes."""

import random

import pytest
from bench.paired import compare, ratio, verb_flags


def test_a_difference_is_seen_that_the_figures_themselves_hide() -> None:
    chance = random.Random(3)
    pairs = []
    for _ in range(16):
        machine = chance.uniform(500, 1500)
        pairs.append((machine * 0.95 * chance.uniform(0.98, 1.02), machine * chance.uniform(0.98, 1.02)))
    found = ratio("get", pairs)
    assert found.differs
    assert found.low < 0.95 < found.high
    assert str(found).endswith("slower")


def test_no_difference_is_seen_where_there_is_none() -> None:
    found = ratio("get", [(100, 101), (101, 100), (99, 100), (100, 99)])
    assert not found.differs
    assert found.mean == pytest.approx(1.0, abs=0.01)


def test_it_does_not_matter_which_side_is_divided_by_which() -> None:
    pairs = [(100.0, 90.0), (110.0, 100.0), (95.0, 90.0)]
    one, other = ratio("get", pairs), ratio("get", [(b, a) for a, b in pairs])
    assert one.mean == pytest.approx(1 / other.mean)
    assert (one.low, one.high) == pytest.approx((1 / other.high, 1 / other.low))


def test_few_pairs_have_a_wide_interval() -> None:
    pairs = [(100.0, 90.0), (110.0, 100.0)]
    two, twenty = ratio("get", pairs), ratio("get", pairs * 10)
    assert two.high - two.low > 5 * (twenty.high - twenty.low)


def test_verbs_keep_their_order_and_sides_take_turns() -> None:
    done: list[tuple[int, str, str]] = []

    def measure(side: str, verb: str, clients: int, number: int) -> float:
        done.append((number, verb, side))
        return {"ours": 2.0, "other": 1.0}[side] + number / 100

    found = compare(("ours", "other"), ("create", "get"), 16, 2, measure)
    assert [one.title for one in found] == ["create, 16", "get, 16"]
    assert all(1.9 < one.mean < 2.1 and one.rounds == 2 for one in found)
    assert done == [
        (0, "create", "ours"),
        (0, "create", "other"),
        (0, "get", "other"),
        (0, "get", "ours"),
        (1, "create", "other"),
        (1, "create", "ours"),
        (1, "get", "ours"),
        (1, "get", "other"),
    ]


def test_objects_of_a_round_are_made_used_and_deleted_in_that_round() -> None:
    for number in range(2):
        flags = [verb_flags(verb, 4, number) for verb in ("create", "get", "delete")]
        assert len({one["prefix"] for one in flags}) == 1
        assert flags[0]["count"] == flags[1]["pool"] == flags[2]["count"]
