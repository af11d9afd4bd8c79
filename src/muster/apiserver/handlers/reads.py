"""GET and LIST. Both answer stored bytes; a list at an older revision (later pages, exact reads) is the current state rolled back.

A continue token has the revision of the first page and the next key, so that all pages show one state. If that revision has been
compacted, the answer is 410 with a token that allows the client to continue with the newest state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from muster.apiserver import errors
from muster.apiserver.context import Context
from muster.apiserver.handlers.continue_tokens import decode_token, encode_token
from muster.apiserver.handlers.filters import Filter, build_filter
from muster.apiserver.objects import object_key
from muster.apiserver.presentation.negotiation import negotiate
from muster.apiserver.presentation.responses import list_metadata, present, present_all, respond_entry, respond_list
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import ListOptions, list_options, number_problem
from muster.http import Response
from muster.store.api import Compacted, Entry

CATCH_UP_TIMEOUT = 3.0
"""How long a read waits for a revision that this server has not seen yet, as upstream."""


async def get(ctx: Context, resource: ServedResource, name: str) -> Response:
    format = negotiate(ctx.accept)
    version = ctx.query.get("resourceVersion")
    if version != "0":
        await ctx.cluster.store.synced()
        if version:
            await await_revision(ctx, _parse_revision(version))
    entry = ctx.cluster.entry(resource.storage, object_key(ctx.namespace_of(resource), name))
    if entry is None:
        raise errors.not_found(resource, name)
    value = present(resource, entry) or (await present_all(resource, [entry]))[0]
    return respond_entry(ctx, resource, entry, value, 200, format)


def _parse_revision(text: str) -> int:
    if problem := number_problem(text, 64):
        raise errors.bad_revision(text, problem, "get")
    return int(text)


async def await_revision(ctx: Context, revision: int) -> None:
    """Wait until this server has seen `revision`. A single server has seen it or never will."""
    store = ctx.cluster.store
    deadline = asyncio.get_running_loop().time() + CATCH_UP_TIMEOUT
    delay = 0.005
    while store.revision < revision:
        if asyncio.get_running_loop().time() >= deadline:
            raise errors.too_large_resource_version(revision, store.revision)
        await asyncio.sleep(delay)
        delay *= 1.5  # Many requests may wait in vain and must not keep the loop busy.


async def list_objects(ctx: Context, resource: ServedResource) -> Response:
    format = negotiate(ctx.accept)
    options = list_options(ctx.query, watch=False)
    entry_filter = build_filter(resource, options)
    page = await read_page(ctx, resource, options, entry_filter)
    values = _stored_values(resource, page.entries) or await present_all(resource, page.entries)
    meta = list_metadata(page.revision, page.continuation, page.remaining, resource.is_custom and not format.transform)
    return respond_list(ctx, resource, page.entries, values, meta, format)


def _stored_values(resource: ServedResource, entries: Sequence[Entry]) -> list[bytes] | None:
    if resource.strategy.is_shown_as_stored:
        return [entry.value for entry in entries]
    return None


class Page:
    __slots__ = ("continuation", "entries", "remaining", "revision")

    def __init__(self, entries: Sequence[Entry], revision: int, continuation: str = "", remaining: int | None = None) -> None:
        self.entries = entries
        self.revision = revision
        self.continuation = continuation
        self.remaining = remaining


async def read_page(ctx: Context, resource: ServedResource, options: ListOptions, entry_filter: Filter) -> Page:
    store, cluster = ctx.cluster.store, ctx.cluster.name
    prefix = ctx.attributes.namespace + "/" if ctx.attributes.namespace else ""
    start, at, limit = prefix, None, options.limit
    if options.continuation:
        if options.resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        at, relative = decode_token(options.continuation)
        start = prefix + relative
    elif options.revision is not None:
        if options.revision > 0:
            await await_revision(ctx, options.revision)
        if options.match == "Exact":
            at = options.revision
        elif options.revision == 0:
            limit = 0
    else:
        await store.synced()
    revision = store.revision if at is None else at
    if entry_filter.exact_name is not None and at is None and not options.continuation:
        return Page(_list_exact_name(ctx, resource, entry_filter, prefix), revision)
    try:
        entries, last = _list_entries(ctx, resource, entry_filter, prefix, start, limit, at)
    except Compacted:
        token = encode_token(-1, start[len(prefix) :]) if options.continuation else ""
        raise errors.expired(EXPIRED_CONTINUE if token else TOO_OLD % (revision, store.revision), token) from None
    if last is None:
        return Page(entries, revision)
    next_key = last + "\0"
    remaining = None
    if entry_filter.matches_everything:
        remaining = (
            store.count(cluster, resource.storage, prefix, next_key)
            if at is None
            else len(store.list_at(cluster, resource.storage, at, prefix, next_key))
        )
    return Page(entries, revision, encode_token(revision, next_key[len(prefix) :]), remaining)


TOO_OLD = "too old resource version: %d (%d)"
EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with "
    "the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


def _list_exact_name(ctx: Context, resource: ServedResource, entry_filter: Filter, prefix: str) -> list[Entry]:
    """A list with an exact name; in one namespace or for a cluster-scoped resource it needs no scan."""
    name = entry_filter.exact_name or ""
    if prefix or not resource.namespaced:
        entry = ctx.cluster.entry(resource.storage, prefix + name)
        found = [entry] if entry is not None else []
    else:
        suffix = "/" + name
        found = [e for e in ctx.cluster.store.list(ctx.cluster.name, resource.storage) if e.key.endswith(suffix)]
    return [entry for entry in found if entry_filter.matches(entry)]


def _list_entries(
    ctx: Context, resource: ServedResource, entry_filter: Filter, prefix: str, start: str, limit: int, at: int | None
) -> tuple[Sequence[Entry], str | None]:
    """(entries of one page, last key if more follow)"""
    store, cluster = ctx.cluster.store, ctx.cluster.name
    if at is not None:
        everything = store.list_at(cluster, resource.storage, at, prefix, start)
    elif limit and entry_filter.matches_everything:
        everything = store.list(cluster, resource.storage, prefix, start, limit + 1)
    else:
        everything = store.list(cluster, resource.storage, prefix, start)
    entries = everything if entry_filter.matches_everything else entry_filter.select(everything)
    if not limit or len(entries) <= limit:
        return entries, None
    return entries[:limit], entries[limit - 1].key
