"""How much a client may ask for that costs us more than it costs the client.

Streams that are opened and reset (CVE-2023-44487), or that the client has us reset by errors in them; pings, settings,
priorities and unknown frames; data without bytes; windows opened by a few bytes. Each is part of the protocol and has its uses,
so each connection has an allowance that fills up again with time, a smaller one while nobody knows whose it is. When it is used
up the connection ends.
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
        """Whether there is still something left of the allowance."""
        if stranger:
            cost /= STRANGER_SHARE
        self._left = min(self._burst, self._left + (now - self._since) * self._per_second) - cost
        self._since = now
        return self._left >= 0
