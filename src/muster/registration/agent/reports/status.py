"""Reports the state of the cluster: joined, available, version and resources, claims, managed namespaces.

One loop, one write. The observed state is merged into the cached ManagedCluster (`observed`, a pure function), and only differences
are patched, with the resourceVersion they are based on. The API server of the managed cluster is probed once per health check
period; everything else comes from watches. Nothing is reported while the hub does not accept the cluster. While the API server is
unhealthy, only that is reported. Conditions of others are kept, and none of them prevents the report.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from muster.api import Condition, condition_of, merge_patch, with_condition
from muster.api.cluster.v1 import AVAILABLE, JOINED, ManagedCluster, ManagedClusterClaim
from muster.api.cluster.v1alpha1 import ClusterClaim
from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause, sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.registration.agent.context import AgentContext
from muster.registration.agent.introduction import kept_right
from muster.registration.agent.reports.claims import PROPERTIES, TRUNCATED, exposed, values_of
from muster.registration.agent.reports.health import ApiServerHealth
from muster.registration.agent.reports.lease import LeaseKeeper, lease_seconds
from muster.registration.agent.reports.managed_namespaces import Entries, ManagedNamespaces
from muster.registration.agent.reports.resources import Node, Resources, decode_node, merged_capacity, reduced_node, resources_of
from muster.registration.drivers.interfaces import CredentialReport
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import Conflict, KubeClient, KubeError, StatusError
from muster.runtime.client.builtin import NODES
from muster.runtime.controller import EventRecorder

log = get_logger("muster.registration.agent")

CERTIFICATE_ROTATED = "ClusterCertificateRotated"
FIRST_SYNC_TIMEOUT = 2.0
"""The first report waits so long, at most, for the managed cluster's nodes and claims to be known."""
JOINED_CONDITION = Condition(type=JOINED, status="True", reason="ManagedClusterJoined", message="Managed cluster joined")


@dataclass(frozen=True)
class ClusterFacts:
    """What is known of the managed cluster; None is unknown."""

    available: Condition | None = None
    version: str = ""
    resources: Resources | None = None
    claims: tuple[ManagedClusterClaim, ...] | None = None
    namespaces: Entries | None = None
    certificate: Condition | None = None


def observed(cluster: ManagedCluster, facts: ClusterFacts, now: str) -> ManagedCluster:
    """The ManagedCluster with what we know in its status."""
    status = cluster.status
    conditions = status.conditions
    for condition in (JOINED_CONDITION, facts.certificate, facts.available):
        if condition is not None and not (condition is JOINED_CONDITION and _has(cluster, JOINED)):
            conditions = with_condition(conditions, condition, now)
    status = msgspec.structs.replace(status, conditions=conditions)
    if facts.available is not None and facts.available.status == "True":
        if facts.version:
            version = msgspec.structs.replace(status.version, kubernetes=facts.version)
            status = msgspec.structs.replace(status, version=version)
        if facts.resources is not None:
            capacity = merged_capacity(status.capacity, status.allocatable, facts.resources.capacity)
            status = msgspec.structs.replace(status, capacity=capacity, allocatable=facts.resources.allocatable)
        if facts.claims is not None:
            status = msgspec.structs.replace(status, cluster_claims=facts.claims)
        if facts.namespaces is not None:
            status = msgspec.structs.replace(status, managed_namespaces=facts.namespaces)
    return msgspec.structs.replace(cluster, status=status)


def _has(cluster: ManagedCluster, kind: str) -> bool:
    condition = condition_of(cluster.status.conditions, kind)
    return condition is not None and condition.status == "True"


