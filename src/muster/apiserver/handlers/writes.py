"""Create and update: from a decoded object to a committed one.

All writes have the same steps: default → track managed fields → mutating admission → prepare (server-set fields, hooks of the kind)
→ validate → validating admission → store. An update is retried after a conflict (`guaranteed_update`), unless the request specifies
a resourceVersion. A dry run performs all steps but the last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import orjson
from msgspec.structs import replace

from muster.apiserver import errors
from muster.apiserver.admission.chain import AdmissionChain, Operation
from muster.apiserver.admission.lifecycle import check_namespace
from muster.apiserver.auth.escalation import check_grant
from muster.apiserver.bodies import decode_body
from muster.apiserver.context import Context
from muster.apiserver.handlers.guaranteed_update import guaranteed_update
from muster.apiserver.handlers.managed_fields import Track, track_managed_fields
from muster.apiserver.object_meta import (
    check_metadata,
    check_metadata_update,
    fill_on_create,
    restore_on_update,
    wipe_system_fields,
)
from muster.apiserver.objects import TooLargeToStore, encoder, metadata, object_key, view
from muster.apiserver.presentation.negotiation import negotiate
from muster.apiserver.presentation.responses import present, present_all, respond_entry, respond_object
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import WriteOptions, number_problem, write_options
from muster.apiserver.storage_versions import from_stored, to_stored
from muster.http import Response
from muster.kube.fielderrors import FieldError, TooManyErrors, counted
from muster.kube.fielderrors import invalid as invalid_field
from muster.kube.fieldmanager.managedfields import only_times_differ
from muster.kube.names import generate_name
from muster.machinery.golang.json import dumps_in_steps
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.machinery.uids import new_uid
from muster.store.api import ABSENT, Conflict, Entry, Unavailable

log = get_logger(__name__)
_MAX_NAME_ATTEMPTS = 8
_MAX_STORED = 1536 * 1024
"""etcd's limit for one request. Built-in kinds are smaller there, as protobuf; here the size as JSON is compared."""


class WriteResult:
    """The result of a write: the committed entry, or the object that a dry run would have written."""

    __slots__ = ("code", "entry", "obj")

    def __init__(self, code: int, entry: Entry | None, obj: Object | None = None) -> None:
        self.code = code
        self.entry = entry
        self.obj = obj


async def respond_write(ctx: Context, resource: ServedResource, written: WriteResult) -> Response:
    format = negotiate(ctx.accept)
    if written.entry is None:
        assert written.obj is not None
        return respond_object(ctx, resource, written.obj, written.code, format)
    value = present(resource, written.entry) or (await present_all(resource, [written.entry]))[0]
    return respond_entry(ctx, resource, written.entry, value, written.code, format)


async def create(ctx: Context, resource: ServedResource) -> Response:
    negotiate(ctx.accept)
    options = write_options(ctx.query, "CreateOptions")
    obj = await decode_body(ctx, resource, options)
    return await respond_write(ctx, resource, await create_object(ctx, resource, obj, options))


async def create_object(
    ctx: Context, resource: ServedResource, obj: Object, options: WriteOptions, track: Track = track_managed_fields
) -> WriteResult:
    """Store a new object. `track` sets managedFields; an apply that creates has already set them."""
    meta = obj.setdefault("metadata", {})
    _match_namespace(ctx, resource, meta)
    if meta.get("resourceVersion"):
        raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    generate = meta.get("generateName", "") if not meta.get("name") else ""
    wipe_system_fields(meta)
    if ctx.is_large():
        await ctx.run_in_worker(track, ctx, resource, None, obj, options)
    else:
        track(ctx, resource, None, obj, options)
    obj = await ctx.cluster.part(AdmissionChain).mutate(ctx, resource, Operation("CREATE", obj, None, options.dry_run))
    for attempt in range(_MAX_NAME_ATTEMPTS):
        if generate:
            obj["metadata"]["name"] = generate_name(generate)
        try:
            return await _create_once(ctx, resource, obj, options)
        except Conflict:
            if not generate or attempt == _MAX_NAME_ATTEMPTS - 1:
                raise _already_exists(ctx, resource, obj["metadata"]["name"]) from None
    raise AssertionError("unreachable: the last attempt raises")


