"""Distributes manifests among works: no work above the size limit, and manifests stay in their work.

A manifest that moves to another work is deleted and created again on the cluster, therefore only manifests that no longer fit move.
New manifests go to the work with the most room, and to a new work if there is none. A manifest above the limit has its own work.
Every manifest is in exactly one work.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)

LARGEST_WORK: Final = 500 * 1024
"""The hub's limit for the manifests of one work, in bytes."""
LIMIT: Final = LARGEST_WORK * 8 // 10
"""The rest is for the other fields of a work."""


def split(sizes: Mapping[K, int], present: Mapping[int, Sequence[K]], limit: int = LIMIT) -> dict[int, tuple[K, ...]]:
    """The contents of works by number. `sizes` are the manifests in order, `present` the current contents of works."""
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
