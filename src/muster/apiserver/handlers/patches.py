"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.

Each type of patch only defines how the new object is computed from the current one; the result is processed like any update. Apply
differs in two ways: it creates missing objects, and it sets managedFields itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from muster.apiserver import errors
from muster.apiserver.bodies import decode_patched, decode_yaml
from muster.apiserver.context import Context
from muster.apiserver.decode.depth import EXCEEDED, may_be_deep, patch_may_deepen, too_deep
from muster.apiserver.decode.from_unstructured import from_unstructured_problem
from muster.apiserver.decode.jsonsyntax import syntax_problem
from muster.apiserver.decode.strict import json_kind
from muster.apiserver.handlers.managed_fields import keep_managed_fields, other_versions, reset_fields
from muster.apiserver.handlers.patch_messages import format_result
from muster.apiserver.handlers.writes import WriteResult, check_name, create_object, respond_write, update_object
from muster.apiserver.presentation.negotiation import media_type, negotiate
from muster.apiserver.registry.patch_types import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
)
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import WriteOptions, write_options
from muster.http import Response
from muster.kube.fieldmanager.apply import ApplyConflict, ApplyFailed, InvalidApply, apply
from muster.kube.patching.jsonpatch import PatchError, TooManyOperations, apply_json_patch, check_operations
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.kube.patching.strategic import StrategicPatchError, apply_strategic_merge
from muster.machinery.golang.json import make_numbers_whole
from muster.machinery.objects import Object

_REJECTED = "the server rejected our request due to an error in our request"


async def patch(ctx: Context, resource: ServedResource, name: str) -> Response:
    negotiate(ctx.accept)
    media = media_type(ctx.request.headers.get("content-type") or "")
    supported = resource.strategy.patch_types
    if media not in supported:
        raise errors.unsupported_media_type(", ".join(supported)) if resource.is_custom else errors.unsupported_patch()
    if media == APPLY_PATCH:
        return await _apply(ctx, resource, name)
    options = write_options(ctx.query, "PatchOptions")
    raw = ctx.request.body
    body = await ctx.run_in_worker(decode_patch, media, raw) if ctx.is_large() else decode_patch(media, raw)
    change = _plain_change(ctx, resource, name, media, body, options)
    return await respond_write(ctx, resource, await update_object(ctx, resource, name, change, options))


def decode_patch(media: str, raw: bytes) -> Any:
    """The decoded body of a patch other than apply; an invalid one is rejected with the message of upstream's decoder."""
    prefix = "" if media == STRATEGIC_PATCH else "error decoding patch: "
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise errors.bad_request(prefix + syntax_problem(raw)) from None
    if may_be_deep(raw) and too_deep(body):
        raise errors.bad_request(prefix + EXCEEDED)
    if body is None:
        if media == MERGE_PATCH:
            raise errors.bad_request("Invalid JSON Patch")
        return [] if media == JSON_PATCH else {}
    if media == JSON_PATCH and isinstance(body, list):
        _check_operations(body)
    elif media == JSON_PATCH or not isinstance(body, dict):
        go_type = "[]handlers.jsonPatchOp" if media == JSON_PATCH else "map[string]interface {}"
        raise errors.bad_request(f"{prefix}json: cannot unmarshal {json_kind(body)} into Go value of type {go_type}")
    return body


def _check_operations(body: list[Any]) -> None:
    for operation in body:
        if not isinstance(operation, dict):
            problem = f"json: cannot unmarshal {json_kind(operation)} into Go value of type handlers.jsonPatchOp"
            raise errors.bad_request(f"error decoding patch: {problem}")
    try:
        check_operations(body)
    except TooManyOperations as error:
        raise errors.too_large(str(error)) from None


def patch_object(media: str, old: Object, body: Any, resource: ServedResource) -> Object:
    """Apply a patch other than server-side apply to an object. Raises ApiError if it cannot be applied."""
    try:
        if media == JSON_PATCH:
            new = apply_json_patch(old, body)
        elif media == MERGE_PATCH:
            new = apply_merge_patch(old, body)
        else:
            make_numbers_whole(body)
            new = apply_strategic_merge(old, body, resource.schema)
    except PatchError:
        raise errors.ApiError(422, "Invalid", _REJECTED, {}) from None
    except StrategicPatchError as error:
        raise _strategic_error(error) from None
    if not isinstance(new, dict):
        raise errors.ApiError(422, "Invalid", _REJECTED, {})
    return new


