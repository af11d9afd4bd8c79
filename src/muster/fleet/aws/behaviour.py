"""Fault injection: delays, throttling, failures and lost answers, set while the server runs and not stored.

Each setting is for one operation (`iam:CreateRole`), a service (`iam:*`) or all (`*`). A fault strikes a number of times: before
the operation, which is then not done, or after it, which is then done without an answer; a client cannot tell them apart. Rates are
per account.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final

from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.policy.patterns import matches
from muster.machinery.clock import Clock, sleep


class FaultKind(Enum):
    ERROR = "500"
    UNAVAILABLE = "503"
    THROTTLED = "throttled"
    HANG = "no answer"
    """No answer until the client times out, or the server stops."""
    CUT = "the connection is cut"


class AnswerLost(Exception):
    """The client is to get no answer."""


@dataclass
class Fault:
    operation: str
    kind: FaultKind
    times: int | None = 1
    """None: always."""
    after: bool = False
    """Whether the operation is done first."""


@dataclass(frozen=True)
class Throttle:
    rate: float
    """Calls per second and account."""
    burst: float = 1.0
    """How many calls may come at once."""


_REFUSALS: Final = {
    FaultKind.ERROR: ("InternalFailure", "An internal error occurred.", 500),
    FaultKind.UNAVAILABLE: ("ServiceUnavailable", "The service is unavailable. Please try again shortly.", 503),
    FaultKind.THROTTLED: ("Throttling", "Rate exceeded", 400),
}


class Behaviour:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        self.delay = 0.0
        """Seconds that every call takes."""
        self.delays: dict[str, float] = {}
        """Delays of particular operations that replace `delay`; patterns as in `Fault`."""
        self.throttles: dict[str, Throttle] = {}
        """Rates by operation; a call has to pass all that match."""
        self.longest_session: int | None = None
        """The longest life of sessions in seconds, whatever was requested."""
        self.faults: list[Fault] = []

    def fail(self, operation: str, kind: FaultKind, *, times: int | None = 1, after: bool = False) -> Fault:
        fault = Fault(operation, kind, times, after)
        self.faults.append(fault)
        return fault

    async def before(self, operation: str, account: str) -> None:
        """Raises AwsRefusal and AnswerLost."""
        await sleep(self._clock, self._delay(operation))
        await self._interrupt(operation, after=False)
        wanted = [(pattern, limit) for pattern, limit in self.throttles.items() if matches(pattern, operation)]
        if account and not all(self._may((pattern, account), limit) for pattern, limit in wanted):
            raise _refusal(FaultKind.THROTTLED)

    async def after(self, operation: str) -> None:
        """Raises AwsRefusal and AnswerLost."""
        await self._interrupt(operation, after=True)

    def _delay(self, operation: str) -> float:
        return next((seconds for pattern, seconds in self.delays.items() if matches(pattern, operation)), self.delay)

    async def _interrupt(self, operation: str, *, after: bool) -> None:
        for fault in self.faults:
            if fault.after is after and matches(fault.operation, operation):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.faults.remove(fault)
                await _strike(fault.kind)
                return

    def _may(self, key: tuple[str, str], limit: Throttle) -> bool:
        """A token bucket of `burst` calls that fills at `rate`."""
        now = self._clock.monotonic()
        left, since = self._buckets.get(key, (limit.burst, now))
        left = min(limit.burst, left + (now - since) * limit.rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        return allowed


async def _strike(kind: FaultKind) -> None:
    if kind is FaultKind.HANG:
        await asyncio.get_running_loop().create_future()
    if kind is FaultKind.CUT:
        raise AnswerLost
    raise _refusal(kind)


def _refusal(kind: FaultKind) -> AwsRefusal:
    code, message, status = _REFUSALS[kind]
    return AwsRefusal(code, message, status)
