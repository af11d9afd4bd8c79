"""Reconciles Klusterlets.

Steps: add the finalizer → read the spec into a plan → connect to the managed cluster (this one, or the one of the kubeconfig
Secret) → install, or remove if it is being deleted → set conditions. A Klusterlet is reconciled when it, an object with its label,
or a Secret it depends on changes; a reconcile without changes writes nothing. A namespace belongs to one Klusterlet: of several
with the same one, the Klusterlet that has it keeps it, else the oldest gets it, and the others get a condition.

`Connections` checks separately whether agents can work on their hub: a hub that does not answer delays no reconcile.
"""

from __future__ import annotations

import random as chance
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import Condition
from muster.api.addons import NAMESPACE_LABEL
from muster.api.operator.v1 import Klusterlet
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object, ObjectKey
from muster.operator.applier import recorded_refs
from muster.operator.conditions import Waiting
from muster.operator.deployments import rollouts
from muster.operator.hosted import read_kubeconfig_secret
from muster.operator.klusterlet import status as said
from muster.operator.klusterlet.connection import Open, open_secret
from muster.operator.klusterlet.connections import Connections
from muster.operator.klusterlet.deletion import KlusterletDeletion
from muster.operator.klusterlet.installation import KINDS, OWNED, AgentSite, install, wanted_deployments
from muster.operator.klusterlet.manifests import MANAGED_SECRETS, SHARED
from muster.operator.klusterlet.plan import KlusterletPlan, agent_namespace_of, check, gate_review, is_hosted
from muster.operator.klusterlet.status import APPLY_FAILED
from muster.operator.names import (
    EXTERNAL_MANAGED_SECRET,
    KLUSTERLET_FIELDS,
    KLUSTERLET_FINALIZER,
    KLUSTERLET_HOSTED_FINALIZER,
    KLUSTERLET_LABEL,
    KLUSTERLETS,
    KUBECONFIG_KEY,
    PULL_SECRET,
)
from muster.operator.options import OperatorOptions
from muster.operator.reconciler import OperatorReconciler, Removing, Subject, seniority
from muster.operator.site import Installed
from muster.operator.spec import GateReview
from muster.operator.target_cluster import TargetCluster
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.cache import Informers, Snapshot
from muster.runtime.client import ClientConfig, KubeClient, KubeconfigError
from muster.runtime.client.builtin import DEPLOYMENTS, NAMESPACES
from muster.runtime.controller import add_finalizer

log = get_logger("muster.operator.klusterlet")

WHILE_TAKEN: Final = 30.0


@dataclass(frozen=True)
class KlusterletOptions(OperatorOptions):
    open: Open = open_secret
    """Opens a client for a hub."""


SUBJECT: Final = Subject(
    "klusterlet",
    KLUSTERLETS,
    Klusterlet,
    KLUSTERLET_FINALIZER,
    KLUSTERLET_LABEL,
    KLUSTERLET_FIELDS,
    KINDS,
    (BOOTSTRAP_SECRET, HUB_SECRET, EXTERNAL_MANAGED_SECRET, PULL_SECRET, *MANAGED_SECRETS),
    APPLY_FAILED,
    said.applied(),
    (KLUSTERLET_HOSTED_FINALIZER,),
)


