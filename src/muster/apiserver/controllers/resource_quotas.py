"""The status of ResourceQuotas: the hard limits of the spec, and their current usage. Follows
`k8s.io/kubernetes/pkg/controller/resourcequota`.

Admission charges what it admits (`admission.resource_quota`). This controller counts the usage again when a quota is created or its
limits change, when a counted object is deleted or its usage decreases, and every five minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from muster.apiserver.admission.pod_resources import Amounts, add
from muster.apiserver.admission.quota_usage import (
    CLAIMS,
    NOT_COUNTED,
    PODS,
    QUOTAS,
    SERVICES,
    ZERO,
    matches_scopes,
    matching_resources,
    usage,
)
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import shared
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object
from muster.store.api import Entry, Event

_RESYNC_INTERVAL: Final = 300.0
_MAY_DECREASE: Final = frozenset({PODS, SERVICES, CLAIMS})
"""Resources whose objects may use less after an update."""


class ResourceQuotas:
    name = "resource quotas"
    resources = None

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.resource == QUOTAS and not event.deleted and _limits_changed(event):
            return (event.entry.key,)
        if event.resource in NOT_COUNTED or not (event.deleted or event.resource in _MAY_DECREASE):
            return ()
        namespace, slash, _ = event.entry.key.partition("/")
        quotas = cluster.store.list(cluster.name, QUOTAS, namespace + "/") if slash else ()
        if not quotas or not (event.deleted or _usage_changed(cluster, event)):
            return ()
        return [quota.key for quota in quotas]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, QUOTAS)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        quota = cluster.read(QUOTAS, key)
        if quota is None:
            return None
        hard: dict[str, str] = (quota.get("spec") or {}).get("hard") or {}
        known: dict[str, str] = (quota.get("status") or {}).get("used") or {}
        counted = {name: str(amount) for name, amount in self._counted(cluster, quota, hard).items()}
        used = {name: counted.get(name, known.get(name)) for name in hard if name in counted or name in known}
        status = {"hard": dict(hard), "used": used}
        if status != (quota.get("status") or {}):
            meta = quota["metadata"]
            path = object_path("v1", "resourcequotas", meta["namespace"], meta["name"], "status")
            written = {"apiVersion": "v1", "kind": "ResourceQuota", **orjson.loads(orjson.dumps(quota)), "status": status}
            try:
                await self._context.client(cluster).update(path, written)
            except ApiError as error:
                if error.code == 409:
                    raise  # retried with a new count, because the quota has changed
                if error.code != 404:
                    raise
                return None
        return _RESYNC_INTERVAL

    def _counted(self, cluster: Cluster, quota: Object, hard: Iterable[str]) -> Amounts:
        """The usage of each limited resource that is counted."""
        total: Amounts = {}
        for row in _counted_rows(cluster):
            desired = matching_resources(row, hard)
            if not desired:
                continue
            sums: Amounts = dict.fromkeys(desired, ZERO)
            for obj in cluster.scan(row.storage, quota["metadata"]["namespace"]):
                if matches_scopes(row, obj, quota):
                    counts = usage(row, obj, cluster.clock())
                    add(sums, {name: amount for name, amount in counts.items() if name in sums})
            add(total, sums)
        return total


def _counted_rows(cluster: Cluster) -> Iterable[ServedResource]:
    rows = cluster.resources.storages()
    return [row for storage, row in rows.items() if row.namespaced and storage not in NOT_COUNTED]


def _limits_changed(event: Event) -> bool:
    return event.previous is None or _spec(event.entry) != _spec(event.previous)


def _spec(entry: Entry) -> object:
    return shared(entry).get("spec")


def _usage_changed(cluster: Cluster, event: Event) -> bool:
    row = cluster.resources.by_storage(event.resource)
    if row is None or event.previous is None:
        return False
    now = cluster.clock()
    return usage(row, shared(event.entry), now) != usage(row, shared(event.previous), now)
