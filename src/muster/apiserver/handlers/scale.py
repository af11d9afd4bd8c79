"""The scale subresource: an `autoscaling/v1 Scale` object for the replicas of anything that can be scaled.

Built-in kinds and custom resources differ only in their JSONPaths. A write of the Scale changes the replicas of the parent and is
tracked under the subresource `scale`, so that an autoscaler and an applier can manage the same workload.
"""

from __future__ import annotations

from muster.apiserver import errors
from muster.apiserver.bodies import decode_body, decode_patched
from muster.apiserver.builtin.strategy import request_type
from muster.apiserver.context import Context
from muster.apiserver.handlers.managed_fields import track_managed_fields
from muster.apiserver.handlers.patches import decode_patch, patch_object
from muster.apiserver.handlers.writes import update_object
from muster.apiserver.objects import object_key
from muster.apiserver.presentation.negotiation import media_type, negotiate_object
from muster.apiserver.presentation.responses import respond_object
from muster.apiserver.registry.patch_types import BUILTIN_PATCHES
from muster.apiserver.registry.resource import Scale, ServedResource
from muster.apiserver.request import WriteOptions, write_options
from muster.apiserver.scales import scale_of, set_replicas
from muster.apiserver.storage_versions import from_stored
from muster.http import Response
from muster.kube.fielderrors import invalid
from muster.machinery.objects import Object


async def serve_scale(ctx: Context, resource: ServedResource, name: str) -> Response:
    format = negotiate_object(ctx.accept)
    scale = resource.scale
    if scale is None:
        raise errors.no_such_resource()
    head = ctx.cluster.entry(resource.storage, object_key(ctx.namespace_of(resource), name))
    if head is None:
        raise errors.not_found(resource, name)
    parent = await from_stored(ctx, resource, head)
    if ctx.verb != "get":
        parent = await _write(ctx, resource, scale, name)
    return respond_object(ctx, None, scale_of(scale, parent), 200, format)


async def _write(ctx: Context, resource: ServedResource, scale: Scale, name: str) -> Object:
    row = request_type("autoscaling", "v1", "Scale")
    if ctx.verb == "update":
        options = write_options(ctx.query, "UpdateOptions")
        sent = await decode_body(ctx, row, options)
    else:
        options = write_options(ctx.query, "PatchOptions")
        media = media_type(ctx.request.headers.get("content-type") or "")
        if media not in BUILTIN_PATCHES:
            raise errors.unsupported_patch()
        raw = ctx.request.body
        body = await ctx.run_in_worker(decode_patch, media, raw) if ctx.is_large() else decode_patch(media, raw)

    def change(old: Object) -> Object:
        if ctx.verb == "update":
            new_scale = sent
        else:
            new_scale = decode_patched(ctx, row, patch_object(media, scale_of(scale, old), body, row), options)
        _check_identity(resource, name, new_scale["metadata"], old["metadata"])
        replicas = (new_scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0 and not resource.is_custom:
            problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise errors.invalid("autoscaling", "Scale", name, [problem])
        set_replicas(scale, old, replicas)
        return old

    written = await update_object(ctx, resource, name, change, options, track=_track_without_time)
    if written.entry is not None:
        return await from_stored(ctx, resource, written.entry)
    assert written.obj is not None
    return written.obj


def _check_identity(resource: ServedResource, name: str, meta: Object, parent: Object) -> None:
    """Reject a Scale with the name, uid or resourceVersion of another object."""
    if meta.get("name", name) != name:
        raise errors.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if meta.get("uid") and meta["uid"] != parent["uid"]:
        text = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {parent['uid']}"
        raise errors.conflict(resource, name, text)
    if meta.get("resourceVersion") and meta["resourceVersion"] != parent["resourceVersion"]:
        raise errors.conflict(resource, name)


def _track_without_time(ctx: Context, resource: ServedResource, old: Object | None, new: Object, options: WriteOptions) -> None:
    """Track without updating times: upstream tracks managers in the Scale and copies only their fields to the parent."""
    track_managed_fields(ctx, resource, old, new, options)
    before = (old or {}).get("metadata", {}).get("managedFields") or ()
    times = {(entry.get("manager"), entry.get("apiVersion")): entry.get("time") for entry in before if _is_scale_entry(entry)}
    for entry in new["metadata"].get("managedFields") or ():
        if _is_scale_entry(entry):
            time = times.get((entry.get("manager"), entry.get("apiVersion")))
            if time is None:
                entry.pop("time", None)
            else:
                entry["time"] = time


def _is_scale_entry(entry: Object) -> bool:
    return entry.get("subresource") == "scale"
