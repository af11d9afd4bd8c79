"""Ranges of sizes and costs for the estimator: pairs of minimum and maximum.

Everything saturates at 2^64 - 1, which means unbounded. Factors are multiplied in floating point and rounded up, as in cel-go.
"""

from __future__ import annotations

import math
from typing import NamedTuple

UNBOUNDED = 2**64 - 1


def _saturated(value: int) -> int:
    return min(value, UNBOUNDED)


def _scaled(value: int, factor: float) -> int:
    scaled = math.ceil(float(value) * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled


class Bounds(NamedTuple):
    least: int
    most: int

    def plus(self, other: Bounds) -> Bounds:
        return Bounds(_saturated(self.least + other.least), _saturated(self.most + other.most))

    def times(self, other: Bounds) -> Bounds:
        return Bounds(_saturated(self.least * other.least), _saturated(self.most * other.most))

    def scaled(self, factor: float) -> Bounds:
        return Bounds(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Bounds) -> Bounds:
        return Bounds(min(self.least, other.least), max(self.most, other.most))


def exactly(value: int) -> Bounds:
    return Bounds(value, value)


UNKNOWN = Bounds(0, UNBOUNDED)
NOTHING = Bounds(0, 0)
ONE = Bounds(1, 1)
"""The cost of one simple operation."""