def _plain_change(
    ctx: Context, resource: ServedResource, name: str, media: str, body: Any, options: WriteOptions
) -> Callable[[Object], Object]:
    may_deepen = media == JSON_PATCH and patch_may_deepen(ctx.request.body)

    def change(old: Object) -> Object:
        result = patch_object(media, old, body, resource)
        if may_deepen and too_deep(result):
            raise errors.ApiError(422, "Invalid", _REJECTED, {})
        if media != STRATEGIC_PATCH and not resource.is_custom:
            _check_type(media, resource, result, body)
        before = orjson.dumps(result)  # Decoding works in place, and an error shows the document before it.
        try:
            new = decode_patched(ctx, resource, result, options)
        except errors.CannotDecode as error:
            document = orjson.loads(before)
            problem = from_unstructured_problem(document, resource.schema) if media == STRATEGIC_PATCH else ""
            raise errors.invalid_patch_result(format_result(media, document, body), problem or error.problem) from None
        check_name(new["metadata"].get("name"), name)
        return new

    return change


def _check_type(media: str, resource: ServedResource, result: Object, body: Any) -> None:
    """Reject a patch that changes kind or apiVersion. A strategic merge patch cannot: it works on the type, not on the document."""
    kind, version = str(result.get("kind", "")), str(result.get("apiVersion", ""))
    if (kind, version) != (resource.kind, resource.api_version):
        raise errors.invalid_patch_result(format_result(media, result, body), errors.not_registered(kind, version))


def _strategic_error(error: StrategicPatchError) -> errors.ApiError:
    if error.code == 400:
        return errors.bad_request(str(error))
    if error.code == 422:
        return errors.ApiError(422, "Invalid", _REJECTED, {})
    return errors.ApiError(error.code, "", str(error))


async def _apply(ctx: Context, resource: ServedResource, name: str) -> Response:
    options = write_options(ctx.query, "PatchOptions", apply=True)
    raw = ctx.request.body
    applied = await ctx.run_in_worker(decode_yaml, raw) if ctx.is_large() else decode_yaml(raw)
    _check_applied(ctx, resource, name, applied)

    def change(old: Object) -> Object:
        return _apply_to(ctx, resource, old, applied, options)

    async def create() -> WriteResult:
        return await _apply_new(ctx, resource, name, applied, options)

    written = await update_object(
        ctx, resource, name, change, options, track=keep_managed_fields, create=None if ctx.subresource else create
    )
    return await respond_write(ctx, resource, written)


def _check_applied(ctx: Context, resource: ServedResource, name: str, applied: Object) -> None:
    meta = applied.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise errors.bad_request("metadata must be an object")
    kind, version = applied.get("kind"), applied.get("apiVersion")
    if not kind or not version:
        raise errors.bad_request(f"invalid object type: /{version or ''}, Kind={kind or ''}")
    if version != resource.api_version or kind != resource.kind:
        group, _, number = str(version).rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{number}, Kind={kind}")
    check_name(meta.get("name"), name)
    if resource.namespaced and meta.get("namespace", ctx.attributes.namespace) != ctx.attributes.namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")


async def _apply_new(ctx: Context, resource: ServedResource, name: str, applied: Object, options: WriteOptions) -> WriteResult:
    if applied["metadata"].get("uid"):
        text = f"uid mismatch: the provided object specified uid {applied['metadata']['uid']}, and no existing object was found"
        raise errors.conflict(resource, name, text)
    arguments = (ctx, resource, None, applied, options)
    obj = await ctx.run_in_worker(_apply_to, *arguments) if ctx.is_large() else _apply_to(*arguments)
    return await create_object(ctx, resource, obj, options, keep_managed_fields)


def _apply_to(ctx: Context, resource: ServedResource, old: Object | None, applied: Object, options: WriteOptions) -> Object:
    return decode_patched(ctx, resource, _merge_applied(ctx, resource, old, applied, options), options)


def _merge_applied(ctx: Context, resource: ServedResource, live: Object | None, applied: Object, options: WriteOptions) -> Object:
    try:
        merged, managed = apply(
            live,
            applied,
            resource.schema,
            manager=options.field_manager,
            api_version=resource.api_version,
            now=ctx.now(),
            force=bool(options.force),
            subresource=ctx.subresource,
            reset=reset_fields(resource, ctx.subresource),
            empty=resource.strategy.empty(),
            convert=other_versions(ctx, resource),
        )
    except ApplyConflict as conflict:
        raise _conflict_error(conflict) from None
    except InvalidApply as error:
        raise errors.bad_request(str(error)) from None
    except ApplyFailed as error:
        raise errors.ApiError(500, "", str(error)) from None
    merged["metadata"] = {**merged["metadata"], "managedFields": managed}
    if resource.namespaced:
        merged["metadata"]["namespace"] = ctx.attributes.namespace
    return merged


def _conflict_error(conflict: ApplyConflict) -> errors.ApiError:
    causes = [{"reason": "FieldManagerConflict", "message": text, "field": path} for text, path in conflict.causes]
    return errors.ApiError(409, "Conflict", str(conflict), {"causes": causes})
