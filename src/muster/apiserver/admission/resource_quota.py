"""The ResourceQuota plugin: rejects writes that would exceed a quota of their namespace, and charges all others to it.

Follows kube-apiserver's quota admission (`k8s.io/apiserver/pkg/admission/plugin/resourcequota`): limits and usage are read from the
status of the quota, which the controller (`controllers.resource_quotas`) sets and corrects. A write first adds its usage to
`status.used`, with a compare-and-swap on the quota, and is stored afterwards. So concurrent writes cannot exceed a quota, and a
write that fails later stays charged until the controller counts again. Writes in one namespace are serialized; those without quotas
are not.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pod_resources import Amounts, add, amounts
from muster.apiserver.admission.quota_usage import QUOTAS, handles, matches_scopes, matching_resources, missing_constraints, usage
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.objects import encoder
from muster.apiserver.registry.resource import ServedResource
from muster.kube.fieldmanager.fieldset import FieldSet, from_paths
from muster.kube.fieldmanager.managedfields import track
from muster.machinery.objects import Object
from muster.store.api import Conflict, Entry

_MAX_ATTEMPTS: Final = 32
_MANAGER: Final = "kube-apiserver"
_SPEC: Final[FieldSet] = from_paths([("f:spec",)])


class ResourceQuota:
    """The plugin of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        namespace, new = ctx.namespace, operation.new
        if not namespace or new is None or not self._cluster.store.list(self._cluster.name, QUOTAS, namespace + "/"):
            return
        if not handles(resource, operation.name, ctx.subresource, new, operation.old):
            return
        lock = self._locks.get(namespace)
        if lock is None:
            lock = self._locks[namespace] = asyncio.Lock()
        async with lock:
            await self._check_and_charge(ctx, resource, operation, new)

    async def _check_and_charge(self, ctx: Context, resource: ServedResource, operation: Operation, new: Object) -> None:
        for _ in range(_MAX_ATTEMPTS):
            heads = self._heads(ctx.namespace)
            quotas = [orjson.loads(head.value) for head in heads]
            arguments = (resource, operation, new, quotas, ctx)
            charged = await ctx.run_in_worker(_check, *arguments) if ctx.is_large() else _check(*arguments)
            if operation.dry_run:
                return
            try:
                for head, used in zip(heads, charged, strict=True):
                    if used is not None:
                        await self._store(ctx, head, used)
                return
            except Conflict:
                await self._cluster.store.synced()
        raise errors.conflict(resource, new["metadata"].get("name", ""))

    def _heads(self, namespace: str) -> list[Entry]:
        store, cluster = self._cluster.store, self._cluster.name
        keys = [entry.key for entry in store.list(cluster, QUOTAS, namespace + "/")]
        return [head for key in keys if (head := store.head(cluster, QUOTAS, key)) is not None]

    async def _store(self, ctx: Context, head: Entry, used: Mapping[str, str]) -> None:
        row = self._cluster.resources.by_storage(QUOTAS)
        assert row is not None
        old: Object = orjson.loads(head.value)
        new = copy.deepcopy(old)
        new.setdefault("status", {})["used"] = dict(used)
        managed = track(
            old, new, row.schema, manager=_MANAGER, api_version=row.api_version, now=ctx.now(), subresource="status", reset=_SPEC
        )
        if managed:
            new["metadata"]["managedFields"] = managed
        encode = encoder(new, row.type_prefix)
        await self._cluster.store.commit(self._cluster.name, QUOTAS, head.key, encode, head.revision)


def _check(
    resource: ServedResource, operation: Operation, new: Object, quotas: list[Object], ctx: Context
) -> list[Mapping[str, str] | None]:
    """The new `used` of each quota, None if it is unchanged; raises ApiError if a quota would be exceeded."""
    name = new["metadata"].get("name") or new["metadata"].get("generateName", "")

    def refused(text: str) -> errors.ApiError:
        return errors.forbidden(resource.group, resource.plural, name, text)

    now = ctx.cluster.clock()
    interesting: list[int] = []
    for index, quota in enumerate(quotas):
        status = quota.get("status") or {}
        limited = matching_resources(resource, status.get("hard") or ())
        if not limited or not matches_scopes(resource, new, quota):
            continue
        if missing := missing_constraints(resource, new, limited):
            raise refused(f"failed quota: {quota['metadata']['name']}: must specify {missing}")
        if any(each not in (status.get("used") or {}) for each in limited):
            raise refused(f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(limited)}")
        interesting.append(index)
    charged: list[Mapping[str, str] | None] = [None] * len(quotas)
    if not interesting:
        return charged
    counted = usage(resource, new, now)
    if negative := sorted(each for each, amount in counted.items() if amount.nanos < 0):
        raise refused(f"quota usage is negative for resource(s): {','.join(negative)}")
    before = usage(resource, operation.old, now) if operation.old is not None else {}
    for index in interesting:
        quota = quotas[index]
        counts_before = operation.old is not None and matches_scopes(resource, operation.old, quota)
        delta = _delta(counted, before) if counts_before else counted
        charged[index], problem = _charged_usage(quota, delta, may_exceed=ctx.subresource == "status")
        if problem:
            raise refused(problem)
    return charged


def _delta(counted: Amounts, before: Amounts) -> Amounts:
    return {name: amount - before[name] if name in before else amount for name, amount in counted.items()}


def _charged_usage(quota: Object, delta: Amounts, may_exceed: bool) -> tuple[Mapping[str, str] | None, str]:
    """(the new `used`, None if it is unchanged; the message if the quota would be exceeded)"""
    status = quota["status"]
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    requested = {name: amount for name, amount in delta.items() if name in hard and amount.nanos > 0}
    if not requested:
        return None, ""
    total = dict(used)
    add(total, requested)
    exceeded = sorted(name for name in requested if total[name] > hard[name])
    if exceeded and not may_exceed:
        parts = [
            f"{word}: {_format_amounts(each, exceeded)}"
            for word, each in (("requested", requested), ("used", used), ("limited", hard))
        ]
        return None, f"exceeded quota: {quota['metadata']['name']}, {', '.join(parts)}"
    return {**status["used"], **{name: str(total[name]) for name in requested}}, ""


def _format_amounts(found: Amounts, names: Sequence[str]) -> str:
    return ",".join(f"{name}={found[name]}" for name in names if name in found)
