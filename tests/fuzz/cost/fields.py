"""Every list and map of every built-in kind, grown: what is checked item by item must not be checked against all others.

The fields are found in the layouts of the Go types, so a new kind is attacked as soon as it is served. A pod's specification is
grown once, in a Pod, and not again in every kind that has a template of one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode.layouts import Layout, TypeExpr, definition_of, layout
from muster.apiserver.registry.resource import ServedResource
from tests.fuzz.cost.case import DRY, HOLE, Asked, Case, around, filled, in_list, in_map, namespaced
from tests.fuzz.seeds import SEEDS

_DEEPEST = 5
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"
_EMPTY: dict[str, Any] = {"struct": {}, "string": ""}
_SCALARS: dict[str, Any] = {"string": "a", "bool": True, "bytes": "AAAA"}
_NUMBERS = frozenset({"int", "int32", "int64", "float64"})
_SPECIAL: dict[str, Any] = {
    "Time": "2026-11-15T10:00:00Z",
    "MicroTime": "2026-11-15T10:00:00.000000Z",
    "Duration": "1s",
    "Quantity": "1",
    "IntOrString": 1,
    "ExtraValue": ["a"],
    "Verbs": ["get"],
}
Path = tuple[str | int, ...]


def _sample(expr: TypeExpr, number: int, depth: int = 0) -> Any:
    """A small value of a type; strings tell the number."""
    if expr.kind == "string":
        return f"a{number}"
    if expr.kind in _SCALARS:
        return _SCALARS[expr.kind]
    if expr.kind in _NUMBERS:
        return 1 + number % 60_000
    if expr.kind == "special":
        return _SPECIAL.get(expr.name.rsplit(".", 1)[-1], {})
    if expr.kind in ("list", "map"):
        return [] if expr.kind == "list" else {}
    fields = layout(expr.name).json_fields
    return {
        name: _sample(field.type, number, depth + 1)
        for name, field in list(fields.items())[:4]
        if field.type.kind not in ("list", "map") and (depth < 1 or field.type.kind == "string") and field.type.kind != "struct"
    }


def _growing(of: Layout, path: Path, seen: set[str], is_pod: bool) -> Iterator[tuple[Path, TypeExpr]]:
    """The lists and maps in a type, each by the way to it; a type that was seen before is left out."""
    if len(path) > _DEEPEST or of.name in seen:
        return
    seen.add(of.name)
    for name, field in of.json_fields.items():
        here = (*path, name)
        kind, expr = field.type.kind, field.type
        if kind == "struct" and not (expr.name == _POD_SPEC and not is_pod) and not expr.go.endswith("ObjectMeta"):
            yield from _growing(layout(expr.name), here, seen, is_pod)
        elif kind in ("list", "map") and expr.item is not None:
            yield here, expr
            if kind == "list" and expr.item.kind == "struct":
                yield from _growing(layout(expr.item.name), (*here, 0), seen, is_pod)


def _placed(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document with a hole at the path."""
    made = copy.deepcopy(document)
    node: Any = made
    for step, following in pairwise(path):
        if isinstance(step, int):
            if not node:
                node.append({})
            node = node[0]
            continue
        wanted: type = list if isinstance(following, int) else dict
        if not isinstance(node.get(step), wanted):
            node[step] = wanted()
        node = node[step]
    node[path[-1]] = HOLE
    return made


def _items(expr: TypeExpr, style: str, size: int) -> bytes:
    item = expr.item
    assert item is not None

    def piece(number: int) -> bytes:
        if style == "empty" and item.kind in _EMPTY:
            value = _EMPTY[item.kind]
        else:
            value = _sample(item, number if style != "same" else 0)
        shown = json.dumps(value, separators=(",", ":")).encode()
        return shown if expr.kind == "list" else b'"k%d":%b' % (number, shown)

    body = filled(piece, size)
    return in_list(body) if expr.kind == "list" else in_map(body)


def _case(row: ServedResource, seed: dict[str, Any], path: Path, expr: TypeExpr, style: str) -> Case:
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    where = namespaced(prefix, row.plural) if row.namespaced else f"{prefix}/{row.plural}"
    document = _placed(seed, path)
    name = f"create {row.kind} ({row.api_version}) with {style} items in {'.'.join(map(str, path))}"
    return Case(name, lambda size: Asked("POST", where, around(document, _items(expr, style, size)), query=DRY))


def _cases() -> Iterator[Case]:
    seen: set[str] = set()
    for row in builtin_resources():
        definition = definition_of(row.group, row.version, row.kind)
        if definition is None or "create" not in row.verbs:
            continue
        seed = copy.deepcopy((SEEDS.get(row.plural) or [{}])[0])
        seed |= {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": "grown"}}
        for path, expr in _growing(layout(definition), (), seen, row.kind == "Pod"):
            if path[0] == "status":
                continue
            styles = ["different"]
            if expr.kind == "list" and expr.item is not None:
                styles += {"struct": ["empty"], "string": ["same", "empty"]}.get(expr.item.kind, ["same"])
            for style in styles:
                yield _case(row, seed, path, expr, style)


FIELDS: list[Case] = list(_cases())
