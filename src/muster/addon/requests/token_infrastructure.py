"""Reconciles the objects of `token_objects` on the hub for addons whose agents use tokens, and sets a condition on each addon.

Existing objects are found by label, also after a restart and when the addon is gone. Missing ones are created, drift is reverted by
a forced apply, immutable fields (a binding's roleRef) cause a new object. They are deleted when the agent uses certificates again,
or the ManagedClusterAddOn is gone; while that is being deleted they stay, because the agent may need the hub for its cleanup. An
agent that alternates drivers causes a bounded number of writes (`driver_changes`).

An existing service account of that name without the label is not adopted: its token has the permissions of that account. Only the
condition of the addon is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from muster.addon.driver_changes import DriverChanges
from muster.addon.requests.token_objects import KINDS, READY, SELECTOR, failed, ready, token_objects, wants_token
from muster.api import condition_of
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import NAME_LABEL, TOKEN_DRIVER, TOKEN_INFRASTRUCTURE_LABEL
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.registration.hub.clusters.rbac import DesiredObject, fixed, holds
from muster.runtime.cache import Informer, MutationCache, Snapshot
from muster.runtime.client import AlreadyExists, Forbidden, Invalid, NotFound, patch_object
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.runtime.controller import ControllerContext, set_condition

log = get_logger("muster.addon.requests.token_infrastructure")

NAME: Final = "addon-token-infrastructure"
MANAGER: Final = "muster-addon-token"
"""The field manager of these objects."""


RECHECK: Final = 300.0
"""Seconds between attempts to create refused objects."""


class Foreign(Exception):
    """An object of that name belongs to another owner."""


class TokenInfrastructure:
    """One controller; its keys are those of ManagedClusterAddOns."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._client = context.client
        self._addons = context.informers.of(ManagedClusterAddOn)
        self._kept: dict[GVR, Informer[Snapshot]] = {kind: context.informers.of(kind, label_selector=SELECTOR) for kind in KINDS}
        self._latest = {kind: MutationCache(informer, clock=context.clock) for kind, informer in self._kept.items()}
        self._changes = DriverChanges(context.clock)
        self._controller = context.controller(NAME, self.reconcile)
        self._controller.watch(self._addons, lambda addon: [ObjectKey(addon.metadata.namespace, addon.metadata.name)])
        for informer in self._kept.values():
            self._controller.watch(informer, _addon_of)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: ObjectKey) -> float | None:
        addon = self._addons.cache.get(key)
        if addon is None:
            # An undecodable one exists all the same.
            if key not in self._addons.malformed:
                self._changes.forget(key)
                await self._remove(key)
            return None
        if addon.metadata.deletion_timestamp:
            return None
        drivers, again = self._changes.settle(key, (TOKEN_DRIVER,) if wants_token(addon) else ())
        if drivers:
            recheck = await self._provide(key, addon)
            return min((seconds for seconds in (again, recheck) if seconds is not None), default=None)
        await self._remove(key)
        await self._forget(addon)
        return None

    async def _provide(self, key: ObjectKey, addon: ManagedClusterAddOn) -> float | None:
        try:
            account, role, binding = token_objects(key.namespace, key.name)
            uid = await self._ensure(account)
            await self._ensure(role)
            await self._ensure(binding)
        except (Foreign, Invalid, Forbidden, NotFound) as problem:
            # A user must act, which no watch may report.
            await self._set_failed(addon, str(problem))
            return RECHECK
        await set_condition(self._client, addon, ready(key.namespace, key.name, uid), self._context.clock.now())
        return None

    async def _set_failed(self, addon: ManagedClusterAddOn, problem: str) -> None:
        if await set_condition(self._client, addon, failed(problem), self._context.clock.now()):
            log.warning("no tokens for an addon", cluster=addon.metadata.namespace, addon=addon.metadata.name, problem=problem)

    async def _ensure(self, wanted: DesiredObject) -> str:
        """Create or apply an object; returns its uid. Raises Foreign, KubeError."""
        current = self._latest[wanted.resource].snapshot(wanted.key)
        if current is not None and holds(current.data, wanted.body):
            return current.uid
        if current is None:
            try:
                answer = await self._client.create(wanted.resource, _whole(wanted), manager=MANAGER)
            except AlreadyExists:
                answer = await self._adopt(wanted)
        else:
            answer = await self._put_right(wanted, current.data)
        self._latest[wanted.resource].record_write(answer)
        return str(answer["metadata"]["uid"])

    async def _adopt(self, wanted: DesiredObject) -> Object:
        """Adopt an object that has lost its label."""
        found = await self._client.get(wanted.resource, wanted.key.name, wanted.key.namespace)
        if wanted.resource == SERVICE_ACCOUNTS and not _is_ours(found):
            remedy = f"delete it, or label it {TOKEN_INFRASTRUCTURE_LABEL}=true if the addon's agent may have its rights"
            raise Foreign(f"{wanted} was created by another client; {remedy}")
        return await self._put_right(wanted, found)

    async def _put_right(self, wanted: DesiredObject, found: Object) -> Object:
        if not fixed(found, wanted.body):
            return await self._client.apply(wanted.resource, wanted.body, manager=MANAGER)
        await self._client.delete(wanted.resource, wanted.key.name, wanted.key.namespace, uid=found["metadata"]["uid"])
        return await self._client.create(wanted.resource, _whole(wanted), manager=MANAGER)

    async def _remove(self, key: ObjectKey) -> None:
        """Permissions are deleted before the account."""
        for wanted in reversed(token_objects(key.namespace, key.name)):
            found = self._latest[wanted.resource].snapshot(wanted.key)
            if found is not None:
                await self._delete(wanted.resource, found)

    async def _delete(self, kind: GVR, found: Snapshot) -> None:
        if found.data["metadata"].get("deletionTimestamp"):
            return
        try:
            answer = await self._client.delete(kind, found.name, found.namespace, uid=found.uid)
        except NotFound:
            answer = {"kind": "Status"}
        self._latest[kind].record_delete(found.key, found.uid, answer)
        log.info("token infrastructure removed", kind=kind.kind, namespace=found.namespace, name=found.name)

    async def _forget(self, addon: ManagedClusterAddOn) -> None:
        """Remove the condition from an addon that does not need it."""
        conditions = addon.status.conditions
        if condition_of(conditions, READY) is None:
            return
        left = tuple(condition for condition in conditions if condition.type != READY)
        status = msgspec.structs.replace(addon.status, conditions=left)
        await patch_object(self._client, addon, msgspec.structs.replace(addon, status=status), status=True)


def _addon_of(found: Snapshot) -> Iterable[ObjectKey]:
    return [ObjectKey(found.namespace, found.labels[NAME_LABEL])] if NAME_LABEL in found.labels else []


def _is_ours(found: Object) -> bool:
    fields = (found.get("metadata") or {}).get("managedFields") or ()
    return any(entry.get("manager") == MANAGER for entry in fields)


def _whole(wanted: DesiredObject) -> Object:
    return {"apiVersion": wanted.resource.api_version, "kind": wanted.resource.kind, **wanted.body}
