"""The common reconciler of both operators: watches, and the reconcile of one object.

A reconcile is: add the finalizer → read the spec into a plan → install, or remove if the object is being deleted → set the
conditions. It is triggered by every change of the object, of anything with its label, and of the Secrets and ConfigMaps that it
depends on; a reconcile without changes writes nothing. Subclasses implement the plan, the steps of installation and removal, and
the conditions.
"""

from __future__ import annotations

import abc
import random as chance
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from muster.api import Condition
from muster.api import TypedObject as ApiObject
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.applier import generations, related
from muster.operator.conditions import StepFailed, Waiting, deleting, gates, not_applied, with_status
from muster.operator.deployments import CONTROL_PLANE_LABEL, replicas_for
from muster.operator.options import OperatorOptions
from muster.operator.site import Installed
from muster.operator.spec import BadSpec, GateReview
from muster.operator.target_cluster import RemoteClusters, TargetCluster
from muster.runtime.cache import Informers, Snapshot
from muster.runtime.client import KubeClient, KubeError, patch_object
from muster.runtime.client.builtin import NODES
from muster.runtime.controller import ControllerContext, Manager, Stop, add_finalizer, remove_finalizer

log = get_logger("muster.operator")

MAX_REQUEUE_DELAY: Final = 86_400.0
REMOVAL_INTERVAL: Final = 2.0
"""Seconds between two checks of a removal; watched changes trigger it earlier."""
WORKERS: Final = 4

R = TypeVar("R", bound=ApiObject)
R_co = TypeVar("R_co", bound=ApiObject, covariant=True)
P = TypeVar("P", bound="Planned")
O = TypeVar("O", bound=OperatorOptions)  # noqa: E741


class Planned(Protocol):
    @property
    def name(self) -> str:
        """The object's name."""


@dataclass(frozen=True)
class Subject(Generic[R]):
    """The kind that an operator reconciles, and what belongs to it."""

    name: str
    resource: GVR
    type: type[R]
    finalizer: str
    label: str
    """The label with the name of the owner."""
    manager: str
    """The field manager."""
    kinds: Sequence[GVR]
    secrets: Sequence[str]
    failed: str
    """The reason of condition Applied for an invalid spec."""
    applied: Condition
    config_maps: Sequence[str] = ()
    """The names of ConfigMaps that users create."""
    further_finalizers: Sequence[str] = ()


class Removing(Protocol[R_co]):
    """A removal under way."""

    @property
    def obj(self) -> R_co:
        """The object after the last write."""

    def step(self) -> Awaitable[tuple[list[str], float]]:
        """Take the steps that are possible now; returns what is left, and when to reconcile again. Raises KubeError."""


