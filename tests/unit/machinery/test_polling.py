"""Pauses between looks grow with the time that was waited."""

import pytest

from muster.machinery.polling import SHARE, SHORTEST, poll_pause


@pytest.mark.parametrize("waited", [0.0, 0.01, 0.1])
def test_what_comes_at_once_is_looked_for_often(waited: float) -> None:
    assert poll_pause(waited, 1.0) == SHORTEST


@pytest.mark.parametrize("waited", [0.5, 1.0, 4.0])
def test_whoever_waits_loses_a_share_of_the_time_waited(waited: float) -> None:
    assert poll_pause(waited, 1.0) == pytest.approx(SHARE * waited)


@pytest.mark.parametrize("waited", [10.0, 1000.0])
def test_no_pause_is_longer_than_asked_for(waited: float) -> None:
    assert poll_pause(waited, 1.0) == 1.0
