"""What choosing costs where there are many clusters: nothing of Python's is called for each of them in an ordinary placement.

Time is not what is looked at, which other programs have a part in: calls are counted, and they are what takes the time.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from muster.placement.hub.decision_plan import clusters_of, plan_writes
from muster.placement.hub.desired_status import wanted_decisions
from muster.placement.scheduler import schedule
from tests.support.placement_world import Site, cluster, placement, selector

MANY = 1000
FLEET = [cluster(f"cluster{number:05d}", {"env": "prod"}, {"region": "eu"}) for number in range(MANY)]
NAMES = [one.name for one in FLEET]
BY_CLAIM = {
    "requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}}
}
CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "by a label": {"predicates": [selector(env="prod")]},
    "by a claim": {"predicates": [BY_CLAIM]},
    "the best ten": {"predicates": [selector(env="prod")], "numberOfClusters": 10},
}


class Calls:
    """While it is entered, the calls of functions of Python's are counted."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.counted[f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_qualname}"] += 1

    def __enter__(self) -> Calls:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *of: object) -> None:
        sys.setprofile(None)


@pytest.mark.parametrize("case", CASES)
def test_a_choice_of_very_many_makes_no_call_for_each(case: str) -> None:
    asked = placement(**CASES[case])
    world = Site(FLEET, present=NAMES[1:], others=dict.fromkeys(NAMES, 99)).world()
    with Calls() as calls:
        choice = schedule(asked, world)
        wanted = wanted_decisions(asked, choice, lambda name: False)
    assert len(choice.clusters) == CASES[case].get("numberOfClusters", MANY)
    assert sum(len(one.clusters) for one in wanted.values()) == len(choice.clusters)
    assert calls.counted.total() < MANY / 2, calls.counted.most_common(5)


def test_one_cluster_more_is_planned_as_one_write_and_without_a_call_for_each() -> None:
    asked, before = placement(), Site(FLEET[:-1])
    present = wanted_decisions(asked, schedule(asked, before.world()), lambda name: False)
    choice = schedule(asked, Site(FLEET, present=NAMES[:-1]).world())
    with Calls() as calls:
        wanted = wanted_decisions(asked, choice, lambda name: False)
        writes = plan_writes(present, wanted, iter(()))
        clusters = clusters_of(wanted.values())
    assert [one.name for one in writes] == ["p-decision-10"]
    assert clusters == set(NAMES)
    assert calls.counted.total() < MANY / 2, calls.counted.most_common(5)
