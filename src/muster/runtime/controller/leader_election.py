"""Leader election on a Lease, with client-go's rules, so that Go and Python replicas can share a Lease.

The holder renews the lease every `retry_period`; candidates read it as often (with jitter) and take it if it has not changed for
its duration. That time is measured by the candidate's own monotonic clock, from when it first saw the current record: the times in
the lease are informational, so clock skew cannot cause two leaders. Candidates also watch the lease, so that a released one is
taken at once; without the watch, or if it is forbidden, polling is sufficient.

A leader counts from *before* it sent its last successful renewal and stops after `renew_deadline`, which is earlier than any other
candidate may start. Its work is cancelled, and must have ended, before the lease is released.
"""

from __future__ import annotations

import asyncio
import random as chance
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.machinery.clock import SYSTEM, Clock, Random, sleep, within
from muster.machinery.confinement import host_name
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import LEASES
from muster.runtime.client.errors import KubeError, NotFound

log = get_logger("muster.runtime.controller.leader_election")

LEASE_SECONDS: Final = 60
RENEW_SECONDS: Final = 40
RETRY_SECONDS: Final = 10
JITTER = 1.2
"""A candidate waits between 1 and 2.2 retry periods."""


def _holder(lease: bytes) -> str:
    return str((orjson.loads(lease).get("spec") or {}).get("holderIdentity") or "")


class LeadershipLost(Exception):
    """The lease could not be renewed in time; the leader's work has been cancelled."""


def leader_identity(environ: Mapping[str, str]) -> str:
    """In a pod the identity is the pod's name, without a random part: only the same pod can return with it after a crash, and
    continues at once instead of waiting for its own lease to expire."""
    return environ.get("POD_NAME") or f"{host_name()}_{uuid.uuid4()}"


@dataclass(frozen=True)
class LeaderElection:
    """The lease of the replicas of a process, and the identity of this one."""

    client: KubeClient
    lease: str
    namespace: str
    identity: str

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """As LeaderElector's."""
        elector = LeaderElector(
            self.client,
            self.lease,
            self.namespace,
            self.identity,
            lease_duration=LEASE_SECONDS,
            renew_deadline=RENEW_SECONDS,
            retry_period=RETRY_SECONDS,
        )
        await elector.run(lead)