async def _create_once(ctx: Context, resource: ServedResource, obj: Object, options: WriteOptions) -> WriteResult:
    meta = obj["metadata"]
    fill_on_create(resource, meta, ctx.now(), new_uid())
    if resource.has_status and resource.drops_status_on_create:
        obj.pop("status", None)
    large = ctx.is_large()
    await _prepare(ctx, resource, obj, None, large)
    await _validate(ctx, resource, obj, None, large)
    _require_create(ctx)
    await ctx.cluster.part(AdmissionChain).validate(ctx, resource, Operation("CREATE", obj, None, options.dry_run))
    await check_grant(ctx, resource, obj, None)
    if options.dry_run:
        if ctx.cluster.store.head(ctx.cluster.name, resource.storage, object_key(meta.get("namespace", ""), meta["name"])):
            raise _already_exists(ctx, resource, meta["name"])
        return WriteResult(201, None, obj)
    return WriteResult(201, await commit(ctx, resource, obj, ABSENT))


def _already_exists(ctx: Context, resource: ServedResource, name: str) -> errors.ApiError:
    head = _head(ctx, resource, name)
    return errors.already_exists(resource, name, deleting=head is not None and metadata(head).deletionTimestamp is not None)


def _require_create(ctx: Context) -> None:
    """Check the permission to create, for an update or apply of a missing object."""
    if ctx.verb == "create":
        return
    attributes = replace(ctx.attributes, verb="create")
    decision = ctx.cluster.rules.authorize(ctx.user, attributes)
    if not decision.allowed:
        raise errors.access_denied(ctx.user, attributes, decision.reason)


def _match_namespace(ctx: Context, resource: ServedResource, meta: Object) -> None:
    """Set the namespace of the request; drop that of a cluster-scoped object; reject another one."""
    namespace = ctx.namespace_of(resource)
    given = meta.get("namespace") or ""
    if namespace and given and given != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if namespace:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


async def _prepare(ctx: Context, resource: ServedResource, obj: Object, old: Object | None, large: bool) -> None:
    worker_step = resource.strategy.prepare(ctx, obj, old)
    if worker_step is not None:
        if large:
            await ctx.run_in_worker(worker_step)
        else:
            worker_step()


async def _validate(ctx: Context, resource: ServedResource, obj: Object, old: Object | None, large: bool) -> None:
    if large:
        invalid = await ctx.run_in_worker(_large_validation_error, ctx, resource, obj, old)
    else:
        invalid = _validation_error(resource, obj, _problems(ctx, resource, obj, old))
    if invalid is None and (problems := resource.strategy.allocate(ctx, obj)):
        invalid = _validation_error(resource, obj, problems)
    if invalid is not None:
        raise invalid


def _validation_error(resource: ServedResource, obj: Object, problems: list[FieldError]) -> errors.ApiError | None:
    return errors.invalid_object(resource, obj["metadata"].get("name", ""), problems) if problems else None


def _large_validation_error(ctx: Context, resource: ServedResource, obj: Object, old: Object | None) -> errors.ApiError | None:
    return _validation_error(resource, obj, _first_problems(ctx, resource, obj, old))


def _first_problems(ctx: Context, resource: ServedResource, obj: Object, old: Object | None) -> list[FieldError]:
    """The validation errors of a large object, as many as an answer can show."""
    try:
        with counted():
            return _problems(ctx, resource, obj, old)
    except TooManyErrors as found:
        return found.errors


def _problems(ctx: Context, resource: ServedResource, obj: Object, old: Object | None) -> list[FieldError]:
    problems = check_metadata(resource, obj) if old is None else check_metadata_update(resource, obj, old, ctx.subresource)
    return problems + resource.strategy.validate(ctx, obj, old, valid=not problems)


