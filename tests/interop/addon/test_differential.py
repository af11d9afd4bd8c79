"""Random lives of addons, played to upstream's addon manager and to ours.

References with their hashes, conditions and progressions, what works carry and whose turn it is must be equal, save for the
differences of the one table. `python -m tests.interop.addon.test_differential FIRST COUNT` plays any number and counts.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.addon.accepted_differences import TABLE, explanation
from tests.interop.addon.verdicts import Seen, steps_seen
from tests.interop.oracle_program import Oracle
from tests.support.random_addons import AddonLife

ORACLE = Oracle("addons")
CHUNK = 100
SEEDS = (*range(300), 872)
"""The last meets a difference that is rare."""


def compare(seeds: Iterable[int]) -> tuple[Counter[str], Counter[str], list[str]]:
    """How many steps were equal, explained or not; how many facts were, or by what they are explained; and what is not."""
    lives = [AddonLife(seed) for seed in seeds]
    steps: Counter[str] = Counter()
    facts: Counter[str] = Counter()
    unexplained = []
    for life, answers in zip(lives, ORACLE.play(life.steps for life in lives), strict=True):
        for number, seen in enumerate(steps_seen(life.steps, answers)):
            assert not seen.answer.get("unsettled"), f"seed {life.seed}, step {number}: upstream goes on for ever"
            reasons = {place: explanation(seen, place) for place in seen.differences()}
            facts.update(str(reason) for reason in reasons.values())
            facts["equal"] += len(seen.theirs.keys() | seen.ours.keys()) - len(reasons)
            open_ones = [place for place, reason in reasons.items() if reason is None]
            steps["unexplained" if open_ones else "explained" if reasons else "equal"] += 1
            if open_ones:
                unexplained.append(f"seed {life.seed}, step {number}: {_told(seen, open_ones)}")
    return steps, facts, unexplained


def _told(seen: Seen, places: list[str]) -> str:
    parts = [f"\n  {place}\n    theirs {seen.theirs.get(place)}\n    ours   {seen.ours.get(place)}" for place in places]
    return f"{seen.offer['spec']}{''.join(parts)}"


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not ORACLE.binary().exists():
        pytest.skip("the addon oracle is not built: make -C peers/addons")


def test_random_addons_are_configured_and_rolled_out_alike() -> None:
    _, facts, unexplained = compare(SEEDS)
    assert not unexplained, "\n".join(unexplained[:5])
    assert facts["equal"] > 0.9 * facts.total()
    # Lives that never meet a difference would prove nothing of it.
    assert {one.name for one in TABLE} <= facts.keys()


def test_a_fault_of_ours_does_not_hide_behind_an_exact_difference() -> None:
    """What a difference explains it explains no longer once there is something else in it."""
    exact = {one.name for one in TABLE if one.exact}
    lives, tried = [AddonLife(seed) for seed in SEEDS], Counter[str]()
    for life, answers in zip(lives, ORACLE.play(life.steps for life in lives), strict=True):
        for number, seen in enumerate(steps_seen(life.steps, answers)):
            for place in seen.differences():
                reason, fault = explanation(seen, place), _fault(seen.ours.get(place))
                if reason in exact and fault is not None:
                    faulty = dataclasses.replace(seen, ours={**seen.ours, place: fault})
                    assert explanation(faulty, place) not in exact, f"seed {life.seed}, step {number}: {place} {fault}"
                    tried[reason] += 1
    assert tried.keys() == exact


def _fault(value: Any) -> Any:
    """The same with something in it that nobody has asked for; None where there is nothing that could be at fault."""
    match value:
        case dict():
            return {**value, "secrets/default/strange": "1"}
        case list():
            return [*value, ("", "secrets", ("default", "strange", "1"), (), ())]
        case (str(), str(), str()):
            return (value[0], "Strange", value[2])
        case (status, reason, selected, *numbers):
            return (status, reason, selected + 1, *numbers)
    return None


def test_every_difference_is_told_to_users() -> None:
    page = (Path(__file__).parents[3] / "docs" / "addons.md").read_text()
    assert [one.name for one in TABLE if f"| {one.name} |" not in page] == []


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    begun, steps, facts = time.monotonic(), Counter[str](), Counter[str]()
    for start in range(first, first + count, CHUNK):
        some, differing, unexplained = compare(range(start, min(start + CHUNK, first + count)))
        steps += some
        facts += differing
        for one in unexplained:
            print(one)
    print(f"{count} addons, {steps.total()} steps in {time.monotonic() - begun:.0f} s: {dict(steps)}")
    for name, number in facts.most_common():
        print(f"  {number} facts: {name}")


if __name__ == "__main__":
    main()
