"""What can be read of an object that does not have the shape of its kind.

A controller must be able to decide on a cluster, and to remove it, whatever the cluster's agent wrote. So where an object cannot
be read as a whole, the parts that its kind marks as tolerant (`TypedObject.tolerant`, the status of every kind) are read field by
field: a whole float counts as an integer, `null` as absent, and what still does not fit is left out, a field or an element of a
list at a time. A field that is left out has its default; a record without one of its required fields is left out itself. All
other parts are read strictly: leaving out what cannot be read could give a spec another meaning.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

_UNFIT: Final = object()
_INT64: Final = 2.0**63
PROBLEMS_NAMED: Final = 5
"""So many parts that were left out are named; the others are counted."""


def salvaged(
    cls: type[msgspec.Struct], document: dict[str, Any], tolerant: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The document without what does not fit in its tolerant parts, and what that was."""
    unread: list[str] = []
    result = dict(document)
    hints = _hints(cls)
    for part in tolerant:
        if part not in result:
            continue
        value = _fit(hints[part], result[part], part, unread)
        if value is _UNFIT:
            del result[part]
        else:
            result[part] = value
    more = len(unread) - PROBLEMS_NAMED
    return result, (*unread[:PROBLEMS_NAMED], *((f"and {more} more",) if more > 0 else ()))


@cache
def _hints(cls: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The types of a record's fields by their names on the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(cls)}


@cache
def _required(cls: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(cls) if field.required)


def _fit(hint: Any, value: Any, path: str, unread: list[str]) -> Any:
    """The value as its type has it; `_UNFIT` when nothing of it is, which `unread` then says."""
    if value is None:
        return _UNFIT
    if get_origin(hint) is Annotated:
        return _fit(get_args(hint)[0], value, path, unread)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if isinstance(value, dict):
            return _fit_record(hint, value, path, unread)
    elif get_origin(hint) is tuple:
        if isinstance(value, list):
            item = get_args(hint)[0]
            fitted = [_fit(item, one, f"{path}[{index}]", unread) for index, one in enumerate(value)]
            return [one for one in fitted if one is not _UNFIT]
    elif isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        if isinstance(value, dict):
            item = get_args(hint)[1]
            values = {name: _fit(item, one, f"{path}[{name!r}]", unread) for name, one in value.items()}
            return {name: one for name, one in values.items() if one is not _UNFIT}
    elif get_origin(hint) in (Union, types.UnionType):
        return _fit_union(hint, value, path, unread)
    else:
        return _fit_scalar(hint, value, path, unread)
    unread.append(path)
    return _UNFIT


def _fit_record(cls: type[msgspec.Struct], value: dict[str, Any], path: str, unread: list[str]) -> Any:
    result = dict(value)
    for name, hint in _hints(cls).items():
        if name not in result:
            continue
        fitted = _fit(hint, result[name], f"{path}.{name}", unread)
        if fitted is _UNFIT:
            del result[name]
        else:
            result[name] = fitted
    missing = _required(cls) - result.keys()
    if missing:
        unread.append(f"{path} (without {', '.join(sorted(missing))})")
        return _UNFIT
    return result


def _fit_union(hint: Any, value: Any, path: str, unread: list[str]) -> Any:
    for choice in get_args(hint):
        tried: list[str] = []
        fitted = _fit(choice, value, path, tried)
        if fitted is not _UNFIT:
            unread += tried
            return fitted
    unread.append(path)
    return _UNFIT


def _fit_scalar(hint: Any, value: Any, path: str, unread: list[str]) -> Any:
    if hint is msgspec.Raw:
        return value
    if hint is int and isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
        return int(value)
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        unread.append(path)
        return _UNFIT
    return value
