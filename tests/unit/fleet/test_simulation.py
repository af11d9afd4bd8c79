"""When a simulation counts as good."""

import dataclasses

import pytest

from muster.fleet.simulation import Phase, SimulationOptions, SimulationResult

PHASE = Phase(seconds=1, requests=1, requests_per_second=1, hub_cores=0, agents_cores=0)
GOOD = SimulationResult(
    plan=SimulationOptions(clusters=3, join_within=10),
    all_available_after=9.5,
    available_at_end=3,
    lowest_since=3,
    losses=0,
    agent_restarts=0,
    joining=PHASE,
    steady=PHASE,
    requests_per_join=1,
    open_watches=3,
    hub_mib=1,
    agents_mib=1,
    machine_cores=2,
)


def test_all_available_in_time_and_ever_since_is_good() -> None:
    assert GOOD.good


@pytest.mark.parametrize("flaw", [{"all_available_after": None}, {"all_available_after": 10.5}, {"lowest_since": 2}])
def test_too_late_or_lost_afterwards_is_not(flaw: dict[str, float | None]) -> None:
    assert not dataclasses.replace(GOOD, **flaw).good  # type: ignore[arg-type]
