"""Validation of the values that a scale subresource reads: replica counts must be int32, the selector a string."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.apiserver.registry.resource import Scale
from muster.kube.fielderrors import FieldError, invalid
from muster.machinery.golang import formatting
from muster.machinery.objects import Object

_MAX: Final = 2**31 - 1


def check_scale(scale: Scale | None, obj: Object, spec: bool = True) -> Iterator[FieldError]:
    """`spec`: whether the count in the spec is checked too; a status write cannot change it."""
    if scale is None:
        return
    if spec:
        yield from _check_count(scale.replicas, obj)
    yield from _check_count(scale.status_replicas, obj)
    if scale.selector:
        _, problem = _read(scale.selector, obj, str, "string")
        if problem:
            yield invalid(scale.selector, "", problem)


def _check_count(path: str, obj: Object) -> Iterator[FieldError]:
    count, problem = _read(path, obj, int, "int64")
    if problem:
        yield invalid(path, 0, problem)
    elif count is not None and count < 0:
        yield invalid(path, count, "should be a non-negative integer")
    elif count is not None and count > _MAX:
        yield invalid(path, count, f"should be less than or equal to {_MAX}")


def _read(path: str, obj: Object, expected: type, word: str) -> tuple[Any, str]:
    """(value at a path or None, problem if it has another type)"""
    keys = path.removeprefix(".").split(".")
    value: Any = obj
    for position, key in enumerate(keys):
        if not isinstance(value, dict):
            return None, _wrong(keys[:position], value, "map[string]interface {}")
        if key not in value:
            return None, ""
        value = value[key]
    if type(value) is not expected:
        return None, _wrong(keys, value, word)
    return value, ""


def _wrong(keys: list[str], value: Any, word: str) -> str:
    where = "." + ".".join(keys)
    return f"{where} accessor error: {formatting.text(value)} is of the type {formatting.type_name(value)}, expected {word}"
