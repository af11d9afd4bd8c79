"""Responses with stored entries: in the requested API version, as JSON, YAML, Table or metadata only.

`present` is the synchronous path for everything that needs no conversion webhook; `present_all` also handles objects that do. A
custom resource that was stored before its schema got a default shows the default when it is read; the re-encoded bytes are cached
on the entry while the same compiled version is served.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson

from muster.apiserver.context import Context
from muster.apiserver.errors import wrong_transform
from muster.apiserver.objects import raw_metadata, view
from muster.apiserver.presentation.negotiation import JSON, YAML, Format
from muster.apiserver.presentation.tables import table_bytes
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.registry.table import ResourceTable
from muster.apiserver.worker import LARGE
from muster.http import Response
from muster.kube.yaml import dump
from muster.machinery.golang import json as gojson
from muster.machinery.objects import Object
from muster.store.api import Entry

NO_CACHE = ("Cache-Control", "no-cache, private")
_USUAL_FIELDS = (NO_CACHE,)
WARNING_TOTAL = 4096
"""Maximum number of characters of all warnings in one answer; above it each is truncated to WARNING_ITEM."""
WARNING_ITEM = 256
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def present(resource: ServedResource, entry: Entry) -> bytes | None:
    """The bytes of the entry in the version of the resource; None if that needs a conversion webhook."""
    strategy = resource.strategy
    if strategy.is_shown_as_stored:
        return entry.value
    seen = view(entry)
    if seen.rendered_for is strategy:
        return seen.rendered or entry.value
    rendered = strategy.present(entry.value)
    if rendered is None:
        return None
    seen.rendered_for = strategy
    seen.rendered = rendered if rendered != entry.value else None
    return rendered


async def present_all(resource: ServedResource, entries: Sequence[Entry]) -> list[bytes]:
    shown = [present(resource, entry) for entry in entries]
    waiting = [index for index, value in enumerate(shown) if value is None]
    if waiting:
        objects = [orjson.loads(entries[index].value) for index in waiting]
        for index, converted in zip(waiting, await resource.strategy.from_storage(objects), strict=True):
            value = gojson.dumps(converted)
            seen = view(entries[index])
            seen.rendered_for, seen.rendered = resource.strategy, value
            shown[index] = value
    return [value for value in shown if value is not None]


def partial_metadata(value: bytes, version: str = "v1") -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (version.encode(), raw_metadata(value))


def list_metadata(revision: int, continuation: str = "", remaining: int | None = None, always_continue: bool = False) -> bytes:
    """`always_continue` adds an empty `continue`, as lists of custom resources have it."""
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if continuation or always_continue:
        meta["continue"] = continuation
    if remaining is not None:
        meta["remainingItemCount"] = remaining
    return orjson.dumps(meta)


def list_body(resource: ServedResource, values: Sequence[bytes], meta: bytes) -> bytes:
    """A list; items of built-in kinds have no kind and apiVersion."""
    if resource.strategy.is_shown_as_stored:
        skip = len(resource.type_prefix)
        items = b",".join([b"{" + value[skip:] for value in values])
    else:
        items = b",".join(values)
    return b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
        resource.list_kind.encode(),
        resource.api_version.encode(),
        meta,
        items,
    )


_MAX_ROWS_ON_LOOP = 5_000
_MAX_CUSTOM_ROWS_ON_LOOP = 1_000
"""Maximum number of rows of a Table that is built on the event loop."""


class DeferredResponse(Response):
    """A response that is expensive to build; the pipeline builds it in the worker thread."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Response]) -> None:
        super().__init__(200, b"")
        self.make = make


def respond_list(
    ctx: Context, resource: ServedResource, entries: Sequence[Entry], values: Sequence[bytes], meta: bytes, format: Format
) -> Response:
    make = partial(_list_response, ctx, resource, entries, values, meta, format)
    return DeferredResponse(make) if _is_expensive(ctx, resource, values, format) else make()


def _is_expensive(ctx: Context, resource: ServedResource, values: Sequence[bytes], format: Format) -> bool:
    """Whether building a list may take more than some 20 ms. Rows of a Table are cheap if their cells are cached."""
    if format.transform == "Table" and not _is_reformatted(ctx, format):
        return len(values) > (_MAX_CUSTOM_ROWS_ON_LOOP if resource.is_custom else _MAX_ROWS_ON_LOOP)
    return (bool(format.transform) or _is_reformatted(ctx, format)) and sum(map(len, values)) > LARGE


