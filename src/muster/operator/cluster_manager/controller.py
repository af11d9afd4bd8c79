"""Reconciles ClusterManagers.

Steps: add the finalizer → read the spec into a plan → connect to the hub (this cluster, or the one of the kubeconfig Secret) →
install, or remove if it is being deleted → set conditions. A ClusterManager is reconciled when it, an object with its label, or a
Secret or ConfigMap it depends on changes; a reconcile without changes writes nothing. A cluster has one hub: of several
ClusterManagers that are not hosted, the oldest is installed, and the others get a condition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.api import Condition
from muster.api.operator.v1 import ClusterManager
from muster.gateway.apiservice import SERVING_SECRET as GATEWAY_SECRET
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.operator.applier import recorded_refs
from muster.operator.cluster_manager import status as said
from muster.operator.cluster_manager.components import GRPC_CONFIG, HUB_ACCOUNT_SECRETS, WEBHOOK_SECRETS
from muster.operator.cluster_manager.exposure import service_name
from muster.operator.cluster_manager.gateway import HubSite, wanted_deployments
from muster.operator.cluster_manager.grpc_certificates import GRPC_SECRETS
from muster.operator.cluster_manager.grpc_config import config_problem
from muster.operator.cluster_manager.installation import KINDS, PRUNED, install, settle
from muster.operator.cluster_manager.plan import ClusterManagerPlan, gate_review, is_hosted
from muster.operator.cluster_manager.removal import Removal
from muster.operator.cluster_manager.status import HUB_FAILED
from muster.operator.conditions import StepFailed, Waiting
from muster.operator.deployments import rollouts
from muster.operator.hosted import read_kubeconfig_secret
from muster.operator.names import (
    CLUSTER_MANAGER_FIELDS,
    CLUSTER_MANAGER_FINALIZER,
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGERS,
    EXTERNAL_HUB_SECRET,
    KUBECONFIG_KEY,
    PULL_SECRET,
)
from muster.operator.options import OperatorOptions
from muster.operator.reconciler import REMOVAL_INTERVAL, OperatorReconciler, Removing, Subject, seniority
from muster.operator.site import Installed
from muster.operator.spec import GateReview
from muster.operator.target_cluster import TargetCluster
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.cache import Snapshot
from muster.runtime.client import ClientConfig, KubeconfigError, Unreachable
from muster.runtime.client.builtin import DEPLOYMENTS, NAMESPACES, SERVICES

log = get_logger("muster.operator.cluster_manager")

SUBJECT: Final = Subject(
    "cluster-manager",
    CLUSTER_MANAGERS,
    ClusterManager,
    CLUSTER_MANAGER_FINALIZER,
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGER_FIELDS,
    KINDS,
    (EXTERNAL_HUB_SECRET, *WEBHOOK_SECRETS, *GRPC_SECRETS, GATEWAY_SECRET, PULL_SECRET, *HUB_ACCOUNT_SECRETS),
    HUB_FAILED,
    said.applied(),
    config_maps=(GRPC_CONFIG,),
)


@dataclass(frozen=True)
class _Removing:
    obj: ClusterManager
    step: Callable[[], Awaitable[tuple[list[str], float]]]


class ClusterManagerOperator(OperatorReconciler[ClusterManager, ClusterManagerPlan, OperatorOptions]):
    subject = SUBJECT

    def _concerned(self, manager: ClusterManager) -> list[str]:
        """Itself, and others that wait until the hub is free."""
        others = [] if is_hosted(manager) else [other.metadata.name for other in self._objects.cache if not is_hosted(other)]
        return list(dict.fromkeys((manager.metadata.name, *others)))

    def _whose(self, found: Snapshot) -> str:
        """Objects of a hosted hub are in the namespace with its ClusterManager's name."""
        if found.namespace not in (HUB_NAMESPACE, self._options.namespace):
            return found.namespace
        return next((manager.metadata.name for manager in self._objects.cache if not is_hosted(manager)), "")

    def _plan(self, manager: ClusterManager) -> ClusterManagerPlan:
        labels = manager.metadata.labels if self._options.sync_labels else {}
        return ClusterManagerPlan(
            manager, self._options.image, 1 if is_hosted(manager) else self._replicas(), labels, self._begun(manager)
        )

    def _begun(self, manager: ClusterManager) -> bool | None:
        """Whether it was installed as a hosted hub, by the namespaces with its label; None if there are none."""
        name = manager.metadata.name
        for namespace, hosted in ((HUB_NAMESPACE, False), (name, True)):
            found = self._here.find(NAMESPACES, ObjectKey("", namespace))
            if found is not None and found["metadata"]["labels"].get(CLUSTER_MANAGER_LABEL) == name:
                return hosted
        return None

    async def _make(self, plan: ClusterManagerPlan, ready: list[Condition]) -> Installed:
        return await install(await self._site(plan))

    async def _site(self, plan: ClusterManagerPlan) -> HubSite:
        """Raises Waiting if the hub is not available, BadSpec, and StepFailed."""
        plan.check_mode()
        recorded = recorded_refs(plan.manager.status.related_resources, PRUNED)
        if not plan.hosted:
            if rival := self._rival(plan.manager):
                text = f"ClusterManager {rival} has installed a hub here already: delete one, or host one on another cluster"
                raise Waiting(HUB_FAILED, text)
            return HubSite(plan, self._here, self._here, None, self._options.namespace, self._clock, recorded)
        await settle(plan, self._here)
        found = await self._kubeconfig(plan)
        if found is None:
            where = f"Secret {plan.namespace}/{EXTERNAL_HUB_SECRET}, key {KUBECONFIG_KEY}"
            raise Waiting(HUB_FAILED, f"{where}: missing; it must lead to the hub, with an administrator's rights")
        kubeconfig, config = found
        hub = await self._remote_clusters.at(plan.name, kubeconfig, self._options.connect)
        return HubSite(plan, self._here, hub, config, self._options.namespace, self._clock, recorded)

    def _rival(self, manager: ClusterManager) -> str:
        mine = seniority(manager)
        older = [other for other in self._objects.cache if not is_hosted(other) and seniority(other) < mine]
        return min(older, key=seniority).metadata.name if older else ""

    async def _kubeconfig(self, plan: ClusterManagerPlan) -> tuple[bytes, ClientConfig] | None:
        """The kubeconfig of a hosted hub; None if there is none. Raises Waiting for an invalid one."""
        try:
            return await read_kubeconfig_secret(self._client, EXTERNAL_HUB_SECRET, plan.namespace)
        except KubeconfigError as error:
            raise Waiting(HUB_FAILED, str(error)) from error

    def _deployments(self, plan: ClusterManagerPlan) -> list[Object]:
        return [one.data for one in self._here.all(DEPLOYMENTS) if one.namespace == plan.namespace]

    def _gate_review(self, plan: ClusterManagerPlan) -> GateReview:
        return gate_review(plan.manager)

    def _rollout_conditions(self, plan: ClusterManagerPlan, deployments: Sequence[Object]) -> list[Condition]:
        service = self._here.find(SERVICES, ObjectKey(plan.namespace, service_name(plan)))
        problem = config_problem(self._here.config_map(GRPC_CONFIG, plan.namespace))
        return said.rolling(plan, rollouts(wanted_deployments(plan), deployments), service, problem)

    def _removing(self, plan: ClusterManagerPlan) -> Removing[ClusterManager]:
        async def step() -> tuple[list[str], float]:
            return await self._take_away(plan), REMOVAL_INTERVAL

        return _Removing(plan.manager, step)

    async def _take_away(self, plan: ClusterManagerPlan) -> list[str]:
        hub: TargetCluster | None = self._here
        if plan.hosted:
            hub = await self._hub_of_leaving(plan)
        removal = Removal(plan, self._here, hub, self._clock, self._options.removal_timeout)
        try:
            return await removal.run()
        except Unreachable as error:
            if not plan.hosted or not removal.overdue:
                return [f"hub: {error}"]
            log.warning("the hub is away: its part is left there", cluster_manager=plan.name, error=str(error))
            return await replace(removal, hub=None).run()

    async def _hub_of_leaving(self, plan: ClusterManagerPlan) -> TargetCluster | None:
        try:
            found = await self._kubeconfig(plan)
            return await self._remote_clusters.at(plan.name, found[0], self._options.connect) if found else None
        except StepFailed:
            return None
