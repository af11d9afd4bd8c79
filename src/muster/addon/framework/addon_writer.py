"""Writes ManagedClusterAddOns: one patch for finalizers, one for the status, each with the resourceVersion that was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import msgspec

from muster.addon.framework import lifecycle
from muster.addon.framework.addon_context import AddonContext
from muster.addon.framework.owned import is_echo
from muster.addon.framework.status_draft import StatusDraft
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import patch_object
from muster.runtime.controller import ControllerContext


class AddonWriter:
    """Each write returns the context with the updated addon."""

    def __init__(self, context: ControllerContext, informer: Informer[ManagedClusterAddOn]) -> None:
        self._client = context.client
        self._informer = informer
        self._latest: MutationCache[ManagedClusterAddOn] = MutationCache(informer, clock=context.clock)
        self._written: dict[ObjectKey, str] = {}
        """The version of this process's last write that no watch has reported yet."""

    def find(self, key: ObjectKey) -> ManagedClusterAddOn | None:
        return self._latest.get(key)

    def observe(self, seen: ManagedClusterAddOn, *, gone: bool) -> bool:
        """A watch has reported an addon, or its deletion; returns whether that is new, and not this process's own write."""
        key, version = ObjectKey(seen.metadata.namespace, seen.metadata.name), seen.metadata.resource_version
        written = self._written.get(key)
        if gone:
            self._latest.confirm_delete(key, seen.metadata.uid)
        if gone or written is None or not is_echo(version, written):
            self._written.pop(key, None)
            return True
        if version == written:
            del self._written[key]
        return False

    async def hold(self, addon_context: AddonContext, needed: Iterable[str]) -> AddonContext:
        return await self._set_finalizers(addon_context, lifecycle.with_finalizers(addon_context.addon.metadata.finalizers, needed))

    async def release(self, addon_context: AddonContext, needed: Iterable[str] = ()) -> AddonContext:
        return await self._set_finalizers(
            addon_context, lifecycle.without_unneeded(addon_context.addon.metadata.finalizers, needed)
        )

    async def report(self, addon_context: AddonContext, draft: StatusDraft) -> AddonContext:
        return await self._write(addon_context, msgspec.structs.replace(addon_context.addon, status=draft.status), status=True)

    async def _set_finalizers(self, addon_context: AddonContext, finalizers: tuple[str, ...]) -> AddonContext:
        metadata = msgspec.structs.replace(addon_context.addon.metadata, finalizers=finalizers)
        return await self._write(addon_context, msgspec.structs.replace(addon_context.addon, metadata=metadata), status=False)

    async def _write(self, addon_context: AddonContext, wanted: ManagedClusterAddOn, *, status: bool) -> AddonContext:
        answer = await patch_object(self._client, addon_context.addon, wanted, status=status)
        if answer is None:
            return addon_context
        self._latest.record_write(answer)
        addon = ManagedClusterAddOn.decode(answer)
        cached = self._informer.cache.snapshot(addon_context.key)
        if cached is None or cached.resource_version != addon.metadata.resource_version:
            self._written[addon_context.key] = addon.metadata.resource_version
        return dataclasses.replace(addon_context, addon=addon)
