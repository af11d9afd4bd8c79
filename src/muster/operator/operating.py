"""What the two operators have in common: whom they watch, and the outline of a pass over one of their objects.

A pass is: hold the object by the finalizer → read its spec into a plan → install, or remove if it is being deleted. Every change of
the object, of anything with its label, and of the Secrets that it depends on begins a pass; a pass at rest writes nothing.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

from muster.api import Resource as ApiObject
from muster.machinery.clock import Clock, Random
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, ObjectKey
from muster.operator.deployments import CONTROL_PLANE_LABEL, replicas_for
from muster.operator.ground import Ground, Grounds
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NODES
from muster.runtime.controller.controller import Controller
from muster.runtime.controller.finalizers import add_finalizer

LONGEST_NAP: Final = 86_400.0

R = TypeVar("R", bound=ApiObject)
P = TypeVar("P")


@dataclass(frozen=True)
class Subject(Generic[R]):
    """The kind that an operator looks after, and what belongs to it."""

    name: str
    resource: GVR
    type: type[R]
    finalizer: str
    label: str
    """Bears the name of the object that something was made for."""
    manager: str
    """Of the fields that are written."""
    kinds: Sequence[GVR]
    secrets: Sequence[str]


class Runs(Protocol):
    async def run(self) -> None: ...


class Operating(abc.ABC, Generic[R, P]):
    """R is the kind, P its plan."""

    def __init__(self, client: KubeClient, subject: Subject[R], *, metrics: Metrics | None, clock: Clock, random: Random) -> None:
        self._client = client
        self._subject = subject
        self._clock = clock
        self._random = random
        self._controller: Controller[str] = Controller(
            subject.name, self.reconcile, workers=4, metrics=metrics, clock=clock, random=random
        )
        self._here = self._ground(client, subject.secrets)
        self._grounds = Grounds(lambda name, far: self._ground(far))
        self._objects = self._here.informers.of(subject.resource, decode=subject.type.decode)
        self._nodes = self._here.informers.of(NODES, label_selector=CONTROL_PLANE_LABEL)
        self._controller.watch(self._objects, self._concerned)
        self._controller.depend(self._nodes)

    def _ground(self, client: KubeClient, secrets: Sequence[str] = ()) -> Ground:
        return Ground(
            client,
            self._subject.label,
            self._subject.manager,
            self._subject.kinds,
            self._wake,
            secrets=secrets,
            secret_owner=self._whose,
            clock=self._clock,
            random=self._random,
        )

    @property
    def ready(self) -> bool:
        return self._here.synced

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts():
                tasks.create_task(part.run())

    def _parts(self) -> Iterable[Runs]:
        return self._here, self._grounds, self._controller

    def _wake(self, name: str) -> None:
        self._controller.enqueue(name)

    async def reconcile(self, name: str) -> float | None:
        found = self._objects.cache.get(ObjectKey("", name))
        if found is None:
            await self._grounds.leave(name)
            return None
        plan = self._plan(found)
        if found.metadata.deletion_timestamp:
            return await self._remove(plan)
        if self._subject.finalizer not in found.metadata.finalizers:
            await add_finalizer(self._client, found, self._subject.finalizer)
            return None
        return await self._install(plan)

    def _replicas(self) -> int:
        return replicas_for(len(list(self._nodes.cache)))

    def _nap(self, until: datetime | None) -> float | None:
        if until is None:
            return None
        return min(max((until - self._clock.now()).total_seconds(), 1.0), LONGEST_NAP)

    @abc.abstractmethod
    def _concerned(self, changed: R) -> list[str]:
        """The names of those whose state may depend on it, its own among them."""

    @abc.abstractmethod
    def _whose(self, secret: Snapshot) -> str:
        """The name of the object that a Secret is of; empty: of none."""

    @abc.abstractmethod
    def _plan(self, found: R) -> P: ...

    @abc.abstractmethod
    async def _install(self, plan: P) -> float | None: ...

    @abc.abstractmethod
    async def _remove(self, plan: P) -> float | None: ...


def seniority(one: ApiObject) -> tuple[str, str]:
    """Orders objects by age."""
    return one.metadata.creation_timestamp, one.metadata.name