async def commit(ctx: Context, resource: ServedResource, obj: Object, expect: int) -> Entry:
    """Store the object. It is durable and visible on return."""
    stored = await to_stored(resource, obj)
    entry = await _store(ctx, resource, stored, expect, delete=False)
    if resource.is_custom and stored is obj:
        view(entry).rendered_for = resource.strategy
    return entry


async def _store(ctx: Context, resource: ServedResource, stored: Object, expect: int, delete: bool) -> Entry:
    cluster, meta = ctx.cluster, stored["metadata"]
    key = object_key(meta.get("namespace", ""), meta["name"])
    limit = None if delete else _MAX_STORED
    try:
        if ctx.is_large():
            encode = await ctx.run_in_worker(encoder, stored, resource.type_prefix, limit, dumps_in_steps)
        else:
            encode = encoder(stored, resource.type_prefix, limit)
    except TooLargeToStore:
        raise errors.too_large_to_store() from None
    if cluster.removed:  # removed during the request; another cluster may have its name now
        raise errors.no_such_cluster(cluster.name)
    if expect == ABSENT:
        check_namespace(ctx, resource, meta["name"])
    try:
        entry = await cluster.store.commit(cluster.name, resource.storage, key, encode, expect, delete)
    except Unavailable as error:
        if cluster.health.problem is None:  # one log line per outage, not per write
            log.error("writing to the store failed", cluster=cluster.name, problem=str(error))
        cluster.health.problem = error.problem
        raise errors.internal(f"the change could not be stored: {error.problem}") from error
    cluster.health.problem = None
    if expect == ABSENT and cluster.store.shared:
        await _recheck_namespace(ctx, resource, stored, entry)
    return entry


async def _recheck_namespace(ctx: Context, resource: ServedResource, stored: Object, entry: Entry) -> None:
    """Check the namespace of a created object again: another server on the same database may have deleted it before the object was
    stored, which is visible by now. Then the object is deleted, because the namespace controller may have finished."""
    try:
        check_namespace(ctx, resource, stored["metadata"]["name"])
    except errors.ApiError:
        with suppress(Conflict):
            await _store(ctx, resource, stored, entry.revision, delete=True)
        raise


async def update(ctx: Context, resource: ServedResource, name: str) -> Response:
    negotiate(ctx.accept)
    options = write_options(ctx.query, "UpdateOptions")
    body = await decode_body(ctx, resource, options)
    meta = body.setdefault("metadata", {})
    check_name(meta.get("name"), name)
    _match_namespace(ctx, resource, meta)
    pinned = meta.get("resourceVersion") or ""

    sent = await ctx.run_in_worker(dumps_in_steps, body) if ctx.is_large() else orjson.dumps(body)
    fresh = [body]

    def replaced(old: Object) -> Object:
        """A fresh copy of the body for each attempt."""
        return fresh.pop() if fresh else orjson.loads(sent)

    async def create() -> WriteResult:
        if pinned:
            raise errors.conflict(resource, name, "StorageError: invalid object, the object to update does not exist")
        return await create_object(ctx, resource, replaced({}), options)

    creates = resource.create_on_update and not ctx.subresource
    written = await update_object(ctx, resource, name, replaced, options, is_replace=True, create=create if creates else None)
    return await respond_write(ctx, resource, written)


def check_name(given: object, name: str) -> None:
    """Check that the object has a name and that it is the one in the URL."""
    if not given:
        raise errors.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _head(ctx: Context, resource: ServedResource, name: str) -> Entry | None:
    namespace = ctx.namespace_of(resource)
    return ctx.cluster.store.head(ctx.cluster.name, resource.storage, object_key(namespace, name))


