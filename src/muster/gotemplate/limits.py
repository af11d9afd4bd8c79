"""Limits of one execution, and the meter that enforces them.

Templates are input of users: one may loop for ever, double a string thirty times or build a value that contains itself. Work is
therefore charged while it is done: loops for their iterations, functions for their results. The meter of the running execution is a
context variable, so functions inside `fmt` or `encoding/json` can charge without a parameter; outside an execution nothing is
charged.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass

from muster.gotemplate.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    output_bytes: int = 16 * 1024 * 1024
    """Length of the rendered text, and of any string or list built on the way."""
    steps: int = 10_000_000
    """Iterations of `range`, template calls, and elements that functions produce, together."""
    depth: int = 300
    """Templates calling templates."""
    seconds: float = 10.0
    """Wall time."""


DEFAULT_LIMITS = Limits()


class Meter:
    """The usage of one execution."""

    __slots__ = ("deadline", "limits", "max_size", "steps_left")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps_left = limits.steps
        self.max_size = limits.output_bytes
        self.deadline = time.monotonic() + limits.seconds

    def charge(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise LimitExceeded(f"the template exceeded its limit of {self.limits.steps} steps")
        if time.monotonic() > self.deadline:
            raise LimitExceeded(f"the template exceeded its limit of {self.limits.seconds:g} seconds")

    def size(self, length: int) -> None:
        if length > self.max_size:
            raise LimitExceeded(f"the template exceeded its limit of {self.max_size} bytes of output")


current_meter: ContextVar[Meter | None] = ContextVar("gotemplate_meter", default=None)


def charge(steps: int) -> None:
    """Charges for `steps` units of work about to be done."""
    meter = current_meter.get()
    if meter is not None:
        meter.charge(steps)


def charge_size(length: int) -> None:
    """Charges for a string or list of this length about to be built."""
    meter = current_meter.get()
    if meter is not None:
        meter.size(length)
        meter.charge(1 + length // 256)
