"""How manifests are divided among works: no work larger than the limit, and a manifest stays where it is.

A manifest that moves from one work to another is deleted and made again on the cluster in between, therefore only what no longer
fits beside the others moves. New manifests go where most room is, and into a new work where there is none. One that is larger than
the limit by itself has a work for itself. Every manifest is in exactly one work.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)

LARGEST_WORK: Final = 500 * 1024
"""Bytes of manifests that a hub takes in one work."""
LIMIT: Final = LARGEST_WORK * 8 // 10
"""The rest is room for what else is in a work."""


def split(sizes: Mapping[K, int], present: Mapping[int, Sequence[K]], limit: int = LIMIT) -> dict[int, tuple[K, ...]]:
    """By the number of the work, what is in it. `sizes` are the manifests in their order, `present` what works hold now."""
    works: dict[int, list[K]] = {}
    used: dict[int, int] = {}
    placed: set[K] = set()
    for number in sorted(present):
        for key in present[number]:
            if key in sizes and key not in placed and (number not in works or used[number] + sizes[key] <= limit):
                works.setdefault(number, []).append(key)
                used[number] = used.get(number, 0) + sizes[key]
                placed.add(key)
    for key, size in sizes.items():
        if key in placed:
            continue
        roomy = min(used, key=lambda number: (used[number], number), default=None)
        if roomy is None or used[roomy] + size > limit:
            roomy = next(number for number in range(len(used) + 1) if number not in used)
        works.setdefault(roomy, []).append(key)
        used[roomy] = used.get(roomy, 0) + size
    return {number: tuple(works[number]) for number in sorted(works)}
