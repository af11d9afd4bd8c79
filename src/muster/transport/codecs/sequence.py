"""Sequence ids: they order status reports by numbers that increase with time.

They are snowflakes as of Go's agents: milliseconds since a date in 2010, then the node, which is 1 for every agent, then a counter
within the millisecond. The numbers of one `Sequence` only increase, also when the clock is set back: then they continue until the
clock has caught up.

The hub stores the last one with the work's status, as the reason of a condition. An agent whose clock is behind that of the former
agent continues from there: otherwise the hub would take its reports for late ones.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from muster.machinery.clock import SYSTEM, Clock
from muster.transport.contract.event import SEQUENCE, InvalidEvent

_START: Final = datetime(2010, 11, 4, 1, 42, 54, 657_000, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_STEP_BITS: Final = 12
_NODE_BITS: Final = 10
_NODE: Final = 1 << _STEP_BITS
_LARGEST_STEP: Final = (1 << _STEP_BITS) - 1
_LARGEST: Final = (1 << 63) - 1
REPORTED: Final = "StatusReported"
"""The condition of a work with the sequence id of its status (ours)."""
_REASON: Final = "Sequence:"
MOST_AHEAD: Final = timedelta(days=1)
"""A number that is further ahead of the clock is not continued: the hub accepts a number that is so much lower."""


class Sequence:
    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._millisecond = 0
        self._step = 0

    def next(self) -> int:
        """A number larger than all before."""
        now = (self._clock.now() - _START) // _MILLISECOND
        if now > self._millisecond:
            self._millisecond, self._step = now, 0
        elif self._step < _LARGEST_STEP:
            self._step += 1
        else:
            # If a millisecond is full, the next one is used before its time.
            self._millisecond, self._step = self._millisecond + 1, 0
        return self._millisecond << _STEP_BITS + _NODE_BITS | _NODE | self._step

    def go_on_from(self, number: int) -> None:
        """Later numbers are larger than this one, too."""
        millisecond = number >> _STEP_BITS + _NODE_BITS
        if self._millisecond <= millisecond <= (self._clock.now() + MOST_AHEAD - _START) // _MILLISECOND:
            self._millisecond, self._step = millisecond + 1, 0


def parse_sequence(text: str) -> int:
    """Raises InvalidEvent."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or (number := int(text)) > _LARGEST:
        raise InvalidEvent(f"attribute {SEQUENCE!r}: {text[:40]!r}; a decimal number of 63 bits is expected")
    return number


def reason_of(sequence: int) -> str:
    """The reason of the condition REPORTED."""
    return f"{_REASON}{sequence}"


def reported_sequence(reason: str) -> int:
    """The sequence id in the reason of the condition REPORTED; -1, which is before all others, if there is none."""
    text = reason.removeprefix(_REASON)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
