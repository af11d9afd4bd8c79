"""The interval for polling something that cannot be watched.

It is a share of the time waited so far: short waits are not rounded up to a tenth of a second, and long ones do not cause twenty
requests per second. The additional delay is at most that share.
"""

from __future__ import annotations

from typing import Final

MIN_POLL_INTERVAL: Final = 0.025
WAITED_SHARE: Final = 0.15


def poll_interval(waited: float, longest: float) -> float:
    """In seconds, after this many seconds of waiting."""
    return min(longest, max(MIN_POLL_INTERVAL, WAITED_SHARE * waited))
