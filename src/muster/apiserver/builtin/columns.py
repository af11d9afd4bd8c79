"""Table columns of the built-in kinds: the generated definitions with the functions that compute the cells.

Kinds without a printer of their own (roles, limit ranges, CRDs …) show name and creation time.
"""

from __future__ import annotations

from typing import Any, Final

from muster.apiserver.builtin.cells import CELLS, Cell
from muster.apiserver.registry import builtin_types
from muster.apiserver.registry.resource import Column
from muster.machinery.objects import Object

_PRINTER_NAMES: Final = {"MutatingWebhookConfiguration": "MutatingWebhook", "ValidatingWebhookConfiguration": "ValidatingWebhook"}
_CREATED: Final = ".metadata.creationTimestamp"
_API_SERVICE: Final = ("Service", "Available")


def _name(obj: Object) -> Any:
    return obj["metadata"].get("name", "")


def _created(obj: Object) -> Any:
    return obj["metadata"].get("creationTimestamp")


def _cell(kind: str, name: str) -> Cell:
    cells = CELLS.get(kind, {})
    if name in cells:
        return cells[name]
    return {"Name": _name, "Age": _created}[name]


def builtin_columns() -> dict[str, tuple[Column, ...]]:
    """Kind → columns, for all kinds with a printer; others have `DEFAULT`."""
    printers = builtin_types.columns()
    name, age = printers["ConfigMap"][0], printers["ConfigMap"][-1]
    service = [{"name": title, "type": "string"} for title in _API_SERVICE]
    found = {"APIService": _columns("APIService", [name, *service, age])}
    for kind in CELLS:
        if kind not in found:
            found[kind] = _columns(kind, printers[_PRINTER_NAMES.get(kind, kind)])
    found["ServiceAccount"] = _columns("ServiceAccount", printers["ServiceAccount"])
    found[DEFAULT] = (
        Column("Name", format="name", render=_name),
        Column("Created At", type="date", render=_created),
    )
    return found


DEFAULT: Final = ""


def _columns(kind: str, definitions: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(
        Column(
            name=row["name"],
            type=row["type"],
            format=row.get("format", ""),
            priority=row.get("priority", 0),
            path=_CREATED if row["name"] == "Age" else "",
            render=_cell(kind, row["name"]),
        )
        for row in definitions
    )
