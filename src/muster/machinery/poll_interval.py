"""How long to pause between two looks at something that cannot be followed.

What is there within milliseconds is not to cost a tenth of a second, and what takes minutes is not to be asked for twenty times a
second: the pause is a share of the time that was waited already. So whoever waits loses that share at most.
"""

from __future__ import annotations

from typing import Final

MIN_POLL_INTERVAL: Final = 0.025
WAITED_SHARE: Final = 0.15


def poll_interval(waited: float, longest: float) -> float:
    """In seconds, after so many seconds of waiting."""
    return min(longest, max(MIN_POLL_INTERVAL, WAITED_SHARE * waited))
