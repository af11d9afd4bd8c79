"""Random worlds of several steps, played to upstream's scheduling controller and to our choice.

Decisions, groups, conditions, what every filter left and what every prioritizer gave must be equal, save for the differences of the
one table. `python -m tests.interop.placement.test_differential FIRST COUNT` plays any number and counts.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.interop.placement.accepted_differences import TABLE, explanation
from tests.interop.placement.oracle import binary, play
from tests.interop.placement.verdicts import Pass, passes
from tests.support.random_placements import Life

CHUNK = 100


def compare(seeds: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """How many passes were equal or are explained, by the explanation, and those that are not."""
    lives = [Life(seed) for seed in seeds]
    counts: Counter[str] = Counter()
    unexplained = []
    for life, answers in zip(lives, play(life.steps for life in lives), strict=True):
        for number, seen in enumerate(passes(life.steps, answers)):
            equal = "panic" not in seen.answer and not seen.ours.differences(seen.theirs)
            found = "equal" if equal else explanation(seen)
            counts[found or "unexplained"] += 1
            if found is None:
                unexplained.append(f"seed {life.seed}, pass {number}: {_told(seen)}")
    return counts, unexplained


def _told(seen: Pass) -> str:
    if "panic" in seen.answer:
        return f"upstream panics: {seen.answer['panic']}\n{seen.spec}"
    parts = [
        f"\n  {name}\n    theirs {getattr(seen.theirs, name)}\n    ours   {getattr(seen.ours, name)}"
        for name in seen.ours.differences(seen.theirs)
    ]
    return f"{seen.spec}{''.join(parts)}"


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not binary().exists():
        pytest.skip("the placement oracle is not built: make -C peers/placement")


def test_random_worlds_have_the_same_answer() -> None:
    counts, unexplained = compare(range(250))
    assert not unexplained, "\n".join(unexplained[:5])
    assert counts["equal"] > 0.85 * counts.total()
    # Worlds that never meet a difference would prove nothing of it.
    assert {one.name for one in TABLE} <= counts.keys()


def test_every_difference_is_told_to_users() -> None:
    page = (Path(__file__).parents[3] / "docs" / "placement.md").read_text()
    assert [one.name for one in TABLE if f"| {one.name} |" not in page] == []


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    begun, total = time.monotonic(), Counter[str]()
    for start in range(first, first + count, CHUNK):
        counts, unexplained = compare(range(start, min(start + CHUNK, first + count)))
        total += counts
        for one in unexplained:
            print(one)
    print(f"{count} worlds, {total.total()} passes in {time.monotonic() - begun:.0f} s: {dict(total.most_common())}")


if __name__ == "__main__":
    main()
