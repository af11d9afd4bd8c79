"""The credentials of all addons: creates and renews the wanted ones, and removes all others.

`settle` is called with an addon's wanted credentials at every reconcile. A credential whose registration has changed is requested
again; the stored one stays in use until then, and, if it is in another Secret, until all credentials of the addon are complete.
Credentials that became unwanted while no agent ran are found by the labels of their Secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from muster.api import Condition
from muster.api.addons import ADDON_LABEL, CREDENTIAL_CONDITIONS
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.agent.addons.kept_credential import KeptCredential, condition, credential_check
from muster.registration.agent.addons.namespaces import AddonNamespaces, label_hint
from muster.registration.agent.addons.registrations import AgentLocation, Blocked, Registrations, WantedCredential
from muster.registration.agent.addons.secrets import AGENT_LABEL, PENDING_LABEL, AddonSecret, AddonStore, pending_name
from muster.registration.agent.context import AgentContext
from muster.registration.agent.state.pending_secret import PendingSecret
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.interfaces import CredentialReport
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import SECRETS

log = get_logger("muster.registration.agent.addons")

NOT_POSSIBLE: Final = "AddonCredentialNotPossible"
"""Reason of ours: a credential is not requested."""


@dataclass
class _Addon:
    kept: dict[str, KeptCredential] = field(default_factory=dict)
    """By the name of the Secret."""
    blocked: tuple[Blocked, ...] = ()
    awaited: tuple[str, ...] = ()
    """Drivers whose credentials cannot be requested yet."""

    @property
    def whole(self) -> bool:
        return not self.blocked and not any(one.store.problem for one in self.kept.values())


class Sides:
    """The managed cluster, and the one that the agent runs on, which may be the same."""

    def __init__(self, managed: AddonNamespaces, hosting: AddonNamespaces) -> None:
        self.managed = managed
        self.hosting = hosting

    def of(self, location: AgentLocation) -> AddonNamespaces:
        return self.hosting if location.hosted else self.managed

    @property
    def all(self) -> tuple[AddonNamespaces, ...]:
        return (self.managed,) if self.hosting is self.managed else (self.managed, self.hosting)


class AddonCredentials:
    """`wake` is called when there is news of an addon."""

    def __init__(
        self, context: AgentContext, hub: KubeClient, address: HubAddress, sides: Sides, wake: Callable[[str], None]
    ) -> None:
        self._context = context
        self._hub = hub
        self._address = address
        self._sides = sides
        self._wake = wake
        self._addons: dict[str, _Addon] = {}
        self._begun: dict[str, Object] = {}
        """Secrets of what was begun by an agent before this one, by name."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    async def recall(self) -> list[str]:
        """Find what was begun; gives the names of the addons it is of. Raises KubeError."""
        namespace = self._context.options.namespace
        found = await self._context.management.list(SECRETS, namespace, label_selector=f"{PENDING_LABEL}={namespace}")
        self._begun = {one["metadata"]["name"]: one for one in found.items}
        return sorted({_addon_of(one) for one in found.items})

    def conditions(self, addon: str) -> tuple[Condition, ...]:
        """What is to be said of an addon's credentials. Of several by one driver none is said to be there before all are: the hub
        goes by that when it takes rights away from what was there before."""
        known = self._addons.get(addon, _Addon())
        blocked = [condition(one.driver, CredentialReport(False, NOT_POSSIBLE, one.problem)) for one in known.blocked]
        kept = [(one.wanted.driver, one.condition) for one in known.kept.values()]
        open_types = {CREDENTIAL_CONDITIONS[driver] for driver in (*known.awaited, *(by for by, state in kept if state is None))}
        state = [one for _, one in kept if one is not None and not (one.status == "True" and one.type in open_types)]
        return (*blocked, *state)

    async def settle(self, addon: str, registrations: Registrations) -> None:
        """Have these credentials kept, and no others of the addon. Raises KubeError."""
        known = self._addons.setdefault(addon, _Addon())
        possible = {one.secret: one for one in registrations.wanted if self._sides.of(one.location).find(one.location.namespace)}
        away = (
            Blocked(one.driver, one.secret, label_hint(one.location.namespace))
            for one in registrations.wanted
            if one.secret not in possible
        )
        known.blocked = (*registrations.blocked, *away)
        known.awaited = registrations.awaited
        for secret in known.kept.keys() - possible.keys():
            known.kept.pop(secret).end()
        for wanted in possible.values():
            self._keep(known, wanted)
        if registrations.settled and known.whole:
            await self._clear(addon, {self._secret_of(one) for one in registrations.wanted})
        if not known.kept and not known.blocked and not known.awaited:
            self._addons.pop(addon, None)

    def _secret_of(self, wanted: WantedCredential) -> tuple[AddonNamespaces, str, str]:
        return self._sides.of(wanted.location), wanted.location.namespace, wanted.secret

    def _keep(self, addon: _Addon, wanted: WantedCredential) -> None:
        former = addon.kept.get(wanted.secret)
        namespace = self._sides.of(wanted.location).find(wanted.location.namespace)
        is_kept = former is not None and (former.wanted, former.namespace) == (wanted, namespace)
        if is_kept or self._tasks is None or namespace is None:
            return
        context, addon_name = self._context, wanted.addon
        labels = {ADDON_LABEL: addon_name, CLUSTER_LABEL: context.cluster}
        own = context.options.namespace
        client = self._sides.of(wanted.location).client
        secret = AddonSecret(client, wanted.location.namespace, wanted.secret, {**labels, AGENT_LABEL: own})
        pending = former.store.pending if former is not None else self._pending(wanted, {**labels, PENDING_LABEL: own})
        store = AddonStore(wanted, secret, pending, self._address, credential_check(context, wanted))
        kept = KeptCredential(context, self._hub, wanted, store, lambda: self._wake(addon_name))
        kept.begin(self._tasks, namespace, former)
        addon.kept[wanted.secret] = kept

    def _pending(self, wanted: WantedCredential, labels: dict[str, str]) -> PendingSecret:
        name = pending_name(wanted.addon, wanted.secret)
        pending = PendingSecret(self._context.management, self._context.options.namespace, name, labels)
        if begun := self._begun.get(name):
            pending.read(begun)
        return pending

    async def _clear(self, addon: str, wanted: set[tuple[AddonNamespaces, str, str]]) -> None:
        """Take away what is left of credentials that are not wanted."""
        kept = {pending_name(addon, secret) for _, _, secret in wanted}
        for name, begun in list(self._begun.items()):
            if _addon_of(begun) == addon and name not in kept:
                await _delete(self._context.management, name, self._context.options.namespace)
                del self._begun[name]
        for side in self._sides.all:
            for secret in list(side.secrets_of(addon)):
                if (side, secret.namespace, secret.name) not in wanted:
                    await _delete(side.client, secret.name, secret.namespace, secret.resource_version)
                    log.info("credential of an addon removed", addon=addon, secret=f"{secret.namespace}/{secret.name}")


def _addon_of(secret: Object) -> str:
    return str((secret["metadata"].get("labels") or {}).get(ADDON_LABEL) or "")


async def _delete(client: KubeClient, name: str, namespace: str, version: str = "") -> None:
    try:
        await client.delete(SECRETS, name, namespace, resource_version=version)
    except NotFound:
        return
