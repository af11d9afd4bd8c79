"""Keeps the condition HubConnectionDegraded of every Klusterlet up to date, with few requests to the hubs.

A hub is probed when the Klusterlet or one of its kubeconfigs has changed, at intervals while something is wrong, and rarely
otherwise. Writes of others to the Klusterlet's status trigger a check that costs no requests.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api import Condition
from muster.api.operator.v1 import Klusterlet
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.machinery.objects import ObjectKey
from muster.operator.klusterlet.connection import HUB_REASONS, ConnectionCheck, Contents, Open, contents_of
from muster.operator.klusterlet.plan import KlusterletPlan, agent_namespace_of
from muster.operator.names import KLUSTERLET_FINALIZER, KLUSTERLETS
from muster.operator.spec import BadSpec
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.cache import Informers, Snapshot
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import SECRETS
from muster.runtime.controller import Controller, set_condition

log = get_logger("muster.operator.klusterlet")

WHILE_DEGRADED: Final = 30.0
WHILE_WELL: Final = 600.0
WHILE_NEW: Final = 1.0
_SOON: Final = Backoff(WHILE_NEW, WHILE_DEGRADED, jitter=0.0)
UNAUTHORIZED: Final = HUB_REASONS[1]


@dataclass(frozen=True)
class _Looked:
    at: tuple[object, ...]
    """The versions of the spec and the kubeconfigs that were checked."""
    until: float
    """When to check again if none of them changes, by the monotonic clock."""
    times: int
    """The number of checks of these versions."""


class Connections:
    def __init__(
        self,
        informers: Informers,
        open_hub: Open,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._client = informers.client
        self._open = open_hub
        self._clock = clock
        self._random = random
        self._klusterlets = informers.of(KLUSTERLETS, decode=Klusterlet.decode)
        self._secrets = {
            name: informers.of(SECRETS, field_selector=f"metadata.name={name}") for name in (BOOTSTRAP_SECRET, HUB_SECRET)
        }
        self._looked: dict[str, _Looked] = {}
        self._controller: Controller[str] = Controller(
            "klusterlet-hub-connection", self.reconcile, workers=4, metrics=metrics, clock=clock, random=random
        )
        self._controller.watch(self._klusterlets, lambda klusterlet: [klusterlet.metadata.name])
        for informer in self._secrets.values():
            self._controller.watch(informer, self._users)

    def _users(self, secret: Snapshot) -> list[str]:
        return [one.metadata.name for one in self._klusterlets.cache if agent_namespace_of(one) == secret.namespace]

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> float | None:
        klusterlet = self._klusterlets.cache.get(ObjectKey("", name))
        if klusterlet is None or klusterlet.metadata.deletion_timestamp:
            self._looked.pop(name, None)
            return None
        if KLUSTERLET_FINALIZER not in klusterlet.metadata.finalizers:
            return None
        plan = KlusterletPlan(klusterlet, "")
        looked, state = self._looked.get(name), self._state(plan)
        if looked is not None and looked.at == state and self._clock.monotonic() < looked.until:
            return looked.until - self._clock.monotonic()
        try:
            found = await ConnectionCheck(plan, await self._contents(plan), self._open).run()
        except BadSpec:
            # The other conditions report the problem.
            return None
        current = self._klusterlets.cache.get(ObjectKey("", name)) or klusterlet
        found = msgspec.structs.replace(found, observed_generation=klusterlet.metadata.generation)
        await set_condition(self._client, current, found, self._clock.now())
        times = looked.times + 1 if looked is not None and looked.at == state else 1
        pause = _pause(found, times) * (1 + self._random() / 4)
        self._looked[name] = _Looked(state, self._clock.monotonic() + pause, times)
        return pause

    def _state(self, plan: KlusterletPlan) -> tuple[object, ...]:
        key = plan.agent_namespace
        versions = [self._cached(name, key) for name in self._secrets]
        return (plan.klusterlet.metadata.uid, plan.klusterlet.metadata.generation, *(v and v.resource_version for v in versions))

    def _cached(self, secret: str, namespace: str) -> Snapshot | None:
        return self._secrets[secret].cache.get(ObjectKey(namespace, secret))

    async def _contents(self, plan: KlusterletPlan) -> Callable[[str], Contents | None]:
        """The relevant Secrets; those of several hubs have arbitrary names, and are read instead of watched."""
        read: dict[str, Contents] = {}
        for name in (HUB_SECRET, *plan.bootstrap_secrets):
            if name in self._secrets:
                cached = self._cached(name, plan.agent_namespace)
                if cached is not None:
                    read[name] = contents_of(cached.data)
                continue
            try:
                read[name] = contents_of(await self._client.get(SECRETS, name, plan.agent_namespace))
            except NotFound:
                continue
        return read.get


def _pause(found: Condition, times: int) -> float:
    """The permissions of a new credential usually follow a moment later."""
    if found.status != "True":
        return WHILE_WELL
    return _SOON.delay(times) if UNAUTHORIZED in found.reason else WHILE_DEGRADED
