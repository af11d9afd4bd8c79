"""Sequence ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.codecs.sequence import MOST_AHEAD, Sequence, parse_sequence, reason_of, reported_sequence
from muster.transport.contract.event import InvalidEvent
from tests.support.fake_clock import FakeClock


class SettableClock(FakeClock):
    """A clock that somebody sets, forth and back."""

    at = datetime(2026, 11, 15, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


def test_a_number_is_the_millisecond_the_node_and_a_count() -> None:
    clock = FakeClock(datetime(2026, 11, 15, 7, 8, 19, 603_459, tzinfo=UTC))
    sequence = Sequence(clock)
    assert sequence.next() == 2121862846647111680, "as Go's agent numbered this moment"
    assert sequence.next() == 2121862846647111681


@given(st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=50))
def test_numbers_grow_whatever_the_clock_does(steps: list[int]) -> None:
    clock = SettableClock()
    sequence = Sequence(clock)
    numbers = []
    for step in steps:
        clock.at += timedelta(milliseconds=step)
        numbers += [sequence.next(), sequence.next()]
    assert numbers == sorted(set(numbers))


def test_more_than_a_millisecond_has_room_for_still_grow() -> None:
    sequence = Sequence(FakeClock())
    numbers = [sequence.next() for _ in range(10_000)]
    assert numbers == sorted(set(numbers))
    assert {number >> 12 & 0x3FF for number in numbers} == {1}, "the node is the same in all"


def test_a_later_start_has_larger_numbers() -> None:
    clock = FakeClock()
    before = Sequence(clock).next()
    later = FakeClock(clock.now() + timedelta(milliseconds=1))
    assert Sequence(later).next() > before


@given(st.integers(-(10**9), MOST_AHEAD // timedelta(milliseconds=1)), st.integers(0, 3))
def test_numbers_go_on_from_those_of_whose_clock_was_ahead(ahead: int, before: int) -> None:
    clock = FakeClock()
    theirs = Sequence(FakeClock(clock.now() + timedelta(milliseconds=ahead))).next()
    sequence = Sequence(clock)
    own = [sequence.next() for _ in range(before)]
    sequence.go_on_from(theirs)
    own += [sequence.next(), sequence.next()]
    assert own == sorted(set(own))
    assert own[-2] > theirs


@pytest.mark.parametrize("number", [-1, (1 << 63) - 1])
def test_what_no_clock_says_is_not_gone_on_from(number: int) -> None:
    sequence = Sequence(FakeClock())
    sequence.go_on_from(number)
    assert sequence.next() == Sequence(FakeClock()).next()


@given(st.integers(0, (1 << 63) - 1))
def test_numbers_are_noted_as_reasons(number: int) -> None:
    assert reported_sequence(reason_of(number)) == number


@given(st.integers(0, (1 << 63) - 1))
def test_numbers_travel_as_texts(number: int) -> None:
    assert parse_sequence(str(number)) == number


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "١", str(1 << 63), "1" * 100_000])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="sequenceid"):
        parse_sequence(text)
