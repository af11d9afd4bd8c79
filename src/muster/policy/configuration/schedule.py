"""When a ConfigurationPolicy is evaluated: after a change of its dependencies, at an interval, or never again.

`evaluationInterval` sets this for compliant and noncompliant policies; unknown compliance counts as noncompliant. `watch`, the
default, watches every object that an evaluation read and needs no schedule. A duration starts at the end of the last evaluation,
which is in the status for a restart. An invalid interval is 10 seconds.

These are functions of a policy and a time; only `RateLimit` and `EvaluationSlots` have state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.api.policy.v1 import ConfigurationPolicy, ConfigurationPolicyStatus, EvaluationInterval
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.golang.durations import SECOND, parse_duration
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, ENCRYPTION_IV_ANNOTATION, UNINSTALLING_ANNOTATION
from muster.policy.reporter import COMPLIANT, NON_COMPLIANT

NEVER: Final = "never"
WATCH: Final = "watch"
INVALID_INTERVAL: Final = 10.0
"""Seconds between evaluations if the policy's interval is invalid."""
HUB_FAILURE: Final = "Hub template resolution failure"
"""Reason of the condition of a policy whose hub templates are not resolved."""
_RETRIED: Final = (
    (HUB_FAILURE, ""),
    ("K8s update template error", "timed out waiting for the object to delete during recreate"),
)
"""Reasons and texts of conditions after which a policy is evaluated whatever its interval is."""
_DECISIVE_ANNOTATIONS: Final = (ENCRYPTION_IV_ANNOTATION, DISABLE_TEMPLATES_ANNOTATION, UNINSTALLING_ANNOTATION)
"""Annotations that affect the evaluation of a policy."""


@dataclass(frozen=True)
class Interval:
    """By watches, every given number of seconds, or (None) never."""

    watch: bool = False
    seconds: float | None = None


def interval_of(intervals: EvaluationInterval, compliant: str) -> Interval:
    """The interval in this state."""
    text = intervals.compliant if compliant == COMPLIANT else intervals.noncompliant
    if text in ("", WATCH):
        return Interval(watch=True)
    if text == NEVER:
        return Interval()
    try:
        return Interval(seconds=max(0.0, parse_duration(text) / SECOND))
    except GoError:
        return Interval(seconds=INVALID_INTERVAL)


def seconds_until_due(policy: ConfigurationPolicy, now: datetime, *, namespaces_changed: bool = False) -> float | None:
    """Seconds until the next evaluation: 0 if it is due, None if only a change triggers it."""
    status = policy.status
    if (
        policy.metadata.deletion_timestamp
        or not status.last_evaluated
        or status.last_evaluated_generation != policy.metadata.generation
        or status.compliant not in (COMPLIANT, NON_COMPLIANT)
        or namespaces_changed
        or _is_retried(status)
    ):
        return 0.0
    interval = interval_of(policy.spec.evaluation_interval, status.compliant)
    if interval.watch:
        return 0.0
    if interval.seconds is None:
        return None
    try:
        last = parse_time(status.last_evaluated)
    except GoError:
        return 0.0
    return max(0.0, interval.seconds - (now - last).total_seconds())


def _is_retried(status: ConfigurationPolicyStatus) -> bool:
    return status.compliant == NON_COMPLIANT and any(
        condition.reason == reason and text in condition.message
        for details in status.compliancy_details
        for condition in details.conditions
        for reason, text in _RETRIED
    )


def concerns_evaluation(old: ConfigurationPolicy | None, new: ConfigurationPolicy | None) -> bool:
    """Whether a change of the policy itself requires an evaluation: the controller's own status writes do not."""
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or bool(after.deletion_timestamp)
        or any(before.annotations.get(name) != after.annotations.get(name) for name in _DECISIVE_ANNOTATIONS)
        # The policy framework requests a new message by clearing the compliance.
        or bool(old.status.compliant and not new.status.compliant)
    )


class EvaluationSlots:
    """Limits concurrent evaluations. A slow evaluation is waiting for something: it gives up its slot, and delays no other."""

    def __init__(self, count: int, *, seconds: float = 1.0, clock: Clock = SYSTEM) -> None:
        self._free = asyncio.Semaphore(count)
        self._seconds = seconds
        self._clock = clock

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        await self._free.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = self._clock.call_later(self._seconds, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()


class RateLimit:
    """One evaluation per policy in the given seconds: a token bucket of one token each."""

    def __init__(self, seconds: float, *, clock: Clock = SYSTEM) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next: dict[Hashable, float] = {}

    def take(self, key: Hashable) -> float:
        """0 if the token was available and is used now, else the seconds until there is one."""
        now = self._clock.monotonic()
        left = self._next.get(key, now) - now
        if left > 0:
            return left
        self._next[key] = now + self._seconds
        return 0.0

    def forget(self, key: Hashable) -> None:
        self._next.pop(key, None)