class OperatorReconciler(abc.ABC, Generic[R, P, O]):
    """R is the kind, P its plan, O the operator's options."""

    subject: ClassVar[Subject[R]]

    def __init__(
        self,
        client: KubeClient,
        options: O,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        subject = self.subject
        context = ControllerContext.of(client, subject.manager, workers=WORKERS, metrics=metrics, clock=clock, random=random)
        self._client = client
        self._options = options
        self._context = context
        self._clock = clock
        self._controller = context.controller(subject.name, self.reconcile)
        self._here = self._target_cluster(context.informers, subject.secrets, subject.config_maps)
        self._remote_clusters = RemoteClusters(lambda name, far: self._target_cluster(Informers(far, clock=clock, random=random)))
        self._objects = context.informers.of(subject.resource, decode=subject.type.decode)
        self._nodes = context.informers.of(NODES, label_selector=CONTROL_PLANE_LABEL)
        self._controller.watch(self._objects, self._concerned)
        self._controller.depend(self._nodes)
        for informer in self._here.config_maps:
            # Without a synced cache, objects would appear to be missing, and be rolled out so.
            self._controller.depend(informer)
        self.manager = Manager()
        self.manager.add_context(context)
        self.manager.add("the caches of hosted clusters", self._remote_clusters)
        self.manager.add_controllers({subject.name: self._controller})

    def _target_cluster(self, informers: Informers, secrets: Sequence[str] = (), config_maps: Sequence[str] = ()) -> TargetCluster:
        subject = self.subject
        return TargetCluster(
            informers,
            subject.label,
            subject.manager,
            subject.kinds,
            self._wake,
            secrets=secrets,
            config_maps=config_maps,
            owner=self._whose,
        )

    def _wake(self, name: str) -> None:
        self._controller.enqueue(name)

    async def reconcile(self, name: str) -> float | None:
        found = self._objects.cache.get(ObjectKey("", name))
        if found is None:
            await self._remote_clusters.leave(name)
            return None
        plan = self._plan(found)
        if found.metadata.deletion_timestamp:
            return await self._remove(found, plan)
        if self.subject.finalizer not in found.metadata.finalizers:
            await add_finalizer(self._client, found, self.subject.finalizer)
            return None
        return await self._install(found, plan)

    # Installation

    async def _install(self, obj: R, plan: P) -> float | None:
        ready: list[Condition] = []
        try:
            made = await self._make(plan, ready)
        except BadSpec as error:
            await self._report_failed(obj, plan, StepFailed(self.subject.failed, str(error)), ready)
            raise Stop(str(error)) from error
        except Waiting as failure:
            await self._report_failed(obj, plan, failure, ready)
            return self._while_waiting(plan)
        except StepFailed as failure:
            await self._report_failed(obj, plan, failure, ready)
            raise
        if made is None:
            return None
        conditions = [*ready, self.subject.applied, *made.remarks, *self._running(plan, [one for _, one in made.deployments])]
        await self._set_conditions(obj, conditions, made)
        return self._requeue_delay(made.again)

    def _requeue_delay(self, until: datetime | None) -> float | None:
        if until is None:
            return None
        return min(max((until - self._clock.now()).total_seconds(), 1.0), MAX_REQUEUE_DELAY)

    async def _report_failed(self, obj: R, plan: P, failure: StepFailed, ready: Sequence[Condition]) -> None:
        await self._set_conditions(obj, [*ready, not_applied(failure), *self._running(plan, self._deployments(plan))])

    def _running(self, plan: P, deployments: Sequence[Object]) -> list[Condition]:
        return [gates(self._gate_review(plan)), *self._rollout_conditions(plan, deployments)]

    async def _set_conditions(self, obj: R, conditions: Sequence[Condition], made: Installed | None = None) -> None:
        """With the installed objects, if they are known."""
        reported = (None, None) if made is None else (generations(made.deployments), related(made.object_refs))
        after = with_status(obj, conditions, format_time(self._clock.now()), generations=reported[0], related=reported[1])
        await patch_object(self._client, obj, after, status=True)

    def _replicas(self) -> int:
        return replicas_for(len(list(self._nodes.cache)))

    # Removal

    async def _remove(self, obj: R, plan: P) -> float | None:
        if not {self.subject.finalizer, *self.subject.further_finalizers} & set(obj.metadata.finalizers):
            return None
        removing = self._removing(plan)
        try:
            left, again = await removing.step()
        except KubeError as error:
            await self._set_conditions(removing.obj, [deleting([str(error)])])
            raise
        if left:
            await self._set_conditions(removing.obj, [deleting(left)])
            return again
        await self._remote_clusters.leave(plan.name)
        await remove_finalizer(self._client, removing.obj, self.subject.finalizer)
        log.info("removed", kind=self.subject.resource.kind, name=plan.name)
        return None

    # For subclasses

    @abc.abstractmethod
    def _concerned(self, changed: R) -> list[str]:
        """The names of the objects whose state may depend on the changed one, which is included."""

    @abc.abstractmethod
    def _whose(self, found: Snapshot) -> str:
        """The name of the owner of a Secret or ConfigMap; empty if it has none."""

    @abc.abstractmethod
    def _plan(self, found: R) -> P: ...

    @abc.abstractmethod
    async def _make(self, plan: P, ready: list[Condition]) -> Installed | None:
        """Install; None if an own write triggers the next reconcile. Adds to `ready` the condition about the connection to a hosted
        cluster. Raises BadSpec, Waiting and StepFailed."""

    def _while_waiting(self, plan: P) -> float | None:
        """When to check again for something that is not watched."""
        return None

    @abc.abstractmethod
    def _deployments(self, plan: P) -> list[Object]:
        """The existing Deployments of the object."""

    @abc.abstractmethod
    def _gate_review(self, plan: P) -> GateReview:
        """The gates of the spec, by component."""

    @abc.abstractmethod
    def _rollout_conditions(self, plan: P, deployments: Sequence[Object]) -> list[Condition]: ...

    @abc.abstractmethod
    def _removing(self, plan: P) -> Removing[R]: ...


def seniority(one: ApiObject) -> tuple[str, str]:
    """Orders objects by age."""
    return one.metadata.creation_timestamp, one.metadata.name
