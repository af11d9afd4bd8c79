"""Limits for objects that callers with few rights can create without bound: Events per namespace, certificate requests per
requester.

Both expire (Events after an hour, certificate requests by Kubernetes' rules), but until then any agent of a fleet, or any holder of
a bootstrap token, could exhaust the memory of a process that serves others too. kube-apiserver has no such limit: its ResourceQuota
ignores Events and cluster-scoped objects, and its EventRateLimit plugin is off by default. Members of system:masters are not
limited. Usage is maintained from the store's events, starting with the first write that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.authentication import MASTERS
from muster.machinery.objects import Object
from muster.store.api import Entry, Event, Subscription


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _namespace_of(entry: Entry) -> str:
    return entry.key.partition("/")[0]


def _requester(obj: Object) -> str:
    return str(obj["spec"].get("username", ""))


def _requester_of(entry: Entry) -> str:
    # Not `shared`: the decoded object would be kept on the entry, and is larger than the entry.
    return _requester(orjson.loads(entry.value))


@dataclass(frozen=True, slots=True)
class Quota:
    objects: int
    size: int
    """Bytes."""
    description: str
    owner: Callable[[Object], str]
    owner_of_entry: Callable[[Entry], str]


QUOTAS = {
    "/events": Quota(
        10_000, 16 << 20, "events in the namespace {}, which expire one hour after their last write", _namespace, _namespace_of
    ),
    "certificates.k8s.io/certificatesigningrequests": Quota(
        10_000, 32 << 20, "requests by {}, which are deleted after a day, or an hour after the decision", _requester, _requester_of
    ),
}


class StorageQuotas:
    """The plugin of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._usage: dict[str, Usage] = {}

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        quota = QUOTAS.get(resource.storage)
        if quota is None or operation.new is None or MASTERS in ctx.user.groups:
            return
        usage = self._usage.get(resource.storage)
        if usage is None:
            usage = self._usage[resource.storage] = Usage(self._cluster, resource.storage, quota.owner_of_entry)
        owner = quota.owner(operation.new)
        objects, size = usage.of(owner)
        more = len(orjson.dumps(operation.new)) - (len(orjson.dumps(operation.old)) if operation.old is not None else 0)
        objects += operation.old is None
        if more > 0 and (objects > quota.objects or size + more > quota.size):
            what = quota.description.format(orjson.dumps(owner).decode())
            text = f"exceeded quota of {quota.objects} objects and {quota.size} bytes for {what}"
            raise errors.forbidden(resource.group, resource.plural, operation.new["metadata"].get("name", ""), text)


class Usage:
    """Number and size of the stored objects of one resource, by owner."""

    def __init__(self, cluster: Cluster, storage: str, owner: Callable[[Entry], str]) -> None:
        self._cluster = cluster
        self._storage = storage
        self._owner = owner
        self._sums: dict[str, tuple[int, int]] = {}
        self._subscription: Subscription | None = None

    def of(self, owner: str) -> tuple[int, int]:
        if self._subscription is None:
            store, cluster = self._cluster.store, self._cluster.name
            self._sums.clear()
            self._subscription = store.subscribe(cluster, self._storage, None, self._on_events, self._on_lost)
            for entry in store.list(cluster, self._storage):
                self._count(entry, 1)
        return self._sums.get(owner, (0, 0))

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.previous is not None:
                self._count(event.previous, -1)
            if not event.deleted:
                self._count(event.entry, 1)

    def _on_lost(self) -> None:
        self._subscription = None

    def _count(self, entry: Entry, sign: int) -> None:
        owner = self._owner(entry)
        objects, size = self._sums.get(owner, (0, 0))
        objects, size = objects + sign, size + sign * len(entry.value)
        if objects:
            self._sums[owner] = (objects, size)
        else:
            self._sums.pop(owner, None)
