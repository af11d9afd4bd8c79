"""The generated data files, each read on first use: schemas, discovery, Go struct layouts, table columns.

They are written by `python -m tools.builtin_data`; `manifest.json` beside them has the Kubernetes version. All together cost a few
milliseconds and megabytes. Descriptions are left out, because they are upstream's prose (`nonresource.descriptions` has ours).
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from muster.kube.schema_node import Definitions

_DATA = Path(__file__).parent / "data"


def _load(name: str) -> Any:
    return orjson.loads(gzip.decompress((_DATA / f"{name}.json.gz").read_bytes()))


@cache
def definitions() -> Definitions:
    """Component schemas of all built-in types by OpenAPI definition name, without descriptions."""
    return Definitions(_load("schemas"))


def discovery_rows() -> list[dict[str, Any]]:
    """Plural, kind, scope, verbs, names and subresources of all served resources, in kube-apiserver's order."""
    rows: list[dict[str, Any]] = _load("resources")
    return rows


def columns() -> dict[str, list[dict[str, Any]]]:
    """Table column definitions by kind."""
    found: dict[str, list[dict[str, Any]]] = _load("columns")
    return found


@cache
def struct_layouts() -> dict[str, Any]:
    """`kinds` ("group/version/kind" → type name), `types` (name → fields) and `exprs` (field types); see tools/builtin_data."""
    found: dict[str, Any] = _load("types")
    return found


@cache
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((_DATA / "manifest.json").read_bytes())
    return found
