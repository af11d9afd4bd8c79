"""Whether the hub can be reached, and who is to be told when it can be again.

What a template failed with decides (`is_connectivity_failure`): no answer, or one that comes from whatever stands before a hub that
is away. Unless nothing could even be sent, the client's gate confirms it by a probe, so that one lost request is not taken for an
outage. While the gate is closed everybody fails at once, and one probe goes out now and then for all; those who wait here are told
when one has succeeded. Where the hub is there, and yet did not serve, they are told after growing, jittered pauses.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.policy.standalone.interfaces import PolicyKey
from muster.runtime.client import KubeClient, KubeError, ServerFailure, TooManyRequests, Unauthorized, Unreachable

FIRST_RETRY_DELAY: Final = 1.0
LONGEST_RETRY_DELAY: Final = 15.0
"""Seconds until a policy is tried again whose failure passes, at first and at most."""


def hub_failure(error: BaseException) -> KubeError | None:
    """What the hub, or the way there, failed with, where that is why something was not resolved."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KubeError):
        cause = cause.__cause__
    return cause


def is_connectivity_failure(failure: KubeError | None) -> bool:
    """Whether the hub has not answered: what it last gave may stand in then."""
    return isinstance(failure, Unreachable | ServerFailure)


def is_passing_failure(failure: KubeError | None) -> bool:
    """Whether this says nothing about the template: the hub may well resolve it later, and what it last gave is worth keeping."""
    return is_connectivity_failure(failure) or isinstance(failure, Unauthorized | TooManyRequests)


class HubReachability:
    """`run` is to be a task of its owner."""

    def __init__(
        self,
        hub: KubeClient,
        on_return: Callable[[PolicyKey], None],
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._hub = hub
        self._on_return = on_return
        self._clock = clock
        self._backoff = Backoff(FIRST_RETRY_DELAY, LONGEST_RETRY_DELAY, random=random)
        self._waiting: dict[PolicyKey, None] = {}
        self._someone_waits = asyncio.Event()

    async def is_away(self, failure: KubeError | None) -> bool:
        """Whether the hub is away, now that a request to it has ended so."""
        gate = self._hub.gate
        return gate is not None and failure is not None and is_connectivity_failure(failure) and await gate.is_closed_by(failure)

    def wait(self, policy: PolicyKey) -> None:
        """The policy is to be resolved again when the hub serves again."""
        self._waiting[policy] = None
        self._someone_waits.set()

    def forget(self, policy: PolicyKey) -> None:
        self._waiting.pop(policy, None)
        if not self._waiting:
            self._backoff.reset()

    async def run(self) -> None:
        while True:
            await self._someone_waits.wait()
            gate = self._hub.gate
            if gate is not None and gate.error is not None:
                await gate.passage()
            else:
                await sleep(self._clock, self._backoff.next())
            self._someone_waits.clear()
            waiting, self._waiting = self._waiting, {}
            for policy in waiting:
                self._on_return(policy)