class StatusReporter:
    def __init__(
        self,
        context: AgentContext,
        hub: KubeClient,
        clusters: Informer[ManagedCluster],
        lease: LeaseKeeper,
        events: EventRecorder,
        server_hash: str,
    ) -> None:
        self._context = context
        self._hub = hub
        self._clusters = clusters
        self._lease = lease
        self._events = events
        self._news = asyncio.Event()
        self._backoff = Backoff(0.5, 30.0, random=context.random)
        self._failing = ""
        self._certificate: Condition | None = None
        self._checked: ManagedCluster | None = None
        self._hidden = 0
        self._health = ApiServerHealth(context.client, context.clock, context.options.health_check_seconds)
        self._namespaces = ManagedNamespaces(context.client, server_hash)
        self._wanted_namespaces: set[str] = set()
        self._nodes = context.informers.of(NODES, decode=decode_node, reduce=reduced_node)
        self._claims = context.informers.of(ClusterClaim) if context.options.cluster_claims else None
        self._properties = context.informers.of(PROPERTIES) if context.options.cluster_properties else None
        clusters.on_change(self._changed)

    @property
    def _informers(self) -> list[Informer[Node] | Informer[ClusterClaim] | Informer[Snapshot]]:
        """The reported state of the managed cluster."""
        return [informer for informer in (self._nodes, self._claims, self._properties) if informer is not None]

    def _changed(self, old: object, new: object) -> None:
        self._news.set()

    def wake(self) -> None:
        self._news.set()

    def report(self, report: CredentialReport) -> None:
        """How it went with the credential."""
        self._certificate = Condition(
            type=CERTIFICATE_ROTATED, status="True" if report.status else "False", reason=report.reason, message=report.message
        )
        self._news.set()

    async def run(self) -> None:
        ignore = [informer.on_change(self._changed) for informer in self._informers]
        try:
            await self._wait_for_first_sync()
            await self._report()
        finally:
            # The caches outlive us: another hub is told of the same cluster.
            for end in ignore:
                end()

    async def _report(self) -> None:
        while True:
            self._news.clear()
            try:
                rest = await self._pass()
            except Conflict:
                rest = self._backoff.next() / 10
            except KubeError as error:
                rest = self._backoff.next()
                self._failed(str(error))
            except Exception as error:
                rest = self._backoff.next()
                self._failed(f"{type(error).__name__}: {error}")
            else:
                self._went_well()
            await pause(self._context.clock, self._news, rest)

    async def _wait_for_first_sync(self) -> None:
        """Wait a moment for the watches, so that the first report is whole."""
        await race(self._synced(), sleep(self._context.clock, FIRST_SYNC_TIMEOUT))

    async def _synced(self) -> None:
        for informer in self._informers:
            await informer.synced()

    async def _pass(self) -> float | None:
        """Report changes; returns the seconds until the next probe of the API server."""
        cluster = self._clusters.cache.named(self._context.cluster)
        if cluster is None or lease_seconds(cluster) is None:
            return None
        looked = self._health.rest <= 0
        if looked:
            await self._health.probe()
        await self._keep_right(cluster)
        await self._keep_namespaces(cluster, looked)
        now = format_time(self._context.clock.now())
        after = observed(cluster, self._facts(cluster, now), now)
        patch = merge_patch(cluster, after)
        if patch:
            metadata = cluster.metadata
            patch["metadata"] = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
            await self._hub.patch(MANAGED_CLUSTERS, metadata.name, patch, subresource="status")
            self._record_event(cluster, after)
        return self._health.rest

    def _facts(self, cluster: ManagedCluster, now: str) -> ClusterFacts:
        available = self._health.condition if self._lease.vouched(cluster) else None
        return ClusterFacts(
            available,
            self._health.version,
            resources_of(self._nodes.cache) if self._nodes.has_synced else None,
            self._exposed(),
            self._namespaces.results(cluster.status.managed_namespaces, now) if self._wanted_namespaces else None,
            self._certificate,
        )

    def _exposed(self) -> tuple[ManagedClusterClaim, ...] | None:
        options = self._context.options
        sources = [informer for informer in (self._claims, self._properties) if informer is not None]
        if not sources or not all(informer.has_synced for informer in sources):
            return None
        values = values_of(self._claims.cache if self._claims else (), self._properties.cache if self._properties else ())
        found = exposed(values, options.max_custom_claims, options.reserved_claim_suffixes)
        if found.hidden and found.hidden != self._hidden:
            text = (
                f"of {found.custom} custom cluster claims only the first {options.max_custom_claims} by name are reported; "
                f"{found.hidden} are left out"
            )
            self._context.events.event(self._context.secret.reference, "Warning", TRUNCATED, text)
            log.warning("not all claims are reported to the hub", cluster=self._context.cluster, hidden=found.hidden)
        self._hidden = found.hidden
        return found.claims

    async def _keep_namespaces(self, cluster: ManagedCluster, looked: bool) -> None:
        deleting = bool(cluster.metadata.deletion_timestamp)
        wanted = set() if deleting else {entry.name for entry in cluster.status.managed_namespaces}
        if wanted == self._wanted_namespaces and (not looked or (not wanted and self._namespaces.idle)):
            return
        if self._health.condition is not None and self._health.condition.status == "True":
            self._wanted_namespaces = wanted
            await self._namespaces.apply(wanted)

    async def _keep_right(self, cluster: ManagedCluster) -> None:
        """What an existing ManagedCluster lacks is added once we may; a bootstrap identity could not."""
        if self._checked is cluster:
            return
        document = cluster.document()
        right = kept_right(document, self._context.options, self._context.driver)
        if right != document:
            try:
                await self._hub.update(MANAGED_CLUSTERS, right)
            except StatusError as error:
                if isinstance(error, Conflict):
                    raise
                log.warning("cannot complete the ManagedCluster", cluster=self._context.cluster, error=str(error))
        self._checked = cluster

    def _record_event(self, before: ManagedCluster, after: ManagedCluster) -> None:
        old, new = (condition_of(side.status.conditions, AVAILABLE) for side in (before, after))
        if new is None or (old is not None and old.status == new.status):
            return
        name = before.metadata.name
        regarding = before.document()
        # A cluster's events are in its namespace, where it may write them.
        regarding["metadata"]["namespace"] = name
        if new.status == "True":
            text = f"Managed cluster {name} is connected to the hub and its API server answers"
            self._events.event(regarding, "Normal", "Available", text)
        elif new.status == "False":
            text = f"Managed cluster {name} is connected to the hub, but its API server does not answer"
            self._events.event(regarding, "Warning", "Unavailable", text)

    def _failed(self, problem: str) -> None:
        if not self._failing:
            self._failing = problem
            log.warning("cannot report the cluster's status to the hub", cluster=self._context.cluster, error=problem)

    def _went_well(self) -> None:
        self._backoff.reset()
        if self._failing:
            self._failing = ""
            log.info("reporting the cluster's status to the hub again", cluster=self._context.cluster)
