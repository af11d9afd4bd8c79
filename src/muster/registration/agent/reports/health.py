"""Health of the managed cluster's API server, as reported to the hub.

It requests `/livez`, or `/healthz` if there is no `/livez` or it is forbidden. A failure must last before the cluster is reported
as unavailable, and until then it is probed more often. The answer of an unhealthy server becomes the condition's message. The
version is read at intervals, and whenever the server was unavailable, because that is when it changes.
"""

from __future__ import annotations

import asyncio

from muster.api import Condition
from muster.api.cluster.v1 import AVAILABLE
from muster.machinery.clock import Clock
from muster.runtime.client import KubeClient, KubeError, StatusError, Unreachable

UNHEALTHY_AFTER = 20.0
"""So long must an API server be failing before the cluster is called unavailable."""
FAILING_SECONDS = 5.0
REQUEST_SECONDS = 15.0
VERSION_SECONDS = 300.0

HEALTHY = Condition(type=AVAILABLE, status="True", reason="ManagedClusterAvailable", message="Managed cluster is available")


class ApiServerHealth:
    def __init__(self, spoke: KubeClient, clock: Clock, period: float) -> None:
        self._spoke = spoke
        self._clock = clock
        self._period = period
        self._failing_since: float | None = None
        self._next = self._version_due = clock.monotonic()
        self.condition: Condition | None = None
        """The state of the server; None before the first answer, and during the first failures."""
        self.version = ""

    @property
    def rest(self) -> float:
        """Seconds until the next probe."""
        return max(0.0, self._next - self._clock.monotonic())

    async def probe(self) -> None:
        problem = await self._request()
        now = self._clock.monotonic()
        if not problem:
            if self._failing_since is not None or now >= self._version_due:
                self.version = await self._version() or self.version
                self._version_due = now + VERSION_SECONDS if self.version else now
            self._failing_since = None
            self.condition = HEALTHY
            self._next = now + self._period
            return
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= UNHEALTHY_AFTER:
            reason = "ManagedClusterKubeAPIServerUnavailable"
            self.condition = Condition(type=AVAILABLE, status="False", reason=reason, message=problem)
            self._next = now + self._period
        else:
            self._next = now + min(FAILING_SECONDS, self._period)

    async def _request(self) -> str:
        """Empty when all is well, or what is wrong."""
        code = 0
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._spoke.check_health()
            return ""
        except StatusError as error:
            code, answer = error.code, error.message
        except TimeoutError:
            answer = f"no answer within {REQUEST_SECONDS:g} s"
        except Unreachable as error:
            answer = error.reason
        except KubeError as error:
            answer = str(error)
        return f"The kube-apiserver is not ok, status code: {code}, {answer}"

    async def _version(self) -> str:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._spoke.server_version()
        except (KubeError, TimeoutError):
            return ""
