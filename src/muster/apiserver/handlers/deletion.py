"""DELETE of an object or a collection: preconditions, propagation policy, finalizers, graceful deletion. Follows
`registry.Store.Delete` and `rest.BeforeDelete` of `k8s.io/apiserver/pkg/registry`.

An object that has to wait for something (finalizers, the grace period of a running pod, the content of a namespace) is only marked
with a deletionTimestamp, and is deleted when nothing is left to wait for. Any other object is deleted immediately.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.chain import AdmissionChain, Operation
from muster.apiserver.bodies import decode_options
from muster.apiserver.context import Context
from muster.apiserver.handlers.filters import build_filter
from muster.apiserver.handlers.guaranteed_update import guaranteed_update
from muster.apiserver.handlers.reads import read_page
from muster.apiserver.handlers.writes import WriteResult, commit, is_finished, remove, respond_write
from muster.apiserver.objects import object_key, shared
from muster.apiserver.presentation.negotiation import PLAIN_JSON, negotiate
from muster.apiserver.presentation.responses import list_metadata, present_all, respond_list, respond_object
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import Query, list_options
from muster.apiserver.storage_versions import from_stored
from muster.http import Response
from muster.kube import fielderrors
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.store.api import Conflict, Entry

_POLICIES = ("Foreground", "Background", "Orphan")
_FINALIZER = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
UNDELETABLE_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
_DEFAULT_GRACE = 30
_MIN_GRACE = 1
"""The grace period that is used for a negative one."""
_GRACEFUL_RESOURCE = "/pods"
"""The only resource with graceful deletion."""


@dataclass(slots=True)
class DeleteOptions:
    dry_run: bool = False
    policy: str = ""
    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    raw: dict[str, Any] = field(default_factory=dict)


def delete_options(ctx: Context) -> DeleteOptions:
    """The options of the body; those of the query are used only without a body."""
    raw = decode_options(ctx) if ctx.request.body else _options_in_query(ctx.query) if ctx.query.values else {}
    dry_run = raw.get("dryRun") or []
    policy = raw.get("propagationPolicy") or ""
    orphan = raw.get("orphanDependents")
    grace = raw.get("gracePeriodSeconds")
    problems = []
    if policy and orphan is not None:
        problems.append(
            fielderrors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    elif policy and policy not in _POLICIES:
        problems.append(fielderrors.not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if any(value != "All" for value in dry_run):
        problems.append(fielderrors.not_supported("dryRun", dry_run, ["All"]))
    if problems:
        raise errors.invalid_options("DeleteOptions", problems)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = raw.get("preconditions") or {}
    return DeleteOptions(bool(dry_run), policy, grace, preconditions.get("uid"), preconditions.get("resourceVersion"), raw)


def _options_in_query(query: Query) -> dict[str, Any]:
    found = {
        "dryRun": query.getall("dryRun"),
        "propagationPolicy": query.get("propagationPolicy"),
        "orphanDependents": query.flag("orphanDependents") if "orphanDependents" in query.values else None,
        "gracePeriodSeconds": query.integer("gracePeriodSeconds"),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


async def delete(ctx: Context, resource: ServedResource, name: str) -> Response:
    format = negotiate(ctx.accept)
    options = await ctx.run_in_worker(delete_options, ctx) if ctx.is_large() else delete_options(ctx)
    namespace = ctx.namespace_of(resource)
    result = await delete_object(ctx, resource, namespace, name, options)
    if isinstance(result, Entry):
        return await respond_write(ctx, resource, WriteResult(200, result))
    if resource.returns_deleted_object:
        return respond_object(ctx, resource, result, 200, format)
    return respond_object(ctx, None, _success(resource, result), 200, PLAIN_JSON if format.transform else format)


def _success(resource: ServedResource, obj: Object) -> Object:
    details = {"name": obj["metadata"]["name"], "kind": resource.plural, "uid": obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_object(
    ctx: Context, resource: ServedResource, namespace: str, name: str, options: DeleteOptions
) -> Entry | Object:
    """Returns the entry if the object is only marked, its last state if it is deleted (or would be, in a dry run)."""
    if resource.storage == "/namespaces" and name in UNDELETABLE_NAMESPACES:
        raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")

    async def planned(head: Entry, old: Object) -> None:
        _check_preconditions(resource, old, options)

    async def written(head: Entry, old: Object, _: None) -> Entry | Object:
        return await _delete_once(ctx, resource, head, old, options)

    return await guaranteed_update(ctx, resource, namespace, name, planned, written)


async def _delete_once(ctx: Context, resource: ServedResource, head: Entry, old: Object, options: DeleteOptions) -> Entry | Object:
    operation = Operation("DELETE", None, old, options.dry_run, options.raw)
    admission = ctx.cluster.part(AdmissionChain)
    await admission.mutate(ctx, resource, operation)
    await admission.validate(ctx, resource, operation)
    arguments = (ctx, resource, old, options)
    marked = await ctx.run_in_worker(_marked, *arguments) if ctx.is_large(head) else _marked(*arguments)
    if is_finished(resource, marked):
        shown = marked if resource.storage == _GRACEFUL_RESOURCE else old
        return shown if options.dry_run else await _delete_immediately(ctx, resource, shown, old, head)
    if options.dry_run or (marked == old and head.revision <= ctx.cluster.store.revision):
        return head
    return await commit(ctx, resource, marked, head.revision)


async def _delete_immediately(ctx: Context, resource: ServedResource, last: Object, old: Object, head: Entry) -> Object:
    """Delete an object that waits for nothing. If it is marked by this request, the mark is stored first, so that watches see
    it."""
    if last is not old and last != old:
        head = await commit(ctx, resource, last, head.revision)
        last = await from_stored(ctx, resource, head)
    try:
        await remove(ctx, resource, {**last, "metadata": dict(last["metadata"])}, head.revision)
    except Conflict:
        # Another write has seen the mark and deleted the object, which nothing held any more.
        if last is old or not _is_gone(ctx, resource, last):
            raise
    return last


def _is_gone(ctx: Context, resource: ServedResource, last: Object) -> bool:
    metadata = last["metadata"]
    key = object_key(metadata.get("namespace", ""), metadata["name"])
    head = ctx.cluster.store.head(ctx.cluster.name, resource.storage, key)
    return head is None or shared(head)["metadata"]["uid"] != metadata["uid"]


def _check_preconditions(resource: ServedResource, old: Object, options: DeleteOptions) -> None:
    meta = old["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.precondition_failed(resource, meta["name"], text)
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
        raise errors.precondition_failed(resource, meta["name"], text)


def _marked(ctx: Context, resource: ServedResource, old: Object, options: DeleteOptions) -> Object:
    """The object with deletionTimestamp and the finalizers of the propagation policy."""
    marked: Object = orjson.loads(orjson.dumps(old))
    meta = marked["metadata"]
    _set_policy_finalizer(meta, options.policy or _default_policy(resource, meta))
    grace = _grace(resource, old, options)
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = format_time(ctx.cluster.clock() + timedelta(seconds=grace))
        if resource.strategy.mark_deleted(ctx, marked):
            return marked
        meta["deletionGracePeriodSeconds"] = grace
        if resource.tracks_generation:
            meta["generation"] = meta.get("generation", 0) + 1
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionTimestamp"] = format_time(ctx.cluster.clock() + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
    return marked


def _default_policy(resource: ServedResource, meta: Object) -> str:
    decided = set(_FINALIZER.values()) & set(meta.get("finalizers") or ())
    return "Orphan" if resource.orphans_by_default and not decided else ""


def _set_policy_finalizer(meta: Object, policy: str) -> None:
    if not policy and not meta.get("deletionTimestamp"):
        return
    policy_finalizer = _FINALIZER.get(policy)
    kept = [f for f in meta.get("finalizers", ()) if f not in _FINALIZER.values() or f == policy_finalizer or (not policy)]
    if policy_finalizer and policy_finalizer not in kept:
        kept.append(policy_finalizer)
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)


def _grace(resource: ServedResource, old: Object, options: DeleteOptions) -> int:
    """The grace period: only pods that are bound to a node have one."""
    if resource.storage != _GRACEFUL_RESOURCE or not old.get("spec", {}).get("nodeName"):
        return 0
    if old.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace is not None:
        return options.grace if options.grace >= 0 else _MIN_GRACE
    return int(old["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


async def delete_collection(ctx: Context, resource: ServedResource) -> Response:
    format = negotiate(ctx.accept)
    options = await ctx.run_in_worker(delete_options, ctx) if ctx.is_large() else delete_options(ctx)
    selection = list_options(ctx.query, watch=False)
    page = await read_page(ctx, resource, selection, build_filter(resource, selection))
    for entry in page.entries:
        namespace, _, name = entry.key.rpartition("/")
        try:
            await delete_object(ctx, resource, namespace, name, options)
        except errors.ApiError as error:
            if error.reason != "NotFound":
                raise
    # The answer shows the selected objects as they were listed.
    meta = list_metadata(page.revision, page.continuation, page.remaining, resource.is_custom and not format.transform)
    return respond_list(ctx, resource, page.entries, await present_all(resource, page.entries), meta, format)
