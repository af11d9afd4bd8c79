"""The compare-and-swap loop of every change of a stored object: update, patch, apply and delete.

Follows `GuaranteedUpdate` of kube-apiserver's etcd3 store. It starts from the head of the key (which may be queued and not yet
visible), plans the change, writes it under the condition that the head is unchanged, and starts again after a conflict. A plan may
fail because this server has not seen a write of another server to the same database yet; then it is made once more with the newest
state.
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

_MAX_ATTEMPTS = 32
"""More than upstream's five, because a conflict costs microseconds here, not a round trip."""

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
    """Returns the result of `write`, which raises Conflict to start again, and ApiError to give up. `create` is for requests that
    create a missing object; if it exists after all, it is changed."""
    store, cluster = ctx.cluster.store, ctx.cluster.name
    key = object_key(namespace, name)
    refreshed = False
    for _ in range(_MAX_ATTEMPTS):
        head = store.head(cluster, resource.storage, key)
        if head is None and create is not None:
            try:
                return await create()
            except errors.ApiError as problem:
                if problem.reason != "AlreadyExists":
                    raise
                await ctx.cluster.catch_up()
                continue
        try:
            if head is None:
                raise errors.not_found(resource, name)
            old = await from_stored(ctx, resource, head)
            planned = await plan(head, old)
        except errors.ApiError as problem:
            if refreshed or not await _may_be_stale(ctx, problem):
                raise
            refreshed = True
            continue
        try:
            return await write(head, old, planned)
        except Conflict:
            continue
    raise errors.conflict(resource, name)


async def _may_be_stale(ctx: Context, problem: errors.ApiError) -> bool:
    """Whether the error may be due to a write of another server that was not visible yet (`Cluster.caught_up`)."""
    return problem.code in (404, 409) and await ctx.cluster.catch_up()
