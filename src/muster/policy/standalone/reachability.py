"""Whether the hub can be reached, and which policies are waiting for it.

The error of a template decides (`is_connectivity_failure`): no answer, or one from a server in front of an unavailable hub.
Unless the request could not even be sent, the client's gate confirms the outage by a probe, so that one lost request is not an
outage. While the gate is closed every request fails at once, and a probe is sent now and then; when one succeeds, waiting
policies are resolved again. If the hub can be reached but does not serve, they are retried with backoff and jitter.
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

INITIAL_RETRY_DELAY: Final = 1.0
MAX_RETRY_DELAY: Final = 15.0
"""Initial and maximum seconds until a policy with a transient failure is retried."""


def hub_failure(error: BaseException) -> KubeError | None:
    """The hub's or connection's error, if that is why something was not resolved."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KubeError):
        cause = cause.__cause__
    return cause


def is_connectivity_failure(failure: KubeError | None) -> bool:
    """Whether the hub has not answered: the last resolved state may be used then."""
    return isinstance(failure, Unreachable | ServerFailure)


def is_transient_failure(failure: KubeError | None) -> bool:
    """Whether the failure says nothing about the template: the hub may resolve it later, and the last resolved state is kept."""
    return is_connectivity_failure(failure) or isinstance(failure, Unauthorized | TooManyRequests)


class HubReachability:
    """The owner runs `run` as a task."""

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
        self._backoff = Backoff(INITIAL_RETRY_DELAY, MAX_RETRY_DELAY, random=random)
        self._waiting: dict[PolicyKey, None] = {}
        self._has_waiting = asyncio.Event()

    async def is_unreachable(self, failure: KubeError | None) -> bool:
        """Whether the hub is unreachable, after a request to it failed with this error."""
        gate = self._hub.gate
        return gate is not None and failure is not None and is_connectivity_failure(failure) and await gate.is_closed_by(failure)

    def wait(self, policy: PolicyKey) -> None:
        """Resolve the policy again when the hub serves again."""
        self._waiting[policy] = None
        self._has_waiting.set()

    def forget(self, policy: PolicyKey) -> None:
        self._waiting.pop(policy, None)
        if not self._waiting:
            self._backoff.reset()

    async def run(self) -> None:
        while True:
            await self._has_waiting.wait()
            gate = self._hub.gate
            if gate is not None and gate.error is not None:
                await gate.passage()
            else:
                await sleep(self._clock, self._backoff.next())
            self._has_waiting.clear()
            waiting, self._waiting = self._waiting, {}
            for policy in waiting:
                self._on_return(policy)
