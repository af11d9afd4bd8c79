"""The ResourceQuota plugin: a write that would exceed a quota of its namespace is refused, one that fits is booked in its status.

Follows kube-apiserver's quota admission: what counts is the quota's status, which the controller (`controllers.resource_quotas`)
fills in and sets right; a write that fits first adds to `status.used`, under the condition that nobody else did meanwhile, and is
stored afterwards. So of several writes at the same time none exceeds the quota, and one that fails after all is counted until the
controller looks again. Writes of a namespace take turns, those without quotas pass.
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
from muster.apiserver.admission.quota_usage import QUOTAS, handled, in_scope, matching, unsaid, usage
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.objects import encoder
from muster.apiserver.registry.resource import ServedResource
from muster.kube.fieldmanager.fieldset import FieldSet, from_paths
from muster.kube.fieldmanager.managedfields import track
from muster.machinery.objects import Object
from muster.store.api import Conflict, Entry

_TRIES: Final = 32
_MANAGER: Final = "kube-apiserver"
_SPEC: Final[FieldSet] = from_paths([("f:spec",)])


class ResourceQuota:
    """A validating step of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        namespace, new = ctx.namespace, operation.new
        if not namespace or new is None or not self._cluster.store.list(self._cluster.name, QUOTAS, namespace + "/"):
            return
        if not handled(resource, operation.name, ctx.subresource, new, operation.old):
            return
        turn = self._turns.get(namespace)
        if turn is None:
            turn = self._turns[namespace] = asyncio.Lock()
        async with turn:
            await self._book(ctx, resource, operation, new)

    async def _book(self, ctx: Context, resource: ServedResource, operation: Operation, new: Object) -> None:
        for _ in range(_TRIES):
            heads = self._heads(ctx.namespace)
            quotas = [orjson.loads(head.value) for head in heads]
            arguments = (resource, operation, new, quotas, ctx)
            booked = await ctx.aside(_check, *arguments) if ctx.is_large() else _check(*arguments)
            if operation.dry_run:
                return
            try:
                for head, used in zip(heads, booked, strict=True):
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
    """What each quota has used with the write, None where that is as before; raises ApiError if one of them is exceeded."""
    name = new["metadata"].get("name") or new["metadata"].get("generateName", "")

    def refused(text: str) -> errors.ApiError:
        return errors.forbidden(resource.group, resource.plural, name, text)

    now = ctx.cluster.clock()
    interesting: list[int] = []
    for index, quota in enumerate(quotas):
        status = quota.get("status") or {}
        wanted = matching(resource, status.get("hard") or ())
        if not wanted or not in_scope(resource, new, quota):
            continue
        if missing := unsaid(resource, new, wanted):
            raise refused(f"failed quota: {quota['metadata']['name']}: must specify {missing}")
        if any(each not in (status.get("used") or {}) for each in wanted):
            raise refused(f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(wanted)}")
        interesting.append(index)
    booked: list[Mapping[str, str] | None] = [None] * len(quotas)
    if not interesting:
        return booked
    counted = usage(resource, new, now)
    if negative := sorted(each for each, amount in counted.items() if amount.nanos < 0):
        raise refused(f"quota usage is negative for resource(s): {','.join(negative)}")
    before = usage(resource, operation.old, now) if operation.old is not None else {}
    for index in interesting:
        quota = quotas[index]
        counts_before = operation.old is not None and in_scope(resource, operation.old, quota)
        delta = _more(counted, before) if counts_before else counted
        booked[index], problem = _booked(quota, delta, may_exceed=ctx.subresource == "status")
        if problem:
            raise refused(problem)
    return booked


def _more(counted: Amounts, before: Amounts) -> Amounts:
    return {name: amount - before[name] if name in before else amount for name, amount in counted.items()}


def _booked(quota: Object, delta: Amounts, may_exceed: bool) -> tuple[Mapping[str, str] | None, str]:
    """(what is used with the write, None where that is as before; how it would exceed the quota)"""
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
            f"{word}: {_shown(each, exceeded)}" for word, each in (("requested", requested), ("used", used), ("limited", hard))
        ]
        return None, f"exceeded quota: {quota['metadata']['name']}, {', '.join(parts)}"
    return {**status["used"], **{name: str(total[name]) for name in requested}}, ""


def _shown(found: Amounts, names: Sequence[str]) -> str:
    return ",".join(f"{name}={found[name]}" for name in names if name in found)
