"""Progress reports, and waits that always report what they wait for and why it is not ready yet.

`wait` polls until there is no reason left. An unreachable or busy server is one more reason to wait; one that denies the request
ends the wait at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from muster.administration.errors import TookTooLong
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.poll_interval import poll_interval
from muster.runtime.client import NoCredential, ServerFailure, TooManyRequests, Unreachable

LONGEST_PAUSE: Final = 0.25
Remaining = Callable[[], Awaitable[str]]
"""Why the condition is not met yet; empty once it is."""


class Progress(Protocol):
    def info(self, text: str) -> None:
        """A step was done, or something was found."""

    def note(self, text: str) -> None:
        """A remark that is not part of the result."""

    def warn(self, text: str) -> None:
        """A problem that does not stop the command."""

    def waiting(self, what: str, why: str) -> None:
        """What is waited for, and why it is not ready; called at every poll."""


class Silent:
    """No output, for callers that need the result only."""

    def info(self, text: str) -> None:
        return None

    def note(self, text: str) -> None:
        return None

    def warn(self, text: str) -> None:
        return None

    def waiting(self, what: str, why: str) -> None:
        return None


SILENT: Final = Silent()


async def wait(what: str, remaining: Remaining, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM) -> None:
    """Wait until `remaining` returns no reason. Raises TookTooLong with the last one."""
    began = clock.monotonic()
    while True:
        try:
            reason = await remaining()
        except NoCredential:
            raise
        except (Unreachable, ServerFailure, TooManyRequests) as error:
            reason = str(error)
        if not reason:
            return
        progress.waiting(what, reason)
        waited = clock.monotonic() - began
        if waited >= within:
            raise TookTooLong(what, reason, within)
        await sleep(clock, min(poll_interval(waited, LONGEST_PAUSE), within - waited))
