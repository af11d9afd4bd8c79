"""Counting Available clusters: complete once, and honest about what is lost afterwards."""

from muster.fleet.availability import Availability


def test_a_fleet_is_complete_when_the_last_cluster_becomes_available() -> None:
    state = Availability(2)
    state.saw("a", True, 1.0)
    state.saw("b", False, 2.0)
    assert (state.known, state.available, state.complete_at) == (2, 1, None)
    state.saw("b", True, 3.0)
    assert (state.available, state.complete_at, state.kept) == (2, 3.0, True)


def test_a_cluster_lost_before_all_were_there_does_not_spoil_the_fleet() -> None:
    state = Availability(2)
    state.saw("a", True, 1.0)
    state.saw("a", False, 2.0)
    state.saw("b", True, 3.0)
    state.saw("a", True, 4.0)
    assert (state.losses, state.complete_at, state.kept) == (1, 4.0, True)


def test_a_cluster_lost_afterwards_is_remembered_even_when_it_comes_back() -> None:
    state = Availability(2)
    for name in ("a", "b"):
        state.saw(name, True, 1.0)
    state.saw("a", False, 2.0)
    state.saw("a", True, 3.0)
    assert (state.available, state.lowest, state.kept) == (2, 1, False)


def test_a_deleted_cluster_is_lost() -> None:
    state = Availability(1)
    state.saw("a", True, 1.0)
    state.gone("a")
    state.gone("never seen")
    assert (state.available, state.losses, state.kept) == (0, 1, False)


def test_each_arrival_is_told_once() -> None:
    arrived: list[str] = []
    state = Availability(1, arrived.append)
    for available in (True, False, True):
        state.saw("a", available, 1.0)
    assert arrived == ["a"]
