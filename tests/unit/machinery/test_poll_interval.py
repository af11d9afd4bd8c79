"""Pauses between looks grow with the time that was waited."""

import pytest

from muster.machinery.poll_interval import MIN_POLL_INTERVAL, WAITED_SHARE, poll_interval


@pytest.mark.parametrize("waited", [0.0, 0.01, 0.1])
def test_what_comes_at_once_is_looked_for_often(waited: float) -> None:
    assert poll_interval(waited, 1.0) == MIN_POLL_INTERVAL


@pytest.mark.parametrize("waited", [0.5, 1.0, 4.0])
def test_whoever_waits_loses_a_share_of_the_time_waited(waited: float) -> None:
    assert poll_interval(waited, 1.0) == pytest.approx(WAITED_SHARE * waited)


@pytest.mark.parametrize("waited", [10.0, 1000.0])
def test_no_pause_is_longer_than_asked_for(waited: float) -> None:
    assert poll_interval(waited, 1.0) == 1.0
