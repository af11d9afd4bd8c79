"""How manifests are divided among works."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.addon.framework.split import split

LIMIT = 100
KEYS = st.text("abcdefghij", min_size=1, max_size=2)
SIZES = st.dictionaries(KEYS, st.integers(1, 130), max_size=30)
PRESENT = st.dictionaries(st.integers(0, 5), st.lists(KEYS, max_size=8), max_size=5)


@given(SIZES, PRESENT)
def test_every_manifest_is_in_exactly_one_work_and_no_work_is_empty(sizes: dict[str, int], present: dict[int, list[str]]) -> None:
    works = split(sizes, present, LIMIT)
    assert sorted(key for keys in works.values() for key in keys) == sorted(sizes)
    assert all(works.values())


@given(SIZES, PRESENT)
def test_no_work_exceeds_the_limit_but_for_a_manifest_that_does_by_itself(
    sizes: dict[str, int], present: dict[int, list[str]]
) -> None:
    for keys in split(sizes, present, LIMIT).values():
        assert len(keys) == 1 or sum(sizes[key] for key in keys) <= LIMIT


@given(SIZES, PRESENT)
def test_what_was_split_stays_as_it_is(sizes: dict[str, int], present: dict[int, list[str]]) -> None:
    works = split(sizes, present, LIMIT)
    assert split(sizes, works, LIMIT) == works
    assert split(dict(reversed(sizes.items())), works, LIMIT) == works


@given(SIZES, SIZES)
def test_manifests_that_come_and_go_move_no_other(before: dict[str, int], more: dict[str, int]) -> None:
    works = split(before, {}, LIMIT)
    kept = {key: size for index, (key, size) in enumerate(before.items()) if index % 3}
    new = {f"new-{key}": size for key, size in more.items()}
    after = split({**new, **kept}, works, LIMIT)
    place = {key: number for number, keys in works.items() for key in keys}
    assert all(place[key] == number for number, keys in after.items() for key in keys if key in kept)


def test_new_manifests_go_where_most_room_is_and_then_into_a_new_work() -> None:
    assert split({"a": 80, "b": 50, "c": 30}, {0: ["a"], 1: ["b"]}, LIMIT) == {0: ("a",), 1: ("b", "c")}
    assert split({"a": 80, "b": 90, "c": 30}, {0: ["a"], 1: ["b"]}, LIMIT) == {0: ("a",), 1: ("b",), 2: ("c",)}


def test_the_number_of_a_work_that_became_empty_is_used_again() -> None:
    assert split({"b": 50, "c": 60}, {0: ["a"], 1: ["b"]}, LIMIT) == {0: ("c",), 1: ("b",)}