class LeaderElector:
    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str,
        identity: str,
        *,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        on_new_leader: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period * JITTER > 0:
            raise ValueError("lease_duration > renew_deadline > 1.2 * retry_period must hold")
        if lease_duration != int(lease_duration):
            raise ValueError("a Lease counts whole seconds")
        self.identity = identity
        self._client = client
        self._name = name
        self._namespace = namespace
        self._lease_duration = int(lease_duration)
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._on_new_leader = on_new_leader
        self._clock = clock
        self._random = random
        self._observed: Object | None = None
        self._observed_at = 0.0
        self._reported = ""

    @property
    def leader(self) -> str:
        """The holder of the lease when it was last seen."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def is_leader(self) -> bool:
        return self.leader == self.identity and self._clock.monotonic() < self._observed_at + self._renew_deadline

    @property
    def _spec(self) -> dict[str, Any]:
        return (self._observed or {}).get("spec") or {}

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` while it is held. Returns when `lead` does; raises LeadershipLost."""
        if not await self._try():
            await self._campaign()
        log.info("became leader", lease=f"{self._namespace}/{self._name}", identity=self.identity)
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait([work, renewal], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                log.warning("lost the lease", lease=f"{self._namespace}/{self._name}", identity=self.identity)
                raise LeadershipLost(f"lease {self._namespace}/{self._name} was not renewed for {self._renew_deadline:g} s")
            work.result()
        finally:
            renewal.cancel()
            work.cancel()
            await asyncio.gather(renewal, work, return_exceptions=True)
            await self._release()

    async def _campaign(self) -> None:
        """Returns once the lease is taken."""
        free = asyncio.Event()
        watch = asyncio.ensure_future(self._watch(free))
        try:
            while True:
                with suppress(TimeoutError):
                    await within(self._clock, self._pause(), free.wait())
                free.clear()
                if await self._try():
                    return
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def _pause(self) -> float:
        return self._retry_period * (1 + JITTER * self._random())

    async def _watch(self, free: asyncio.Event) -> None:
        """Sets `free` when the lease has no holder."""
        while True:
            try:
                async for event in self._client.watch(LEASES, self._namespace, field_selector=f"metadata.name={self._name}"):
                    if event.type == "DELETED" or (event.type != "BOOKMARK" and not _holder(event.raw)):
                        free.set()
            except KubeError as error:
                log.debug("lease not watched", lease=f"{self._namespace}/{self._name}", error=str(error))
            await sleep(self._clock, self._pause())

    async def _renew(self) -> None:
        """Returns when the lease could not be renewed in time."""
        while True:
            left = self._observed_at + self._renew_deadline - self._clock.monotonic()
            if left <= 0 or (self._observed is not None and self.leader != self.identity):
                return
            await sleep(self._clock, min(self._retry_period, left))
            left = self._observed_at + self._renew_deadline - self._clock.monotonic()
            if left > 0:
                await self._try(left)

    async def _try(self, seconds: float | None = None) -> bool:
        """Take or renew the lease; False if another holder has it or the server cannot be reached."""
        try:
            return await within(self._clock, seconds or self._renew_deadline, self._attempt())
        except (KubeError, TimeoutError) as error:
            log.debug("lease not taken", lease=f"{self._namespace}/{self._name}", error=str(error))
            return False
        finally:
            self._report()

    async def _attempt(self) -> bool:
        began = self._clock.monotonic()
        if self._observed is not None and self.is_leader:
            try:
                self._observe(await self._client.update(LEASES, self._claim(self._observed)), began)
            except KubeError:
                # The lease was written in between, or the response was lost: read it before the next attempt.
                pass
            else:
                return True
        try:
            current = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            created = await self._client.create(LEASES, self._claim(None), self._namespace)
            self._observe(created, began)
            return True
        if self._observed is None or current["metadata"]["resourceVersion"] != self._observed["metadata"]["resourceVersion"]:
            mine = self.leader == self.identity and (current.get("spec") or {}).get("holderIdentity") == self.identity
            # A renewal whose response was lost counts from the last confirmed one, not from now.
            self._observe(current, self._observed_at if mine else self._clock.monotonic())
        duration = float(self._spec.get("leaseDurationSeconds") or 0)
        if self.leader not in ("", self.identity) and self._clock.monotonic() < self._observed_at + duration:
            return False
        began = self._clock.monotonic()
        self._observe(await self._client.update(LEASES, self._claim(current)), began)
        return True

    def _claim(self, current: Object | None) -> Object:
        now = format_micro_time(self._clock.now())
        spec = dict((current or {}).get("spec") or {})
        if spec.get("holderIdentity") != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1 if current else 0
        spec |= {"holderIdentity": self.identity, "leaseDurationSeconds": self._lease_duration, "renewTime": now}
        fresh: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        metadata = {"name": self._name, "namespace": self._namespace}
        return {**(current or {**fresh, "metadata": metadata}), "spec": spec}

    def _observe(self, lease: Object, at: float) -> None:
        self._observed, self._observed_at = lease, at

    def _report(self) -> None:
        if self.leader and self.leader != self._reported:
            self._reported = self.leader
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)

    async def _release(self) -> None:
        """Release the lease, so that the next leader need not wait; best effort."""
        if self._observed is None or not self.is_leader:
            return
        now = format_micro_time(self._clock.now())
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        try:
            released = await within(self._clock, self._retry_period, self._client.update(LEASES, {**self._observed, "spec": spec}))
            self._observe(released, self._clock.monotonic())
        except (KubeError, TimeoutError) as error:
            log.info("lease not released; it will run out", lease=f"{self._namespace}/{self._name}", error=str(error))
