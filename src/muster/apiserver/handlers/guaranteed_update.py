"""The one loop around a compare-and-swap that every change of a stored object takes: update, patch, apply, delete.

As `GuaranteedUpdate` of kube-apiserver's etcd3 store: it starts from the head of the key (which may be queued and not yet visible),
plans, writes under the condition that the head is still the same, and begins anew where another write came first. A plan may be
refused for what this server has not seen yet of another server's writes to the same database; then it is made once more on what is
newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.apiserver import errors
from muster.apiserver.context import Context
from muster.apiserver.objects import object_key
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.storage_versions import from_stored
from muster.machinery.objects import Object
from muster.store.api import Conflict, Entry

_TRIES = 32
"""More than upstream's five: here a lost race costs microseconds and no second round trip."""

Planned = TypeVar("Planned")
Result = TypeVar("Result")


async def guaranteed_update(
    ctx: Context,
    resource: ServedResource,
    namespace: str,
    name: str,
    plan: Callable[[Entry, Object], Awaitable[Planned]],
    write: Callable[[Entry, Object, Planned], Awaitable[Result]],
    create: Callable[[], Awaitable[Result]] | None = None,
) -> Result:
    """What `write` returns. It raises Conflict where another write came first, and ApiError to give up. `create` is for requests
    that make what is not there; one that finds it there after all has it changed."""
    store, cluster = ctx.cluster.store, ctx.cluster.name
    key = object_key(namespace, name)
    newest = False
    for _ in range(_TRIES):
        head = store.head(cluster, resource.storage, key)
        if head is None and create is not None:
            try:
                return await create()
            except errors.ApiError as problem:
                if problem.reason != "AlreadyExists":
                    raise
                await ctx.cluster.caught_up()
                continue
        try:
            if head is None:
                raise errors.not_found(resource, name)
            old = await from_stored(ctx, resource, head)
            planned = await plan(head, old)
        except errors.ApiError as problem:
            if newest or not await _may_be_behind(ctx, problem):
                raise
            newest = True
            continue
        try:
            return await write(head, old, planned)
        except Conflict:
            continue
    raise errors.conflict(resource, name)


async def _may_be_behind(ctx: Context, problem: errors.ApiError) -> bool:
    """Whether a refusal may come from not having seen yet what another server on the same database did (`Cluster.caught_up`)."""
    return problem.code in (404, 409) and await ctx.cluster.caught_up()
