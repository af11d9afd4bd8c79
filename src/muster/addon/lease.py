"""The lease of an addon's agent, by which it reports its health: for agents written in Python. Follows addon-framework's
`pkg/lease`.

The lease has the addon's name and is in the agent's own namespace on its cluster; the registration agent there watches it and
reports to the hub. It is created if it is missing and renewed about every minute while every check succeeds: an unhealthy agent
does not renew it, and becomes unavailable five minutes later.
"""

from __future__ import annotations

import random as chance
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, KubeClient, KubeError, NotFound
from muster.runtime.client.builtin import LEASES, PODS

log = get_logger("muster.addon.lease")

RENEWAL: Final = 60.0
"""Seconds between two renewals, up to a quarter more."""
JITTER: Final = 0.25

HealthCheck = Callable[[], Awaitable[bool]]


def pod_running(client: KubeClient, namespace: str, label_selector: str) -> HealthCheck:
    """Checks that a pod of the agent runs."""

    async def check() -> bool:
        pods = await client.list(PODS, namespace, label_selector=label_selector)
        return any((pod.get("status") or {}).get("phase") == "Running" for pod in pods.items)

    return check


def api_server_healthy(client: KubeClient) -> HealthCheck:
    """Checks that the agent's API server is healthy."""

    async def check() -> bool:
        await client.check_health()
        return True

    return check


class LeaseUpdater:
    """The agent runs `run` as a task. The client is one of the cluster where the agent runs."""

    def __init__(
        self,
        client: KubeClient,
        addon: str,
        namespace: str,
        checks: Sequence[HealthCheck] = (),
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._client = client
        self._addon = addon
        self._namespace = namespace
        self._checks = tuple(checks)
        self._clock = clock
        self._random = random

    async def run(self) -> None:
        while True:
            try:
                await self.update()
            except KubeError as error:
                log.warning("lease not renewed", lease=f"{self._namespace}/{self._addon}", error=str(error))
            await sleep(self._clock, RENEWAL * (1 + JITTER * self._random()))

    async def update(self) -> bool:
        """Renew the lease once, if all checks succeed; returns whether they did. Raises KubeError."""
        for check in self._checks:
            if not await check():
                log.warning("lease not renewed: a health check failed", lease=f"{self._namespace}/{self._addon}")
                return False
        try:
            current = await self._client.get(LEASES, self._addon, self._namespace)
        except NotFound:
            await self._client.create(LEASES, self._renewed({}), self._namespace)
            return True
        try:
            await self._client.update(LEASES, self._renewed(current))
        except Conflict:
            # Another replica of the agent has just renewed it.
            log.debug("lease renewed by another", lease=f"{self._namespace}/{self._addon}")
        return True

    def _renewed(self, current: Object) -> Object:
        fresh: Object = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._addon, "namespace": self._namespace},
        }
        renewal = {"leaseDurationSeconds": int(RENEWAL), "renewTime": format_micro_time(self._clock.now())}
        return {**fresh, **current, "spec": {**(current.get("spec") or {}), **renewal}}
