"""The controller of addons on a managed cluster: reconciles one ManagedClusterAddOn.

Steps: read the addon → ensure its credentials and remove those that it no longer needs → evaluate its lease, if its health is
reported by lease → patch the status. It runs when the addon, its Secrets, its lease or its namespaces change, when a credential
has changed, and when its lease is due. So without changes there are no requests but renewed watches. While the hub reports the
cluster as unknown, it sets the conditions of addons itself; the agent does not change them until its lease is renewed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.api import condition_of
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.backoff import Backoff
from muster.machinery.clock import sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.machinery.tasks import race
from muster.registration.agent.addons.credentials import AddonCredentials, Sides
from muster.registration.agent.addons.leases import AVAILABLE, Health, health_of
from muster.registration.agent.addons.namespaces import AddonNamespaces, label_hint
from muster.registration.agent.addons.registrations import NONE, Situation, location_of, registrations_of
from muster.registration.agent.addons.status import AddonFacts, reported
from muster.registration.agent.context import AgentContext
from muster.registration.agent.reports.lease import lease_seconds, missed_at
from muster.registration.drivers.certificates.options import client_expiration
from muster.registration.drivers.endpoints import HubAddress
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import KubeClient, KubeError, patch_object, served
from muster.runtime.controller import EventRecorder

log = get_logger("muster.registration.agent.addons")

ADDONS = served(ManagedClusterAddOn)
STATUS_UPDATED = "ManagedClusterAddOnStatusUpdated"
LEASE_MODES = ("", "Lease")


class AddonController:
    def __init__(
        self,
        context: AgentContext,
        hub: KubeClient,
        address: HubAddress,
        clusters: Informer[ManagedCluster],
        events: EventRecorder,
    ) -> None:
        self._context = context
        self._hub = hub
        self._address = address
        self._clusters = clusters
        self._events = events
        options = context.options
        self._certificate_seconds = client_expiration(options.driver, options.driver_options)
        self._addons: Informer[ManagedClusterAddOn] = Informer(
            hub, ADDONS, context.cluster, decode=ManagedClusterAddOn.decode, clock=context.clock, random=context.random
        )
        self._latest: MutationCache[ManagedClusterAddOn] = MutationCache(self._addons, clock=context.clock)
        self._controller = context.controller("addons", self.reconcile, grace=0)
        self._addons.on_change(self._confirm_delete)
        self._controller.watch(self._addons, lambda addon: [addon.metadata.name])
        managed = self._namespaces(context.client)
        hosting = managed if context.management is context.client else self._namespaces(context.management)
        self._sides = Sides(managed, hosting)
        self._credentials = AddonCredentials(context, hub, address, self._sides, self._controller.enqueue)
        self._is_served = asyncio.Event()
        self._missed = ""

    def _namespaces(self, client: KubeClient) -> AddonNamespaces:
        context, wake = self._context, self._controller.enqueue
        return AddonNamespaces(
            client, context.options.namespace, wake, self._lease_changed, self._wake_all, context.clock, context.random
        )

    async def run(self) -> None:
        ignore = [self._clusters.on_change(self._cluster_changed), self._context.bootstraps.on_change(self._wake_all)]
        try:
            # Before a hub accepts a cluster, it tells nothing of addons.
            await self._is_served.wait()
            await self._recall()
            parts: list[Any] = [self._addons, self._credentials, *self._sides.all]
            following = (part.run() for part in parts)
            await race(self._reconciling(), *following)
        finally:
            for end in ignore:
                end()

    async def _reconciling(self) -> None:
        for side in self._sides.all:
            await side.known()
        await self._controller.run()

    async def _recall(self) -> None:
        backoff = Backoff(1.0, 60.0, random=self._context.random)
        while True:
            try:
                for addon in await self._credentials.recall():
                    self._controller.enqueue(addon)
                return
            except KubeError as error:
                log.warning("cannot read what was begun for addons", error=str(error))
                await sleep(self._context.clock, backoff.next())

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if lease_seconds(new) is not None:
            self._is_served.set()
        missed = missed_at(new)
        if missed != self._missed:
            self._missed = missed
            self._wake_all()

    def _confirm_delete(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._latest.confirm_delete(ObjectKey(old.metadata.namespace, old.metadata.name), old.metadata.uid)

    def _lease_changed(self, name: str) -> None:
        # Not all leases are addons'.
        if self._addons.cache.named(name, self._context.cluster) is not None:
            self._controller.enqueue(name)

    def _wake_all(self) -> None:
        for addon in self._addons.cache:
            self._controller.enqueue(addon.metadata.name)

    # One addon.

    async def reconcile(self, name: str) -> float | None:
        addon = self._latest.get(ObjectKey(self._context.cluster, name))
        registrations = NONE if addon is None else registrations_of(addon, self._situation())
        await self._credentials.settle(name, registrations)
        if addon is None:
            return None
        health = self._health(addon)
        available = health.available if health is not None and not self._missed else None
        facts = AddonFacts(self._context.options.addon_driver, self._credentials.conditions(name), available)
        after = reported(addon, facts, format_time(self._context.clock.now()))
        answer = await patch_object(self._hub, addon, after, status=True)
        if answer is not None:
            self._latest.record_write(answer)
            self._record_event(addon, after)
        return None if health is None else health.again

    def _situation(self) -> Situation:
        context = self._context
        return Situation(context.cluster, context.options.addon_driver, context.api_of(self._address), self._certificate_seconds)

    def _health(self, addon: ManagedClusterAddOn) -> Health | None:
        """None where its lease is not what an addon is judged by, or is not known yet."""
        if addon.status.health_check.mode not in LEASE_MODES:
            return None
        name, location = addon.metadata.name, location_of(addon)
        namespace = self._sides.of(location).find(location.namespace)
        now = self._context.clock.now()
        if namespace is None:
            return health_of(name, None, now, unseen=f"{label_hint(location.namespace)}.")
        if not namespace.leases.has_synced:
            return None
        return health_of(name, namespace.leases.cache.named(name, location.namespace), now, hosted=location.hosted)

    def _record_event(self, before: ManagedClusterAddOn, after: ManagedClusterAddOn) -> None:
        old, new = (condition_of(side.status.conditions, AVAILABLE) for side in (before, after))
        if new is not None and (old is None or old.status != new.status):
            text = f"update addon {after.metadata.name!r} available condition to {new.status!r}: {new.message}"
            self._events.event(before.document(), "Normal", STATUS_UPDATED, text)
