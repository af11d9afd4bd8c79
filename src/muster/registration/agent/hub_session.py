"""A session with the hub of the agent's credential: lease, status and renewal, until there is a reason to leave.

Concurrent tasks: a watch of the agent's ManagedCluster, the lease, the status, the renewal of the credential, addons, events, and a
check of whether to continue. There are few reasons to leave, and no outage is one as long as there is only one hub.

A credential belongs to the ManagedCluster under which it was issued. If that is deleted on the hub, the agent does not create it
again; but if an administrator creates and accepts another one of the same name, the agent finds that it has no permissions on an
accepted cluster, and registers again. A derived credential was issued by nobody: registering again would compute the same one, so
the agent stays and retries.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

from muster.api import MalformedObject, is_true
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.clock import pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.registration.agent.addons.controller import AddonController
from muster.registration.agent.context import AgentContext
from muster.registration.agent.failover import CHECK_SECONDS, denied
from muster.registration.agent.hub_credential import hub_credential_keeper, store_derived
from muster.registration.agent.introduction import accepted, own_cluster
from muster.registration.agent.reports.lease import LeaseKeeper
from muster.registration.agent.reports.status import StatusReporter
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.drivers.endpoints import EndpointError, HubAddress
from muster.registration.drivers.interfaces import is_derived
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache import Informer
from muster.runtime.client import Forbidden, KubeClient, KubeError
from muster.runtime.controller import EventRecorder

log = get_logger("muster.registration.agent")

CONTROLLER = "klusterlet-agent"
SESSION_CHECK_INTERVAL = 60.0
"""Interval of the check whether the session should end; important changes are noticed at once."""
ACCEPTED_SECONDS = 2.0
"""So long after the credential came, acceptance is waited for with the bootstrap identity if it was not there yet."""
HURRY_SECONDS = 1.0
SHUT_OUT_SECONDS = 15.0
"""Between two looks at whether the hub has shut us out of our cluster; after two that find so, we are."""
REFUSED_SECONDS = 120.0
"""How long a hub must refuse a credential that looks valid before it is given up."""


class SessionEnd(Enum):
    """Why serving ended."""

    EXPIRED = "the credential can no longer be used"
    REFUSED = "the hub does not take the credential"
    REPLACED = "the hub has another cluster of this name, which the credential is not for"
    MOVED = "the bootstrap kubeconfig names another hub"
    FAILED = "the hub failed us"


async def run_session(context: AgentContext, address: HubAddress) -> SessionEnd:
    """Raises OSError when the way to the hub cannot be put where it belongs, EndpointError when it cannot be used."""
    await context.secret.mirrored()
    if is_derived(context.driver):
        await _rewritten(context, address)
    if context.secret.endpoint is None:
        return SessionEnd.EXPIRED
    hub = context.connect(context.secret.endpoint)
    try:
        context.state.registered = True
        context.state.report("serving", address.server)
        return await HubSession(context, hub, address).run()
    finally:
        await hub.close()


async def _rewritten(context: AgentContext, address: HubAddress) -> None:
    """What another agent, or this one in another version, has written for the same role is written as this one would."""
    try:
        await store_derived(context, address)
    except KubeError as error:
        log.warning("cannot rewrite the hub's kubeconfig; using the stored one", error=str(error))


class HubSession:
    def __init__(self, context: AgentContext, hub: KubeClient, address: HubAddress) -> None:
        self._context = context
        self._hub = hub
        self._address = address
        self._events = EventRecorder(
            hub, CONTROLLER, context.identity.agent, metrics=context.metrics, clock=context.clock, random=context.random
        )
        self._clusters: Informer[ManagedCluster] = own_cluster(hub, context)
        self._lease = LeaseKeeper(context, hub, self._clusters)
        self._status = StatusReporter(context, hub, self._clusters, self._lease, self._events, address.server_hash)
        self._lease.on_answered(self._status.wake)
        self._keeper = hub_credential_keeper(context, hub, address, trouble=_quiet, report=self._status.report)
        self._is_derived = is_derived(context.driver)
        addons = context.options.addons
        self._addons = [AddonController(context, hub, address, self._clusters, self._events)] if addons else []

    async def run(self) -> SessionEnd:
        endless: list[Any] = [self._clusters, self._keeper, self._lease, self._status, self._events, *self._addons]
        parts: list[Any] = [part.run() for part in endless]
        leave: SessionEnd = await race(*parts, self._until_over(), self._until_replaced(), self._until_accepted())
        return leave

    async def _until_accepted(self) -> SessionEnd:
        """While the hub forbids reading our ManagedCluster, wait for its acceptance with the bootstrap identity."""
        context = self._context
        await sleep(context.clock, ACCEPTED_SECONDS)
        candidate = context.candidate(self._address)
        if candidate is not None and not self._clusters.has_synced:
            await self._wait_with(candidate)
        await asyncio.Event().wait()
        raise AssertionError("waiting ended without cancellation")

    async def _wait_with(self, candidate: Candidate) -> None:
        try:
            hub = self._context.connect(candidate.endpoint)
        except EndpointError:
            return
        try:
            await race(self._hurry_once_accepted(hub), self._clusters.synced())
        finally:
            await hub.close()

    async def _hurry_once_accepted(self, bootstrap: KubeClient) -> None:
        await accepted(bootstrap, self._context)
        while True:
            self._clusters.hurry()
            await sleep(self._context.clock, HURRY_SECONDS)

    async def _until_over(self) -> SessionEnd:
        context, news = self._context, asyncio.Event()
        self._clusters.on_change(lambda old, new: news.set())
        ignore = [context.secret.on_change(news.set), context.bootstraps.on_change(news.set)]
        interval = min(SESSION_CHECK_INTERVAL, context.options.hub_connection_timeout / 4)
        try:
            while True:
                leave = self._reason_to_leave()
                if leave is not None:
                    return leave
                await pause(context.clock, news, interval)
        finally:
            for end in ignore:
                end()

    async def _until_replaced(self) -> SessionEnd:
        """Until the hub has accepted a cluster of our name and shut us out of it."""
        found = 0
        while found < 2:
            await sleep(self._context.clock, SHUT_OUT_SECONDS)
            found = found + 1 if await self._is_shut_out() else 0
        return SessionEnd.REPLACED

    async def _is_shut_out(self) -> bool:
        """Whether our own ManagedCluster is accepted, as the bootstrap identity sees it, and we may not even look at it."""
        candidate = self._context.candidate(self._address)
        if candidate is None or self._is_derived or not self._in_doubt:
            return False
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._hub.get(MANAGED_CLUSTERS, self._context.cluster)
        except Forbidden:
            return await self._is_accepted(candidate)
        except (KubeError, TimeoutError):
            pass
        return False

    @property
    def _in_doubt(self) -> bool:
        """Whether anything speaks for it that our cluster is not ours any more; while nothing does, the hub is not asked.

        The lease alone would not tell: it is renewed once a minute, and not at all once the cluster was seen to go.
        """
        clusters = self._clusters
        return bool(clusters.outage) or clusters.cache.named(self._context.cluster) is None or self._lease.failing

    async def _is_accepted(self, candidate: Candidate) -> bool:
        try:
            bootstrap = self._context.connect(candidate.endpoint)
        except EndpointError:
            return False
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                found = ManagedCluster.decode(await bootstrap.get(MANAGED_CLUSTERS, self._context.cluster))
        except (KubeError, MalformedObject, TimeoutError):
            return False
        finally:
            await bootstrap.close()
        return is_true(found.status.conditions, ACCEPTED) and not found.metadata.deletion_timestamp

    def _reason_to_leave(self) -> SessionEnd | None:
        context, lease = self._context, self._lease
        now = context.clock.monotonic()
        candidates = context.bootstraps.candidates
        if candidates and context.candidate(self._address) is None:
            return SessionEnd.MOVED
        if context.credential_problem():
            return SessionEnd.EXPIRED
        if len(candidates) > 1:
            cluster = self._clusters.cache.named(context.cluster)
            if cluster is not None and denied(cluster):
                return SessionEnd.FAILED
            if now - lease.last_success >= context.options.hub_connection_timeout:
                return SessionEnd.FAILED
        is_refused = lease.refused_since is not None and now - lease.refused_since >= REFUSED_SECONDS
        return SessionEnd.REFUSED if candidates and is_refused and not self._is_derived else None


def _quiet(error: Exception | None) -> None:
    """While serving, a hub that is away is reported by those who follow it."""
    if error is not None:
        log.debug("cannot renew the credential now", error=str(error))
