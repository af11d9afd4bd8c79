"""Reconciles one addon on one cluster: one controller for all addons, with one status update per reconcile.

A reconcile is: read the plan → set the configurations → render the agent, once → set finalizers → bind roles → write works → set
the status: Configured, registrations, RegistrationApplied, ManifestApplied, HostingClusterValidity, Progressing, Available. Pure
functions of the other modules compute the desired state; this module reads and writes. A failed step sets its condition and is
retried; the other steps are done all the same.

A ManagedClusterAddOn is reconciled when these change: itself, its works and bindings by other writers, its cluster and the hosting
one, its plan, its configurations, an addon of the same cluster that it depends on (`AgentAddon.neighbours`), its
ClusterManagementAddOn's supported configurations, the process's addon (`addon_changed`), and, if a role was refused, the
permissions that administrators grant to addons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from muster.addon.agent_addon import AddonRegistry, Agent
from muster.addon.config_objects import ConfigObjects
from muster.addon.driver_changes import DriverChanges
from muster.addon.framework import role_bindings, works
from muster.addon.framework.addon_context import AddonContext, ForeignAddon, hosting_cluster
from muster.addon.framework.addon_writer import AddonWriter
from muster.addon.framework.configuration import config_key, configure, observed, resolve, unsupported
from muster.addon.framework.deployment import Deployment
from muster.addon.framework.effects import write_bindings, write_works
from muster.addon.framework.health import set_health
from muster.addon.framework.lifecycle import needed_finalizers
from muster.addon.framework.manifests import Sorted, sort_manifests
from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.progress import set_progress
from muster.addon.framework.registration import register
from muster.addon.framework.removal import Removal
from muster.addon.framework.rendered_agent import RenderedAgent, render
from muster.addon.framework.resources import ServedResources
from muster.addon.framework.role_bindings import MANAGED_BY_LABEL, RoleBinding, wanted_bindings
from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.addon.framework.status_draft import StatusDraft
from muster.addon.framework.works import WorkNamespace
from muster.addon.plans import Planned, Plans, is_managed
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL, drivers_in_use
from muster.api.cluster.v1 import ManagedCluster
from muster.api.resource import TypedObject
from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Snapshot
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.controller import ControllerContext

NAME: Final = "managed-cluster-addons"
_BY_ADDON: Final = "framework-addon"
_BY_CONFIG: Final = "framework-config"
_BY_HOSTING: Final = "framework-hosting-cluster"
_RIGHTS_DELAY: Final = 1.0
"""Seconds between a change of permissions and the retry of refused bindings: API servers may lag a moment behind."""


class NotDone(Exception):
    """Some objects of an addon could not be written; its conditions have the errors."""


class ManagedClusterAddOns:
    def __init__(
        self,
        context: ControllerContext,
        registry: AddonRegistry,
        plans: Plans | None,
        configs: ConfigObjects,
        process: str,
    ) -> None:
        self._context = context
        self._registry = registry
        self._plans = plans
        self._configs = configs
        self._process = process
        self._controller = context.controller(NAME, self.reconcile)
        informers = context.informers
        self._addons = informers.of(ManagedClusterAddOn)
        self._writer = AddonWriter(context, self._addons)
        self._clusters = informers.of(ManagedCluster)
        self._offers = informers.of(ClusterManagementAddOn)
        work_informer = informers.of(ManifestWork, label_selector=ADDON_LABEL)
        binding_informer = informers.of(RoleBinding, label_selector=f"{MANAGED_BY_LABEL}={process}")
        for informer in (self._addons, self._clusters, self._offers, work_informer, binding_informer):
            self._controller.depend(informer)
        wake, client, clock = self._controller.enqueue, context.client, context.clock
        self._works = OwnedObjects(client, ManifestWork, work_informer, works.owner_of, wake, clock)
        self._bindings = OwnedObjects(client, RoleBinding, binding_informer, role_bindings.owner_of, wake, clock)
        self._deployment = Deployment(self._works, ServedResources(client, clock))
        self._removal = Removal(context, self._works, self._writer, self._deployment)
        self._driver_changes = DriverChanges(clock)
        self._refused: set[ObjectKey] = set()
        """Addons with a role that this process may not bind."""
        self._listen()

    async def run(self) -> None:
        await self._controller.run()

    # Watches

    def _listen(self) -> None:
        cache = self._addons.cache
        cache.add_index(_BY_ADDON, lambda one: [one.metadata.name])
        cache.add_index(_BY_CONFIG, _config_keys)
        cache.add_index(_BY_HOSTING, lambda one: [name] if (name := hosting_cluster(one)) else [])
        self._addons.on_change(self._addon_seen)
        self._clusters.on_change(self._cluster_changed)
        self._offers.on_change(self._offer_changed)
        self._configs.on_change(lambda *key: self._wake_all(cache.by_index(_BY_CONFIG, config_key(*key))))
        if self._plans is not None:
            self._plans.on_change(lambda addon, cluster: self._controller.enqueue(ObjectKey(cluster, addon)))
            # Without plans the process has another account, whose permissions are granted otherwise.
            gathered = self._context.informers.of(CLUSTER_ROLES, field_selector=f"metadata.name={AGGREGATED_ROLE}")
            gathered.on_change(self._rights_changed)

    def addon_changed(self, name: str) -> None:
        """The registry's addon of this name was added, replaced or removed."""
        self._wake_all(self._addons.cache.by_index(_BY_ADDON, name))

    def _addon_seen(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        side = new if new is not None else old
        assert side is not None, "something changed"
        if self._writer.observe(side, gone=new is None):
            self._controller.enqueue(_key(side))
        if _seen_by_neighbours(old) != _seen_by_neighbours(new):
            others = self._addons.cache.in_namespace(side.metadata.namespace)
            self._wake_all(one for one in others if side.metadata.name in self._neighbours(one.metadata.name))

    def _neighbours(self, addon: str) -> Sequence[str]:
        served = self._registry.find(addon)
        return served.neighbours if served is not None else ()

    def _offer_changed(self, old: ClusterManagementAddOn | None, new: ClusterManagementAddOn | None) -> None:
        """The supported configurations determine the hub's own registry; other changes are reported by plans."""
        if old is None or new is None or _offered(old) != _offered(new):
            side = new if new is not None else old
            assert side is not None, "something changed"
            self.addon_changed(side.metadata.name)

    def _rights_changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """An administrator has changed the permissions for addons."""
        if new is None or (old is not None and old.data.get("rules") == new.data.get("rules")):
            return
        for key in self._refused:
            self._controller.enqueue(key)
            self._controller.enqueue_after(key, _RIGHTS_DELAY)

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if old is not None and new is not None and _seen_of(old) == _seen_of(new):
            return
        side = new if new is not None else old
        assert side is not None, "something changed"
        self._wake_all(self._addons.cache.in_namespace(side.metadata.name))
        self._wake_all(self._addons.cache.by_index(_BY_HOSTING, side.metadata.name))

    def _wake_all(self, addons: Iterable[ManagedClusterAddOn]) -> None:
        for addon in addons:
            self._controller.enqueue(_key(addon))

    # Reconcile

    async def reconcile(self, key: ObjectKey) -> float | None:
        # A reconcile without changes never suspends: other tasks get their turn here.
        await asyncio.sleep(0)
        found = self._writer.find(key)
        if found is None or found.metadata.deletion_timestamp:
            self._refused.discard(key)
        if found is None:
            # An undecodable one is not deleted.
            if key not in self._addons.malformed:
                self._driver_changes.forget(key)
                await self._clear(key)
            return None
        served = self._registry.find(key.name)
        named = self._clusters.cache.named
        hosting = hosting_cluster(found)
        agent_addon = served or ForeignAddon(key.name, found.status.supported_configs)
        addon_context = AddonContext(agent_addon, found, named(key.namespace), named(hosting) if hosting else None)
        draft = StatusDraft(found, self._context.clock.now())
        if served is None:
            await self._follow(addon_context, draft)
            return None
        if found.metadata.deletion_timestamp:
            return await self._removal.remove(addon_context, draft, self._rendered(addon_context, draft))
        if (
            addon_context.cluster is not None
            and not addon_context.cluster.metadata.deletion_timestamp
            and self._configure(addon_context, draft)
        ):
            await self._install(addon_context, draft)
        return None

    def _configure(self, addon_context: AddonContext, draft: StatusDraft) -> bool:
        """False while there is no plan for it, or its owner does not exist."""
        owner = addon_context.owner()
        own = addon_context.addon.spec.configs
        if self._plans is not None:
            planned = self._planned(addon_context.key, owner)
            if planned is None:
                return False
            configure(draft, planned)
            own = ()
        draft.put(
            config_references=observed(draft.status.config_references, self._configs, own),
            supported_configs=tuple(addon_context.agent_addon.config_kinds),
        )
        return owner is not None

    def _planned(self, key: ObjectKey, owner: str | None) -> Planned | None:
        plan = self._plans.of(key.name) if self._plans is not None else None
        return plan.clusters.get(key.namespace) if plan is not None and plan.uid == owner else None

    def _rendered(self, addon_context: AddonContext, draft: StatusDraft) -> RenderedAgent:
        if addon_context.cluster is None:
            return RenderedAgent()
        resolved = resolve(draft.status.config_references, self._configs)
        others = {
            name: self._addons.cache.named(name, addon_context.key.namespace) for name in addon_context.agent_addon.neighbours
        }
        neighbours = {name: one for name, one in others.items() if one is not None and not one.metadata.deletion_timestamp}
        return render(
            addon_context.agent_addon,
            addon_context.addon,
            addon_context.cluster,
            draft,
            resolved,
            neighbours,
            awaited=self._is_awaited(addon_context),
        )

    def _is_awaited(self, addon_context: AddonContext) -> bool:
        """Whether the hub's manager must configure an addon of this process first. Deployed works stay."""
        offer = self._offers.cache.named(addon_context.key.name)
        planned_by_manager = self._plans is None and offer is not None and is_managed(offer)
        return planned_by_manager and not addon_context.addon.metadata.deletion_timestamp and not self._works.of(addon_context.key)

    async def _follow(self, addon_context: AddonContext, draft: StatusDraft) -> None:
        """Another process deploys its agent: the hub's manager still sets its configurations and their progress."""
        planned = self._planned(addon_context.key, addon_context.owner())
        if planned is None or addon_context.addon.metadata.deletion_timestamp:
            return
        configure(draft, planned)
        wrong = unsupported(addon_context.addon, addon_context.agent_addon.config_kinds)
        set_progress(draft, wrong, self._deployment.works_of(addon_context), hosted=addon_context.is_hosted)
        await self._writer.report(addon_context, draft)

    async def _install(self, addon_context: AddonContext, draft: StatusDraft) -> None:
        rendering = self._rendered(addon_context, draft)
        agent = rendering.deployable
        manifests = sort_manifests(agent.manifests, hosted=addon_context.is_hosted) if agent is not None else Sorted()
        needed = needed_finalizers(manifests, hosting=addon_context.can_be_hosted)
        addon_context = await self._writer.hold(addon_context, needed)
        problems = [await self._bind(addon_context, draft, agent)] if agent is not None else []
        problems += await self._deployment.deploy(addon_context, draft, rendering, manifests)
        deployed = self._deployment.works_of(addon_context)
        nothing = agent is not None and not manifests.managed and not manifests.hosting
        if self._plans is not None:
            wrong = unsupported(addon_context.addon, addon_context.agent_addon.config_kinds)
            set_progress(draft, wrong, deployed, hosted=addon_context.is_hosted, nothing_to_deploy=nothing)
        if rendering.agent is not None and addon_context.cluster is not None:
            set_health(draft, rendering.agent.health, addon_context.key.name, addon_context.cluster, deployed)
        addon_context = await self._writer.report(addon_context, draft)
        if agent is not None and not any(problems):
            await self._writer.release(addon_context, needed)
        if any(problems):
            raise NotDone("; ".join(filter(None, problems)))

    # Steps

    async def _bind(self, addon_context: AddonContext, draft: StatusDraft, agent: Agent) -> str:
        drivers, again = self._driver_changes.settle(addon_context.key, drivers_in_use(draft.status))
        if again is not None:
            self._controller.enqueue_after(addon_context.key, again)
        wanted = wanted_bindings(addon_context.addon, agent, drivers, self._process)
        surplus = [one for one in self._bindings.of(addon_context.key) if _key(one) not in wanted]
        refused = await write_bindings(self._bindings, addon_context.key, wanted, surplus)
        register(draft, addon_context.addon, agent, refused)
        if refused:
            self._refused.add(addon_context.key)
        else:
            self._refused.discard(addon_context.key)
        return refused

    async def _clear(self, key: ObjectKey) -> None:
        """Delete what owner references do not delete with a ManagedClusterAddOn."""
        problem = await write_bindings(self._bindings, key, {}, self._bindings.of(key))
        if self._registry.find(key.name) is not None:
            left = [one for one in self._works.of(key) if WorkNamespace(key.name, key.namespace, one.metadata.namespace).has(one)]
            problem = problem or await write_works(self._works, key, (), left)
        if problem:
            raise NotDone(problem)


def _key(obj: TypedObject) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def _seen_of(cluster: ManagedCluster) -> tuple[object, ...]:
    """The fields of a cluster that its addons may use."""
    metadata = cluster.metadata
    return metadata.uid, metadata.labels, metadata.annotations, bool(metadata.deletion_timestamp), cluster.spec, cluster.status


def _offered(addon: ClusterManagementAddOn) -> tuple[object, ...]:
    return addon.spec.supported_configs, is_managed(addon)


def _seen_by_neighbours(addon: ManagedClusterAddOn | None) -> tuple[str, str] | None:
    """The fields of an addon that its neighbours may use: None if it does not exist or is being deleted."""
    if addon is None or addon.metadata.deletion_timestamp:
        return None
    return addon.metadata.uid, addon.status.namespace


def _config_keys(addon: ManagedClusterAddOn) -> list[str]:
    named = [(config.group, config.resource, config.namespace, config.name) for config in addon.spec.configs]
    for config_reference in addon.status.config_references:
        if (desired := config_reference.desired_config) is not None:
            named.append((config_reference.group, config_reference.resource, desired.namespace, desired.name))
    return [config_key(*key) for key in dict.fromkeys(named)]
