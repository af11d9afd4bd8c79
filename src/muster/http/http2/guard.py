"""A rate limit for frames that cost us more than the client.

Streams that are opened and reset (CVE-2023-44487), or reset because of errors in them; pings, settings, priorities and unknown
frames; empty data frames; small window updates. Each is a legitimate part of the protocol, so each connection has an allowance that
is refilled with time, a smaller one without authentication. The connection ends when it is used up.
"""

from __future__ import annotations

from typing import Final

STRANGER_SHARE: Final = 0.1


class Guard:
    __slots__ = ("_burst", "_left", "_per_second", "_since")

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._since = now

    def charge(self, now: float, *, stranger: bool, cost: float = 1.0) -> bool:
        """Whether the allowance is not used up."""
        if stranger:
            cost /= STRANGER_SHARE
        self._left = min(self._burst, self._left + (now - self._since) * self._per_second) - cost
        self._since = now
        return self._left >= 0
