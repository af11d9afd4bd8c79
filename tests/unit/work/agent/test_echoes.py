"""What a watch brings is news unless it is what we wrote ourselves, whichever comes first: the event or the answer."""

from __future__ import annotations

import pytest

from muster.work.agent.echoes import Echoes
from tests.support.holdings import grown, holdings


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def echoes(told: list[str]) -> Echoes:
    made = Echoes()
    made.on_change(told.append)
    return made


def test_what_others_wrote_is_news(echoes: Echoes, told: list[str]) -> None:
    echoes.came("w", "1")
    echoes.went("w")
    assert told == ["w", "w"]


def test_an_event_after_the_answer_is_an_echo(echoes: Echoes, told: list[str]) -> None:
    with echoes.writing("w") as wrote:
        wrote("2")
    echoes.came("w", "2")
    assert told == []


def test_an_event_before_the_answer_is_an_echo_too(echoes: Echoes, told: list[str]) -> None:
    with echoes.writing("w") as wrote:
        echoes.came("w", "2")
        assert told == []
        wrote("2")
    assert told == []


def test_what_somebody_wrote_after_us_is_told_once_the_answer_is_there(echoes: Echoes, told: list[str]) -> None:
    with echoes.writing("w") as wrote:
        echoes.came("w", "2")
        echoes.came("w", "3")
        wrote("2")
    assert told == ["w"]


def test_what_came_during_a_write_that_failed_is_told(echoes: Echoes, told: list[str]) -> None:
    def fail() -> None:
        with echoes.writing("w"):
            echoes.came("w", "2")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert told == ["w"]


def test_other_objects_are_not_held_back(echoes: Echoes, told: list[str]) -> None:
    with echoes.writing("w") as wrote:
        echoes.came("v", "1")
        wrote("2")
    assert told == ["v"]


def test_nothing_is_kept_of_what_went_before_the_answer_to_its_last_write(echoes: Echoes, told: list[str]) -> None:
    before = holdings(echoes)
    for number in range(100):
        with echoes.writing(f"w{number}") as wrote:
            echoes.came(f"w{number}", "2")
            echoes.went(f"w{number}")
            wrote("3")
    assert told == [f"w{number}" for number in range(100)]
    assert grown(before, holdings(echoes), 1) == {}


def test_what_came_back_while_it_was_written_is_told_and_then_known_by_its_version(echoes: Echoes, told: list[str]) -> None:
    with echoes.writing("w") as wrote:
        echoes.went("w")
        echoes.came("w", "5")
        wrote("3")
    assert told == ["w", "w"]
    with echoes.writing("w") as wrote:
        wrote("6")
    echoes.came("w", "6")
    assert told == ["w", "w"]
