"""An agent in the test's own process that believes in another time.

Kubernetes signs no certificate that lives shorter than ten minutes, and agents ask for an hour at least, so nobody can wait for
one to age. The agent's clock is set instead; everybody else's stays right.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from muster.machinery.clock import SystemClock
from muster.machinery.metrics import Metrics
from muster.registration.agent.agent import Agent
from muster.registration.agent.options import AgentOptions
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

HOUR = 3600
ONE_HOUR = {"client-cert-expiration-seconds": [str(HOUR)]}


class ShiftedClock(SystemClock):
    """Another idea of what time it is; timers run as ever."""

    def __init__(self, seconds: float) -> None:
        self._shift = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._shift


@contextlib.asynccontextmanager
async def running(options: AgentOptions, kubeconfig: Path, shift: float = 0) -> AsyncIterator[None]:
    """The product's agent, its clock that many seconds ahead."""
    client = HttpClient(load_kubeconfig(kubeconfig))
    agent = Agent(client, options, clock=ShiftedClock(shift), random=random.random, metrics=Metrics())
    task = asyncio.create_task(agent.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


def lifetime(certificate: bytes) -> timedelta:
    parsed = x509.load_pem_x509_certificate(certificate)
    return parsed.not_valid_after_utc - parsed.not_valid_before_utc
