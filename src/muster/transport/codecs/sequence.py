"""Sequence ids: which of two reports is the later one, by numbers that grow with time.

They are snowflakes as Go's agents make them: milliseconds since a day in 2010, then the node, which is 1 for every agent, then a
count within the millisecond. Numbers of one `Sequence` only grow, also when the clock is set back: then they go on from where
they are until the clock has caught up.

The hub notes the last one with the work's status, as the reason of a condition. So an agent whose clock is behind that of the agent
before it goes on from there, too: otherwise the hub would take its reports for late ones.
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
"""The condition of a work that says which report its status is (ours)."""
_REASON: Final = "Sequence:"
MOST_AHEAD: Final = timedelta(days=1)
"""A number that is further ahead of the clock is not gone on from: the hub takes one that is so much lower for what it is."""


class Sequence:
    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._millisecond = 0
        self._step = 0

    def next(self) -> int:
        """A number that is larger than all before it."""
        now = (self._clock.now() - _START) // _MILLISECOND
        if now > self._millisecond:
            self._millisecond, self._step = now, 0
        elif self._step < _LARGEST_STEP:
            self._step += 1
        else:
            # So many in one millisecond are not waited for: the next one is begun before its time.
            self._millisecond, self._step = self._millisecond + 1, 0
        return self._millisecond << _STEP_BITS + _NODE_BITS | _NODE | self._step

    def go_on_from(self, number: int) -> None:
        """Numbers from now on are larger than this one, too."""
        millisecond = number >> _STEP_BITS + _NODE_BITS
        if self._millisecond <= millisecond <= (self._clock.now() + MOST_AHEAD - _START) // _MILLISECOND:
            self._millisecond, self._step = millisecond + 1, 0


def parse_sequence(text: str) -> int:
    """Raises InvalidEvent."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or (number := int(text)) > _LARGEST:
        raise InvalidEvent(f"attribute {SEQUENCE!r}: {text[:40]!r}; a decimal number of 63 bits is expected")
    return number


def reason_of(sequence: int) -> str:
    """Of the condition REPORTED."""
    return f"{_REASON}{sequence}"


def reported_sequence(reason: str) -> int:
    """Of the report that the condition REPORTED with this reason is about; -1, which is before all others, where it says none."""
    text = reason.removeprefix(_REASON)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
