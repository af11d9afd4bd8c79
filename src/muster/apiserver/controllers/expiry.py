"""Expiration of objects: Events an hour after their last write, bootstrap tokens at their `expiration` (upstream: TokenCleaner)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from weakref import WeakSet

from muster.apiserver.auth.bootstraptokens import SECRET_TYPE, SECRETS, decoded_data
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.machinery.objects import Object
from muster.store.api import Event

EVENT_LIFETIME = timedelta(hours=1)
_SWEEP_INTERVAL = 300.0


class EventExpiry:
    """Deletes expired Events in one sweep per cluster every few minutes, while the cluster has any; a timer per Event would cost
    more."""

    name = "event expiry"
    resources = ("/events",)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._sweeping: WeakSet[Cluster] = WeakSet()

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return () if event.deleted or cluster in self._sweeping else ("sweep",)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        self._sweeping.discard(cluster)
        return ("sweep",) if cluster.store.count(cluster.name, "/events") else ()

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        self._sweeping.add(cluster)
        limit = cluster.clock() - EVENT_LIFETIME
        client = self._context.client(cluster)
        for event in list(cluster.scan("/events")):
            if _last_written(event) < limit:
                meta = event["metadata"]
                options = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
                try:
                    await client.delete(object_path("v1", "events", meta["namespace"], meta["name"]), options)
                except ApiError as error:  # deleted or written in the meantime
                    if error.code not in (404, 409):
                        raise
        if cluster.store.count(cluster.name, "/events"):
            return _SWEEP_INTERVAL
        self._sweeping.discard(cluster)
        return None


def _last_written(event: Object) -> datetime:
    """When the server last stored the event. Times that clients write into it do not change its lifetime."""
    meta = event["metadata"]
    times = [meta["creationTimestamp"], *(entry.get("time") or "" for entry in meta.get("managedFields") or ())]
    return datetime.fromisoformat(max(times))


class BootstrapTokenExpiry:
    name = "bootstrap token expiry"
    resources = ("/secrets",)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        mine = event.entry.key.startswith(SECRETS) and not event.deleted
        return (event.entry.key,) if mine else ()

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, "/secrets", SECRETS)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        secret = cluster.read("/secrets", key)
        if secret is None or secret.get("type") != SECRET_TYPE:
            return None
        try:
            expires = datetime.fromisoformat(decoded_data(secret).get("expiration", ""))
            left = (expires - cluster.clock()).total_seconds()
        except (ValueError, TypeError):  # not a time, or without a time zone
            return None
        if left > 0:
            return left
        namespace, _, name = key.partition("/")
        options = {"preconditions": {"uid": secret["metadata"]["uid"]}}
        try:
            await self._context.client(cluster).delete(object_path("v1", "secrets", namespace, name), options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        return None
