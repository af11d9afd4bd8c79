"""What a watch brings is news unless it is what we wrote ourselves, whichever comes first: the event or the answer."""

from __future__ import annotations

import pytest

from muster.work.agent.echoes import Echoes


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
