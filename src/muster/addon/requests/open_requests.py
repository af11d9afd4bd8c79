"""Pending signing requests of addons: caches, indexes and the common part of the controllers.

A request waits for its cluster, its addon and the addon's registrations; when one of these changes, its requests are reconciled.
`RequestController` is the common base; subclasses answer the requests.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Final

from muster.addon.agent_addon import Registration
from muster.addon.requests.registrations import RegistrationsOf
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL
from muster.api.agents import CLUSTER_LABEL
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import Object, ObjectKey
from muster.registration.drivers.certificates.request_answers import RequestAnswers
from muster.runtime.cache import MutationCache, Snapshot, label_index
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.controller import Controller, ControllerContext

RECHECK: Final = 60.0
"""Seconds after which a request that cannot be answered yet is checked again, without requests to a server."""
_BY_CLUSTER: Final = "cluster"
_BY_ADDON: Final = "addon"


class OpenRequests:
    """For one controller, whose keys are names of requests. `is_open` selects those that it may have to answer."""

    def __init__(self, context: ControllerContext, name: str, is_open: Callable[[Object], bool]) -> None:
        self._informer = context.informers.of(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL},{ADDON_LABEL}")
        self._is_open = is_open
        self._by_cluster, self._by_addon = f"{name}-{_BY_CLUSTER}", f"{name}-{_BY_ADDON}"
        self._informer.cache.add_index(self._by_cluster, label_index(CLUSTER_LABEL))
        self._informer.cache.add_index(self._by_addon, label_index(ADDON_LABEL))
        self._latest = MutationCache(self._informer, clock=context.clock)
        self.clusters = context.informers.of(ManagedCluster)
        self.addons = context.informers.of(ManagedClusterAddOn)
        self._offered = context.informers.of(ClusterManagementAddOn)
        self.answers = RequestAnswers(context.client, self._latest)
        self._problems: dict[str, str] = {}

    def find(self, name: str) -> Snapshot | None:
        """A request to be answered; None if it is gone or answered."""
        csr = self._latest.snapshot(ObjectKey("", name))
        if csr is not None and self._is_open(csr.data):
            return csr
        self._problems.pop(name, None)
        return None

    def is_news(self, name: str, problem: str) -> bool:
        """Whether the problem of a request is new and must be logged."""
        known = self._problems.get(name) == problem
        self._problems[name] = problem
        return not known

    def wake(self, controller: Controller[str]) -> None:
        """Enqueue requests whenever their inputs change."""
        controller.watch(self._informer, lambda csr: [csr.name])
        controller.watch(self.clusters, lambda cluster: self._open(self._by_cluster, cluster.metadata.name))
        controller.watch(self._offered, lambda offered: self._open(self._by_addon, offered.metadata.name))
        controller.watch(self.addons, self._of_addon)

    def _of_addon(self, addon: ManagedClusterAddOn) -> Iterable[str]:
        found = self._informer.cache.by_index(self._by_cluster, addon.metadata.namespace)
        return [csr.name for csr in found if csr.labels.get(ADDON_LABEL) == addon.metadata.name and self._is_open(csr.data)]

    def _open(self, index: str, value: str) -> Iterable[str]:
        return [csr.name for csr in self._informer.cache.by_index(index, value) if self._is_open(csr.data)]


class RequestController(abc.ABC):
    """One controller; its keys are names of signing requests."""

    def __init__(
        self, context: ControllerContext, registrations: RegistrationsOf, name: str, is_open: Callable[[Object], bool]
    ) -> None:
        self._context = context
        self._registrations = registrations
        self._requests = OpenRequests(context, name, is_open)
        self._controller = context.controller(name, self.reconcile)
        self._requests.wake(self._controller)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> float | None:
        csr = self._requests.find(name)
        return None if csr is None else await self.answer(csr)

    @abc.abstractmethod
    async def answer(self, csr: Snapshot) -> float | None:
        """Returns the seconds until the next check, if it cannot be answered yet."""

    def registrations_of(self, csr: Snapshot) -> tuple[Registration, ...] | None:
        """The registrations of the addon in its labels; None if that is not this process's. Raises AddonError."""
        return self._registrations(csr.labels[CLUSTER_LABEL], csr.labels[ADDON_LABEL])
