"""The ClusterManager operator: watches ClusterManagers and all that was made for them, and makes the one agree with the other.

A pass over a ClusterManager is: hold it by the finalizer → read its spec into a plan → find the hub (this cluster, or the one that
its Secret leads to) → install, or remove if it is being deleted → say how it went. Every change of a ClusterManager, of an object
with its label, and of the Secrets it depends on begins a pass; a pass at rest writes nothing. One hub has one ClusterManager: of
several that are not hosted, the oldest has it and the others say so.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from muster.api import Condition
from muster.api.operator.v1 import ClusterManager
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.machinery.objects import ObjectKey
from muster.operator.applying import generations, related
from muster.operator.cluster_manager import status as said
from muster.operator.cluster_manager.components import HUB_ACCOUNT_SECRETS, WEBHOOK_SECRETS
from muster.operator.cluster_manager.installation import KINDS, Installed, Site, install, rollouts, settle
from muster.operator.cluster_manager.plan import Plan, invalid_gates, is_hosted
from muster.operator.cluster_manager.removal import PATIENCE, Removal
from muster.operator.cluster_manager.status import HUB_FAILED
from muster.operator.elsewhere import connect_by_kubeconfig, read_way
from muster.operator.ground import Ground
from muster.operator.launch import Launch
from muster.operator.names import (
    CLUSTER_MANAGER_FIELDS,
    CLUSTER_MANAGER_FINALIZER,
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGERS,
    EXTERNAL_HUB_SECRET,
    KUBECONFIG_KEY,
    OPERATOR_NAMESPACE,
    PULL_SECRET,
    image,
)
from muster.operator.operating import Operating, Subject, seniority
from muster.operator.reporting import StepFailed, Waiting, deleting, gates, not_applied, with_status
from muster.operator.spec import BadSpec
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import DEPLOYMENTS, NAMESPACES
from muster.runtime.client.errors import KubeError, Unreachable
from muster.runtime.client.kubeconfig import ClientConfig, KubeconfigError
from muster.runtime.client.patches import patch_object
from muster.runtime.controller.controller import Stop
from muster.runtime.controller.finalizers import remove_finalizer

log = get_logger("muster.operator.cluster_manager")

WHILE_LEAVING: Final = 2.0
"""Seconds between two looks at a hub that is being removed; what is watched is looked at earlier."""


@dataclass(frozen=True)
class OperatorOptions:
    image: str = field(default_factory=image)
    namespace: str = OPERATOR_NAMESPACE
    """Where the pull secret is."""
    sync_labels: bool = False
    """Whether labels of the ClusterManager go to all that its controllers make."""
    patience: timedelta = PATIENCE
    """How long a hub that is removed waits for agents to clean up."""
    connect: Callable[[bytes], KubeClient] = connect_by_kubeconfig


SUBJECT: Final = Subject(
    "cluster-manager",
    CLUSTER_MANAGERS,
    ClusterManager,
    CLUSTER_MANAGER_FINALIZER,
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGER_FIELDS,
    KINDS,
    (EXTERNAL_HUB_SECRET, *WEBHOOK_SECRETS, PULL_SECRET, *HUB_ACCOUNT_SECRETS),
)


class ClusterManagerOperator(Operating[ClusterManager, Plan]):
    def __init__(
        self,
        client: KubeClient,
        options: OperatorOptions,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        super().__init__(client, SUBJECT, metrics=metrics, clock=clock, random=random)
        self._options = options

    def _concerned(self, manager: ClusterManager) -> list[str]:
        """Itself, and others that wait for the hub it has."""
        others = [] if is_hosted(manager) else [other.metadata.name for other in self._objects.cache if not is_hosted(other)]
        return list(dict.fromkeys((manager.metadata.name, *others)))

    def _whose(self, secret: Snapshot) -> str:
        """Secrets of a hosted hub are in the namespace of its ClusterManager's name."""
        if secret.namespace not in (HUB_NAMESPACE, self._options.namespace):
            return secret.namespace
        return next((manager.metadata.name for manager in self._objects.cache if not is_hosted(manager)), "")

    def _plan(self, manager: ClusterManager) -> Plan:
        labels = manager.metadata.labels if self._options.sync_labels else {}
        return Plan(manager, self._options.image, 1 if is_hosted(manager) else self._replicas(), labels, self._begun(manager))

    def _begun(self, manager: ClusterManager) -> bool | None:
        """By the namespaces that are labelled with its name: whether this is known to be a hosted hub."""
        name = manager.metadata.name
        for namespace, hosted in ((HUB_NAMESPACE, False), (name, True)):
            found = self._here.find(NAMESPACES, ObjectKey("", namespace))
            if found is not None and found["metadata"]["labels"].get(CLUSTER_MANAGER_LABEL) == name:
                return hosted
        return None

    async def _install(self, plan: Plan) -> float | None:
        try:
            site = await self._site(plan)
            made = await install(site)
        except BadSpec as error:
            await self._say_failed(plan, StepFailed(HUB_FAILED, str(error)))
            raise Stop(str(error)) from error
        except Waiting as failure:
            await self._say_failed(plan, failure)
            return None
        except StepFailed as failure:
            await self._say_failed(plan, failure)
            raise
        await self._say_installed(plan, made)
        return self._nap(made.again)

    async def _site(self, plan: Plan) -> Site:
        """Raises Waiting when there is no hub to work on, BadSpec, and StepFailed."""
        plan.check_mode()
        if not plan.hosted:
            if rival := self._rival(plan.manager):
                text = f"ClusterManager {rival} has made this cluster a hub already; delete one of them, or host one elsewhere"
                raise Waiting(HUB_FAILED, text)
            return Site(plan, self._here, self._here, None, self._options.namespace, self._clock)
        await settle(plan, self._here)
        found = await self._way(plan)
        if found is None:
            where = f"Secret {plan.namespace}/{EXTERNAL_HUB_SECRET}, key {KUBECONFIG_KEY}"
            raise Waiting(HUB_FAILED, f"{where}: missing; it must lead to the hub, with an administrator's rights")
        way, config = found
        hub = await self._grounds.at(plan.name, way, self._options.connect)
        return Site(plan, self._here, hub, config, self._options.namespace, self._clock)

    def _rival(self, manager: ClusterManager) -> str:
        mine = seniority(manager)
        older = [other for other in self._objects.cache if not is_hosted(other) and seniority(other) < mine]
        return min(older, key=seniority).metadata.name if older else ""

    async def _way(self, plan: Plan) -> tuple[bytes, ClientConfig] | None:
        """The way to a hosted hub; None when there is none. Raises Waiting for one that cannot be understood."""
        try:
            return await read_way(self._client, EXTERNAL_HUB_SECRET, plan.namespace)
        except KubeconfigError as error:
            raise Waiting(HUB_FAILED, str(error)) from error

    async def _say_installed(self, plan: Plan, made: Installed) -> None:
        found = rollouts(plan, [obj for _, obj in made.deployments])
        conditions = [said.applied(), gates(invalid_gates(plan.manager)), *said.rolling(plan, found)]
        now = format_time(self._clock.now())
        after = with_status(plan.manager, conditions, now, generations=generations(made.deployments), related=related(made.places))
        await patch_object(self._client, plan.manager, after, status=True)

    async def _say_failed(self, plan: Plan, failure: StepFailed) -> None:
        deployments = [one.data for one in self._here.all(DEPLOYMENTS) if one.namespace == plan.namespace]
        conditions = [
            not_applied(failure),
            gates(invalid_gates(plan.manager)),
            *said.rolling(plan, rollouts(plan, deployments)),
        ]
        after = with_status(plan.manager, conditions, format_time(self._clock.now()))
        await patch_object(self._client, plan.manager, after, status=True)

    async def _remove(self, plan: Plan) -> float | None:
        manager = plan.manager
        if CLUSTER_MANAGER_FINALIZER not in manager.metadata.finalizers:
            return None
        try:
            left = await self._removal(plan)
        except KubeError as error:
            await self._say(manager, deleting([str(error)]))
            raise
        if left:
            await self._say(manager, deleting(left))
            return WHILE_LEAVING
        await self._grounds.leave(plan.name)
        await remove_finalizer(self._client, manager, CLUSTER_MANAGER_FINALIZER)
        log.info("hub removed", cluster_manager=plan.name)
        return None

    async def _say(self, manager: ClusterManager, condition: Condition) -> None:
        after = with_status(manager, [condition], format_time(self._clock.now()))
        await patch_object(self._client, manager, after, status=True)

    async def _removal(self, plan: Plan) -> list[str]:
        hub: Ground | None = self._here
        if plan.hosted:
            hub = await self._hub_of_leaving(plan)
        removal = Removal(plan, self._here, hub, self._clock, self._options.patience)
        try:
            return await removal.run()
        except Unreachable as error:
            if not plan.hosted or not removal.overdue:
                return [f"hub: {error}"]
            log.warning("the hub is away: its part is left there", cluster_manager=plan.name, error=str(error))
            return await replace(removal, hub=None).run()

    async def _hub_of_leaving(self, plan: Plan) -> Ground | None:
        try:
            found = await self._way(plan)
            return await self._grounds.at(plan.name, found[0], self._options.connect) if found else None
        except StepFailed:
            return None


def launch(client: KubeClient, launch: Launch, metrics: Metrics) -> ClusterManagerOperator:
    options = OperatorOptions(launch.image, launch.namespace, launch.sync_labels)
    return ClusterManagerOperator(client, options, metrics=metrics)
