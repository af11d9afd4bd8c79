"""Random works live alike under upstream's Go work agent and under ours: the same objects, records and status at every turn.

All lives are played at once, version by version; after each the two agents are waited for until they agree, and what they do not
agree on must be in the table of accepted differences. MUSTER_WORK_SEEDS names other lives than the default ones: `100-160`, or
`7,8`; MUSTER_WORK_PATIENCE is for how many seconds agreement is waited for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muster.machinery.objects import Object
from tests.interop.accepted_differences import ACCEPTED, Moment
from tests.interop.ocm import Fleet
from tests.interop.twins import Twin, deviations
from tests.support.peers import ROOT
from tests.support.planes import ControlPlane
from tests.support.random_works import Life, random_life
from tests.support.working import Workplace

VERSIONS = 4
PATIENCE = float(os.environ.get("MUSTER_WORK_PATIENCE", "120"))


SEEDS = os.environ.get("MUSTER_WORK_SEEDS", "")
DEFAULT = "0-39,45,49,64,70,121,279,287,471"
"""Show every accepted difference."""


def seeds() -> list[int]:
    found: list[int] = []
    for part in (SEEDS or DEFAULT).split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@pytest.fixture
async def twins(kube_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Twin, Twin]]:
    cluster = kube_plane.cluster
    places = Workplace(cluster), Workplace(cluster)
    for place in places:
        await place.prepare()
        verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
        await place.grant("trees", {"apiGroups": [f"{place.namespace}.example.com"], "resources": ["*"], "verbs": verbs})
    fleet = Fleet(cluster, cluster, tmp_path, places[0].name)
    limits = [f"--{prefix}kube-api-{what}=5000" for prefix in ("", "hub-") for what in ("qps", "burst")]
    await asyncio.to_thread(fleet.start_work_agent, cluster.kubeconfig, *limits)
    try:
        async with places[1].agent():
            yield Twin("go", places[0]), Twin("ours", places[1])
    finally:
        await asyncio.to_thread(fleet.stop)
        print(fleet.log())
        for place in places:
            await place.close()


NOTHING: Object = {"objects": {}}


@dataclass
class Look:
    """At one life: what is not agreed on, and which accepted differences were seen."""

    found: list[str] = field(default_factory=list)
    accepted: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Match:
    """How far the two agents agree on the lives, which are in version `number`; in `VERSIONS` they have ended."""

    twins: tuple[Twin, Twin]
    lives: Sequence[Life]
    number: int
    accepted: set[tuple[str, str]]
    """Names of accepted differences, and of lives that have shown them."""
    completed: set[str]
    """Lives that upstream's agent called complete in an earlier version."""

    async def settle(self) -> list[str]:
        """What they do not agree on, however long they are waited for; they must agree twice."""
        deadline = time.monotonic() + PATIENCE
        agreed = 0
        while True:
            theirs, ours = await asyncio.gather(*(twin.seen() for twin in self.twins))
            looks = [self._look(life, theirs.get(life.name, NOTHING), ours.get(life.name, NOTHING)) for life in self.lives]
            found = [problem for look in looks for problem in look.found]
            agreed = 0 if found else agreed + 1
            if agreed == 2 or (found and time.monotonic() > deadline):
                self.accepted.update(*(look.accepted for look in looks))
                self.completed |= {name for name, seen in theirs.items() if _is_complete(seen)}
                return found
            await asyncio.sleep(0.5)

    def _look(self, life: Life, theirs: Object, ours: Object) -> Look:
        look = Look()
        completed = life.name in self.completed or _is_complete(theirs)
        for who, seen in (("theirs", theirs), ("ours", ours)):
            if who == "ours" or not completed or self.number == VERSIONS:
                look.found += [f"{life.name}: {who} {problem}" for problem in self._unsettled(seen)]
        explained: dict[tuple[str, str], str] = {}
        for deviation in deviations(theirs, ours):
            moment = Moment(life, self.number, deviation, theirs, completed)
            names = [one.name for one in ACCEPTED if one.covers(moment)] or [*moment.told_of(explained)]
            if not names:
                look.found.append(f"{life.name} version {self.number}: {deviation}")
                continue
            look.accepted.add((names[0], life.name))
            if moment.path[0] == "objects":
                explained.setdefault(moment.about, names[0])
        return look

    def _unsettled(self, seen: Object) -> list[str]:
        if self.number == VERSIONS:
            return ["is still there"] if {"status", "record"} & seen.keys() else []
        conditions = seen.get("status", {}).get("conditions", {})
        return [
            f"is not yet {kind}" for kind in ("Applied", "Available") if conditions.get(kind, {}).get("about") != "this generation"
        ]


def _is_complete(seen: Object) -> bool:
    return any(
        one.get("Complete", {}).get("status") == "True"
        for status in [seen.get("status", {})]
        for one in [status.get("conditions", {}), *[entry["conditions"] for entry in status.get("manifests", ())]]
    )


@pytest.mark.timeout(900)
async def test_random_works_fare_the_same_under_both_agents(twins: tuple[Twin, Twin]) -> None:
    lives = [random_life(seed, VERSIONS) for seed in seeds()]
    accepted: set[tuple[str, str]] = set()
    different: list[str] = []
    completed: set[str] = set()
    for number in range(VERSIONS + 1):
        started = time.monotonic()
        for twin in twins:
            await asyncio.gather(*(twin.play(life, number) if number < VERSIONS else twin.delete(life) for life in lives))
        found = await Match(twins, lives, number, accepted, completed).settle()
        print(f"version {number}: {len(found)} differences after {time.monotonic() - started:.1f} s")
        different += found
        print("\n".join(found))
    print("accepted:", {one.name: sorted(life for name, life in accepted if name == one.name) for one in ACCEPTED})
    assert not different, f"{len(different)} differences, the first:\n" + "\n".join(different[:20])
    if not SEEDS:
        assert {one.name for one in ACCEPTED if not one.by_chance} - {name for name, _ in accepted} == set(), (
            "a difference that is none any more"
        )


def test_every_accepted_difference_is_documented() -> None:
    section = (ROOT / "docs/work.md").read_text().partition("## Differences to upstream")[2]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")}
    assert {one.row for one in ACCEPTED} - rows == set()