class KlusterletOperator(OperatorReconciler[Klusterlet, KlusterletPlan, KlusterletOptions]):
    subject = SUBJECT

    def __init__(
        self,
        client: KubeClient,
        options: KlusterletOptions,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        super().__init__(client, options, metrics=metrics, clock=clock, random=random)
        self._namespaces = self._context.informers.of(NAMESPACES, label_selector=KLUSTERLET_LABEL)
        self._controller.depend(self._namespaces)
        self._nodes.on_change(lambda old, new: self._wake(SHARED) if old is None or new is None else None)
        connections = Connections(self._context.informers, options.open, metrics=self._context.metrics, clock=clock, random=random)
        self.manager.add_controllers({"klusterlet-hub-connection": connections})

    def _target_cluster(self, informers: Informers, secrets: Sequence[str] = (), config_maps: Sequence[str] = ()) -> TargetCluster:
        cluster = super()._target_cluster(informers, secrets, config_maps)
        cluster.follow_namespaces(f"{NAMESPACE_LABEL}=true", lambda: self._wake(SHARED))
        return cluster

    def _wake(self, name: str) -> None:
        for one in [other.metadata.name for other in self._objects.cache] if name == SHARED else [name]:
            self._controller.enqueue(one)

    def _concerned(self, klusterlet: Klusterlet) -> list[str]:
        """Itself, and others that wait for its namespace."""
        namespace = agent_namespace_of(klusterlet)
        others = [other.metadata.name for other in self._objects.cache if agent_namespace_of(other) == namespace]
        return list(dict.fromkeys((klusterlet.metadata.name, *others)))

    def _whose(self, found: Snapshot) -> str:
        if found.namespace == self._options.namespace:
            return SHARED
        owners = (one.metadata.name for one in self._objects.cache if agent_namespace_of(one) == found.namespace)
        return next(owners, "")

    def _plan(self, klusterlet: Klusterlet) -> KlusterletPlan:
        labels = klusterlet.metadata.labels if self._options.sync_labels else {}
        return KlusterletPlan(klusterlet, self._options.image, 1 if is_hosted(klusterlet) else self._replicas(), labels)

    async def _make(self, plan: KlusterletPlan, ready: list[Condition]) -> Installed | None:
        check(plan)
        self._refuse_taken(plan)
        site = await self._site(plan, ready)
        if plan.hosted and KLUSTERLET_HOSTED_FINALIZER not in plan.klusterlet.metadata.finalizers:
            await add_finalizer(self._client, plan.klusterlet, KLUSTERLET_HOSTED_FINALIZER)
            return None
        return await install(site)

    def _while_waiting(self, plan: KlusterletPlan) -> float | None:
        # This cluster is watched; the target clusters of other Klusterlets are not.
        return WHILE_TAKEN if plan.hosted else None

    def _refuse_taken(self, plan: KlusterletPlan) -> None:
        """Raises Waiting if another Klusterlet has the agents' namespace, or is older and requests the same."""
        namespace = plan.agent_namespace
        claims = {one.metadata.name: one for one in self._objects.cache if agent_namespace_of(one) == namespace}
        found = self._namespaces.cache.get(ObjectKey("", namespace))
        owner = found.labels.get(KLUSTERLET_LABEL, "") if found is not None else ""
        holder = claims.get(owner) or min(claims.values(), key=seniority, default=plan.klusterlet)
        if holder.metadata.name != plan.name:
            name = holder.metadata.name
            text = f"namespace {namespace} belongs to Klusterlet {name}; choose another spec.namespace, or delete one of them"
            raise Waiting(APPLY_FAILED, text)

    async def _site(self, plan: KlusterletPlan, ready: list[Condition]) -> AgentSite:
        """Adds to `ready` the condition whether the managed cluster is reachable. Raises Waiting."""
        recorded = recorded_refs(plan.klusterlet.status.related_resources, OWNED)
        if not plan.hosted:
            return AgentSite(plan, self._here, self._here, None, self._options.namespace, self._clock, recorded)
        try:
            kubeconfig, config = await self._kubeconfig(plan)
            managed = await self._remote_clusters.at(plan.name, kubeconfig, self._options.connect)
        except KubeconfigError as error:
            ready.append(said.ready_to_apply(str(error)))
            raise Waiting(APPLY_FAILED, str(error)) from error
        ready.append(said.ready_to_apply())
        return AgentSite(plan, self._here, managed, config, self._options.namespace, self._clock, recorded)

    async def _kubeconfig(self, plan: KlusterletPlan) -> tuple[bytes, ClientConfig]:
        """Raises KubeconfigError if there is no kubeconfig of the managed cluster."""
        found = await read_kubeconfig_secret(self._client, EXTERNAL_MANAGED_SECRET, plan.agent_namespace)
        if found is None:
            where = f"Secret {plan.agent_namespace}/{EXTERNAL_MANAGED_SECRET}"
            problem = "missing; it must lead to the managed cluster, with an administrator's rights"
            raise KubeconfigError(where, "", KUBECONFIG_KEY, problem)
        return found

    def _deployments(self, plan: KlusterletPlan) -> list[Object]:
        return [one.data for one in self._here.all(DEPLOYMENTS) if one.labels.get(KLUSTERLET_LABEL) == plan.name]

    def _gate_review(self, plan: KlusterletPlan) -> GateReview:
        return gate_review(plan.klusterlet)

    def _rollout_conditions(self, plan: KlusterletPlan, deployments: Sequence[Object]) -> list[Condition]:
        return said.running(plan, rollouts(wanted_deployments(plan), deployments))

    def _removing(self, plan: KlusterletPlan) -> Removing[Klusterlet]:
        async def managed() -> TargetCluster:
            kubeconfig, _ = await self._kubeconfig(plan)
            return await self._remote_clusters.at(plan.name, kubeconfig, self._options.connect)

        return KlusterletDeletion(plan, self._here, managed, self._last(plan), self._clock, self._options.removal_timeout)

    def _last(self, plan: KlusterletPlan) -> bool:
        """Whether no other Klusterlet remains on the managed cluster, as far as is known."""
        if plan.hosted:
            return True
        others = (one for one in self._objects.cache if one.metadata.name != plan.name and not is_hosted(one))
        return not any(not one.metadata.deletion_timestamp for one in others)
