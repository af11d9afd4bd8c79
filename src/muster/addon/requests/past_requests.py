"""Deletes the answered signing requests of addons that were disabled, because they count towards a limit.

An agent creates no further request while there are ten of its cluster and addon, and the server keeps them for an hour: an addon
that is disabled and enabled often would get no certificate. A request is obsolete if its addon is not on its cluster, or if it is
older than the current ManagedClusterAddOn. A cache may have a request before its addon, so requests without addon are kept for a
while, unless the addon's deletion was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL, request_prefix
from muster.api.agents import CLUSTER_LABEL
from muster.api.resource import TypedObject
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Snapshot
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.controller import ControllerContext
from muster.runtime.install import rule

log = get_logger("muster.addon.requests.past_requests")

NAME: Final = "addon-past-requests"
GRACE: Final = 60.0
"""The minimum age in seconds of a request without addon before its deletion."""
RULES: Final = (rule("certificates.k8s.io", ["certificatesigningrequests"], ["delete"]),)
_BY_ADDON: Final = "past-requests-addon"


class PastRequests:
    """One controller; its keys are ManagedClusterAddOns of these addons."""

    def __init__(self, context: ControllerContext, addons: Collection[str]) -> None:
        self._client = context.client
        self._clock = context.clock
        self._names = frozenset(addons)
        self._gone: dict[ObjectKey, datetime] = {}
        """The time at which an addon with requests was deleted."""
        self._addons = context.informers.of(ManagedClusterAddOn)
        self._requests = context.informers.of(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL},{ADDON_LABEL}")
        self._requests.cache.add_index(_BY_ADDON, lambda csr: [str(owner)] if (owner := owner_of(csr)) is not None else [])
        self._controller = context.controller(NAME, self.reconcile)
        self._controller.depend(self._addons)
        self._controller.watch(self._requests, self._owners)
        self._addons.on_change(self._addon_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _owners(self, csr: Snapshot) -> Iterable[ObjectKey]:
        owner = owner_of(csr)
        return [owner] if owner is not None and owner.name in self._names else []

    def _addon_changed(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        side = new if new is not None else old
        assert side is not None, "something changed"
        key = _key(side)
        if key.name not in self._names:
            return
        if new is None:
            self._gone[key] = self._clock.now()
            self._controller.enqueue(key)
        elif self._gone.pop(key, None) is not None or old is None:
            self._controller.enqueue(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        if key in self._addons.malformed:
            # An undecodable one is not deleted.
            return None
        addon = self._addons.cache.get(key)
        now = self._clock.now()
        waits = []
        requests = self._requests.cache.by_index(_BY_ADDON, str(key))
        if not requests:
            self._gone.pop(key, None)
        for csr in requests:
            left = past_in(_time(csr.data["metadata"].get("creationTimestamp") or ""), addon, self._gone.get(key), now)
            if left is not None and left <= 0:
                await self._delete(csr, key)
            elif left is not None:
                waits.append(left)
        return min(waits, default=None)

    async def _delete(self, csr: Snapshot, key: ObjectKey) -> None:
        try:
            await self._client.delete(SIGNING_REQUESTS, csr.name, uid=csr.uid)
        except NotFound:
            return
        log.info("past request deleted", request=csr.name, cluster=key.namespace, addon=key.name)


def past_in(created: datetime | None, addon: ManagedClusterAddOn | None, gone: datetime | None, now: datetime) -> float | None:
    """Seconds until a request is obsolete, without changes; 0 if it is, None if it will not be."""
    if created is None:
        return None
    if addon is not None:
        begun = _time(addon.metadata.creation_timestamp)
        return 0.0 if begun is not None and created < begun else None
    if gone is not None and created <= gone:
        return 0.0
    return max(0.0, GRACE - (now - created).total_seconds())


def owner_of(csr: Snapshot) -> ObjectKey | None:
    """The addon in its labels, if its name agrees."""
    cluster, addon = csr.labels.get(CLUSTER_LABEL, ""), csr.labels.get(ADDON_LABEL, "")
    return ObjectKey(cluster, addon) if csr.name.startswith(request_prefix(cluster, addon)) else None


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except GoError:
        return None


def _key(obj: TypedObject) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)
