"""Validation of `additionalPrinterColumns` of a CRD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.kube.fielderrors import FieldError, invalid, required

Raw = Mapping[str, Any]
_TYPES: Final = "boolean,date,integer,number,string"
_FORMATS: Final = "byte,date,date-time,double,float,int32,int64,password"


def check_columns(columns: list[Raw] | None, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns or ()):
        field = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{field}.name")
        kind = column.get("type") or ""
        if not kind:
            yield required(f"{field}.type", f"must be one of {_TYPES}")
        elif kind not in _TYPES.split(","):
            yield invalid(f"{field}.type", kind, f"must be one of {_TYPES}")
        if column.get("format") and column["format"] not in _FORMATS.split(","):
            yield invalid(f"{field}.format", column["format"], f"must be one of {_FORMATS}")
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required(f"{field}.JSONPath")
        elif not json_path.startswith("."):
            yield invalid(f"{field}.JSONPath", json_path, "must be a simple json path starting with .")
