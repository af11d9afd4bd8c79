"""Namespaces of the managed cluster in which addons' credentials and leases are allowed, with caches of both.

The agent may read `open-cluster-management-agent-addon` and labelled namespaces, and no others: the Klusterlet operator binds its
service account there, as labels change. Each of them has two watches, of the credentials that this agent manages and of leases;
there are no other requests. `label_hint` is the remedy for a namespace without the label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.addons import ADDON_LABEL, NAMESPACE_LABEL
from muster.machinery.clock import Clock, Random
from muster.registration.agent.addons.leases import Lease, decode_lease, reduced_lease
from muster.registration.agent.addons.secrets import AGENT_LABEL
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import LEASES, NAMESPACES, SECRETS

LABELLED: Final = f"{NAMESPACE_LABEL}=true"

Wake = Callable[[str], None]
"""Called with the name of an addon that changed."""


def label_hint(namespace: str) -> str:
    """What makes a namespace one in which addons' things may be."""
    return (
        f"namespace {namespace} must exist and carry the label {LABELLED} before addons' credentials and leases are managed "
        f"there: kubectl label namespace {namespace} {LABELLED}"
    )


class AddonNamespace:
    """What is in one of them."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        agent: str,
        wake: Wake,
        judge: Wake,
        known: Callable[[], None],
        clock: Clock,
        random: Random,
    ) -> None:
        self.secrets: Informer[Snapshot] = Informer(
            client, SECRETS, name, label_selector=f"{AGENT_LABEL}={agent}", clock=clock, random=random
        )
        self.leases: Informer[Lease] = Informer(
            client, LEASES, name, decode=decode_lease, reduce=reduced_lease, clock=clock, random=random
        )
        self._wake = wake
        self._judge = judge
        self._known = known
        self.secrets.on_change(self._secret_changed)
        self.leases.on_change(self._lease_changed)

    def _secret_changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        found = new or old
        if found is not None and (addon := found.labels.get(ADDON_LABEL)):
            self._wake(addon)

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        found = new or old
        if found is not None:
            self._judge(found.metadata.name)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.secrets.run())
            tasks.create_task(self.leases.run())
            await self.leases.synced()
            # That there is no lease is known from now on.
            self._known()


class AddonNamespaces:
    """Of one cluster. `agent` is the namespace that the agent's Secrets are in; `wake` hears of Secrets, `judge` of leases, and
    `changed` when there are other namespaces."""

    def __init__(
        self,
        client: KubeClient,
        agent: str,
        wake: Wake,
        judge: Wake,
        changed: Callable[[], None],
        clock: Clock,
        random: Random,
    ) -> None:
        self.client = client
        self._agent = agent
        self._wake = wake
        self._judge = judge
        self._changed = changed
        self._clock = clock
        self._random = random
        self._labelled: Informer[Snapshot] = Informer(client, NAMESPACES, label_selector=LABELLED, clock=clock, random=random)
        self._default: Informer[Snapshot] = Informer(
            client, NAMESPACES, field_selector=f"metadata.name={DEFAULT_NAMESPACE}", clock=clock, random=random
        )
        self._open: dict[str, tuple[AddonNamespace, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()
        self._followed = asyncio.Event()
        for informer in (self._labelled, self._default):
            informer.on_change(lambda old, new: self._news.set())

    def find(self, name: str) -> AddonNamespace | None:
        known = self._open.get(name)
        return None if known is None else known[0]

    async def known(self) -> None:
        """Until it is known which namespaces there are."""
        await self._followed.wait()

    def secrets_of(self, addon: str) -> Iterator[Snapshot]:
        """The credentials of an addon that this agent has kept, in whichever namespace."""
        for namespace, _ in self._open.values():
            for secret in namespace.secrets.cache:
                if secret.labels.get(ADDON_LABEL) == addon:
                    yield secret

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._labelled.run())
            tasks.create_task(self._default.run())
            await self._labelled.synced()
            await self._default.synced()
            while True:
                self._news.clear()
                self._settle(tasks)
                self._followed.set()
                await self._news.wait()

    def _settle(self, tasks: asyncio.TaskGroup) -> None:
        """Follow the namespaces that are there, and no others."""
        wanted = {one.name for informer in (self._labelled, self._default) for one in informer.cache if not _leaving(one)}
        if wanted == self._open.keys():
            return
        for name in self._open.keys() - wanted:
            self._open.pop(name)[1].cancel()
        for name in sorted(wanted - self._open.keys()):
            made = AddonNamespace(self.client, name, self._agent, self._wake, self._judge, self._changed, self._clock, self._random)
            self._open[name] = (made, tasks.create_task(made.run(), name=f"addons in {name}"))
        self._changed()


def _leaving(namespace: Snapshot) -> bool:
    return bool(namespace.data["metadata"].get("deletionTimestamp"))