def _list_response(
    ctx: Context, resource: ServedResource, entries: Sequence[Entry], values: Sequence[bytes], meta: bytes, format: Format
) -> Response:
    if format.transform == "Table":
        include = ctx.query.get("includeObject")
        body = table_bytes(resource, entries, values, meta, ctx.cluster.clock(), include, format.version)
    elif format.transform:
        if format.transform != "PartialObjectMetadataList":
            raise wrong_transform(format.transform, resource.go_type + "List", is_list=True)
        items = b",".join([partial_metadata(value, format.version) for value in values])
        body = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":%s,"items":[%s]}' % (
            format.version.encode(),
            meta,
            items,
        )
    else:
        body = list_body(resource, values, meta)
    return _response(ctx, 200, body, format)


def respond_entry(ctx: Context, resource: ServedResource, entry: Entry, value: bytes, code: int, format: Format) -> Response:
    """A response with one stored object in the negotiated format."""
    return respond(ctx, code, _transformed(ctx, resource, entry, value, format), format)


def _transformed(ctx: Context, resource: ServedResource, entry: Entry, value: bytes, format: Format) -> bytes:
    if format.transform == "Table":
        meta = b'{"resourceVersion":"%d"}' % entry.revision
        include = ctx.query.get("includeObject")
        return table_bytes(resource, (entry,), (value,), meta, ctx.cluster.clock(), include, format.version)
    if format.transform:
        if format.transform != "PartialObjectMetadata":
            raise wrong_transform(format.transform, resource.go_type, is_list=False)
        return partial_metadata(value, format.version)
    return value


def respond_object(ctx: Context, resource: ServedResource | None, obj: Object, code: int, format: Format) -> Response:
    """A response with an object that is not stored: the result of a dry run, a review, a Status."""
    make = partial(_object_response, ctx, resource, obj, code, format)
    return DeferredResponse(make) if ctx.is_large() else make()


def _object_response(ctx: Context, resource: ServedResource | None, obj: Object, code: int, format: Format) -> Response:
    value = gojson.dumps_in_steps(obj) if ctx.is_large() else gojson.dumps(obj)
    if resource is not None and format.transform and "metadata" in obj:
        entry = Entry("", int(obj["metadata"].get("resourceVersion") or 0), value)
        value = _transformed(ctx, resource, entry, value, format)
    return _response(ctx, code, value, format)


def _is_reformatted(ctx: Context, format: Format) -> bool:
    return format.media == YAML or (bool(ctx.query.values) and ctx.query.flag("pretty"))


def respond(ctx: Context, code: int, body: bytes, format: Format) -> Response:
    if len(body) > LARGE and _is_reformatted(ctx, format):
        return DeferredResponse(partial(_response, ctx, code, body, format))
    return _response(ctx, code, body, format)


def _response(ctx: Context, code: int, body: bytes, format: Format) -> Response:
    media = JSON
    if format.media == YAML:
        body, media = dump(orjson.loads(body)).encode(), YAML
    elif ctx.query.values and ctx.query.flag("pretty"):
        body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
    fields = [NO_CACHE, *warning_fields(ctx.warnings)] if ctx.warnings else _USUAL_FIELDS
    return Response(code, body, fields, media)


def warning_fields(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Warning headers: texts without control characters, truncated if they are too long together."""
    sendable = [text for text in warnings if not _CONTROL.search(text)]
    if sum(map(len, sendable)) > WARNING_TOTAL:
        shorter, sendable = [text[:WARNING_ITEM] for text in sendable], []
        for text in shorter:
            if sum(map(len, sendable)) >= WARNING_TOTAL:
                break
            sendable.append(text)
    return [("Warning", f"299 - {_quoted(text)}") for text in sendable]


def _quoted(text: str) -> str:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return quoted.encode("utf-8", "replace").decode("latin-1")  # Header fields are latin-1 strings here, with the bytes of UTF-8.


def row_for(table: ResourceTable, resource: ServedResource) -> ServedResource:
    """The row of the storage version of the same resource; for most resources itself."""
    return table.by_storage(resource.storage) or resource
