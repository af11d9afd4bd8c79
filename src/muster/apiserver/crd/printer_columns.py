"""Table columns of custom resources: the name, then the printer columns of the CRD, or the age if it defines none.

A cell is the first value that the JSONPath finds, formatted by the type of the column; a value of another type is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.apiserver.registry.resource import Column
from muster.kube.jsonpath import JSONPath, JSONPathError, compile_path
from muster.machinery.golang import formatting
from muster.machinery.golang.json import encode_json
from muster.machinery.objects import Object

Raw = Mapping[str, Any]
_AGE: Final[Raw] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def table_columns(columns: Sequence[Raw] | None) -> tuple[Column, ...]:
    shown = [Column("Name", format="name", render=lambda obj: obj["metadata"].get("name", ""))]
    for column in columns or [_AGE]:
        path = column["jsonPath"]
        shown.append(
            Column(
                name=column["name"],
                type=column["type"],
                format=column.get("format") or "",
                description=column.get("description") or "",
                priority=column.get("priority") or 0,
                path=path,
                render=_cell(path, column["type"]),
            )
        )
    return tuple(shown)


def _cell(path: str, kind: str) -> Callable[[Object], Any]:
    try:
        compiled: JSONPath | None = compile_path(path)
    except JSONPathError:
        compiled = None
    format_value = _FORMATTERS.get(kind, _nothing)

    def read(obj: Object) -> Any:
        if compiled is None:
            return None
        try:
            found = compiled.find(obj)
        except JSONPathError:
            return None
        return format_value(found[0]) if found else None

    return read


def _nothing(value: Any) -> Any:
    return None


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return encode_json(value)
    return "<nil>" if value is None else formatting.text(value)


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_FORMATTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
