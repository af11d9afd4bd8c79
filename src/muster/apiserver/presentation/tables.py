"""Tables, which `kubectl get` shows. Cells are computed once per entry and cached as encoded bytes; only ages, which change with
time, are rendered per request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from muster.apiserver.builtin.cells import Live
from muster.apiserver.errors import unknown_include_object
from muster.apiserver.objects import raw_metadata, view
from muster.apiserver.registry.resource import Column, ServedResource
from muster.machinery.golang.durations import human_duration
from muster.machinery.memo import memoized
from muster.machinery.objects import Object
from muster.store.api import Entry


def definitions(columns: Sequence[Column]) -> bytes:
    return orjson.dumps(
        [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in columns
        ]
    )


class _Age:
    """A cell with an age: rendered from its timestamp per answer, once for all rows that share it."""

    __slots__ = ("_rendered", "since")

    def __init__(self, since: datetime | None) -> None:
        self.since = since
        self._rendered: tuple[datetime | None, bytes] = (None, b"")

    def render(self, now: datetime) -> bytes:
        moment, text = self._rendered
        if moment is not now:
            text = b'"<unknown>"' if self.since is None else b'"%s"' % human_duration((now - self.since).total_seconds()).encode()
            self._rendered = (now, text)
        return text


@memoized(4096)
def _age(text: str) -> _Age:
    try:
        return _Age(datetime.fromisoformat(text).astimezone(UTC))
    except ValueError:
        return _Age(None)


_CREATED = ".metadata.creationTimestamp"


def _cells(columns: Sequence[Column], obj: Object) -> tuple[bytes | _Age | Live, ...]:
    """The encoded cells; adjacent constant cells are joined, so that most rows are one or two pieces."""
    pieces: list[bytes | _Age | Live] = []
    constant: list[bytes] = []
    for column in columns:
        value = column.render(obj) if column.render is not None else _path_value(column, obj)
        is_age = column.path == _CREATED or (bool(column.path) and column.type == "date" and value is not None)
        if is_age or isinstance(value, Live):
            if constant:
                pieces.append(b",".join(constant))
                constant = []
            if isinstance(value, Live):
                pieces.append(value)
            else:
                pieces.append(_age(value if isinstance(value, str) else ""))
        else:
            constant.append(orjson.dumps(value))
    if constant:
        pieces.append(b",".join(constant))
    return tuple(pieces)


def _path_value(column: Column, obj: Object) -> Any:
    from muster.kube.jsonpath import compile_path

    found = compile_path(column.path).find(obj)
    return found[0] if found else None


def _row_cells(columns: Sequence[Column], entry: Entry, value: bytes, now: datetime) -> bytes:
    seen = view(entry)
    cached = seen.cells
    if cached is None or cached[0] is not columns:
        obj = seen.object if seen.object is not None and value is entry.value else orjson.loads(value)
        cached = seen.cells = (columns, _cells(columns, obj))
    return b",".join([piece if isinstance(piece, bytes) else piece.render(now) for piece in cached[1]])


def check_include_object(include: str) -> None:
    if include not in ("", "None", "Metadata", "Object"):
        raise unknown_include_object(include)


def table_bytes(
    resource: ServedResource,
    entries: Sequence[Entry],
    values: Sequence[bytes],
    meta: bytes,
    now: datetime,
    include: str = "",
    version: str = "v1",
    headers: bool = True,
) -> bytes:
    """A Table of the entries; `include` is None, Metadata (default) or Object."""
    check_include_object(include)
    columns = resource.columns
    partial = b'"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":' % version.encode()
    rows = []
    for entry, value in zip(entries, values, strict=True):
        cells = _row_cells(columns, entry, value, now)
        if include == "None":
            rows.append(b'{"cells":[%s],"object":null}' % cells)
        elif include == "Object":
            rows.append(b'{"cells":[%s],"object":%s}' % (cells, value))
        else:
            rows.append(b'{"cells":[%s],%s%s}}' % (cells, partial, raw_metadata(value)))
    return b'{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":[%s]}' % (
        version.encode(),
        meta,
        definitions(columns) if headers else b"null",
        b",".join(rows),
    )