async def update_object(
    ctx: Context,
    resource: ServedResource,
    name: str,
    change: Callable[[Object], Object],
    options: WriteOptions,
    is_replace: bool = False,
    track: Track = track_managed_fields,
    create: Callable[[], Awaitable[WriteResult]] | None = None,
) -> WriteResult:
    """Change an existing object: `change` gets the current one (a private copy, unless `is_replace`) and returns the new one.
    `create` creates a missing object, for requests that do so."""

    async def planned(head: Entry, old: Object) -> tuple[Object, bool]:
        base = old if is_replace else await from_stored(ctx, resource, head)
        new = await ctx.run_in_worker(change, base) if ctx.is_large(head) else change(base)
        return new, _check_preconditions(resource, name, new, old, is_replace)

    async def written(head: Entry, old: Object, plan: tuple[Object, bool]) -> WriteResult:
        new, pinned = plan
        try:
            return await _update_once(ctx, resource, head, old, new, options, track)
        except Conflict:
            if pinned:
                raise errors.conflict(resource, name) from None
            raise

    return await guaranteed_update(ctx, resource, ctx.namespace_of(resource), name, planned, written, create)


def _check_preconditions(resource: ServedResource, name: str, new: Object, old: Object, replace: bool) -> bool:
    """Check uid and resourceVersion of the new object; return whether the write may not be retried on a newer version."""
    meta, old_meta = new["metadata"], old["metadata"]
    uid = meta.get("uid")
    if uid and uid != old_meta["uid"]:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        raise errors.storage_conflict(resource, old_meta.get("namespace", ""), name, text)
    version = meta.get("resourceVersion") or ""
    if not version or version == "0":
        if replace and resource.needs_resource_version:
            problem = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.group, resource.plural, name, [problem])
        return False
    if version != old_meta["resourceVersion"]:
        if found := number_problem(version, 64):
            raise errors.ApiError(500, "", f'strconv.ParseUint: parsing "{version}": {found}')
        raise errors.conflict(resource, name)
    return replace


async def _update_once(
    ctx: Context, resource: ServedResource, head: Entry, old: Object, new: Object, options: WriteOptions, track: Track
) -> WriteResult:
    large = ctx.is_large(head)
    if large:
        await ctx.run_in_worker(track, ctx, resource, old, new, options)
    else:
        track(ctx, resource, old, new, options)
    restore_on_update(resource, ctx.subresource, new, old)
    admitted = await ctx.cluster.part(AdmissionChain).mutate(ctx, resource, Operation("UPDATE", new, old, options.dry_run))
    if admitted is not new:
        new = admitted
        restore_on_update(resource, ctx.subresource, new, old)
    await _prepare(ctx, resource, new, old, large)
    _count_generation(resource, new, old)
    await _validate(ctx, resource, new, old, large)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    await ctx.cluster.part(AdmissionChain).validate(ctx, resource, Operation("UPDATE", new, old, options.dry_run))
    await check_grant(ctx, resource, new, old)
    # Not for a head that is still queued: writing it may fail after this request was answered with it.
    if (new == old or only_times_differ(old, new)) and head.revision <= ctx.cluster.store.revision:
        return WriteResult(200, head)
    if options.dry_run:
        return WriteResult(200, None, new)
    if is_finished(resource, new):
        await remove(ctx, resource, old, head.revision)
        return WriteResult(200, None, {**new, "metadata": {**new["metadata"], "resourceVersion": str(head.revision)}})
    return WriteResult(200, await commit(ctx, resource, new, head.revision))


def _count_generation(resource: ServedResource, new: Object, old: Object) -> None:
    if not resource.tracks_generation:
        return
    generation = old["metadata"].get("generation", 0)
    skipped = ("metadata", "status") if resource.has_status else ("metadata",)
    if any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in skipped):
        generation += 1
    if generation:
        new["metadata"]["generation"] = generation


def is_finished(resource: ServedResource, obj: Object) -> bool:
    """Whether a marked object waits for nothing any longer."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if resource.storage == "/namespaces" and obj.get("spec", {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


async def remove(ctx: Context, resource: ServedResource, obj: Object, expect: int) -> Entry:
    """Delete from the store; the DELETED event shows `obj`."""
    return await _store(ctx, resource, await to_stored(resource, obj), expect, delete=True)
