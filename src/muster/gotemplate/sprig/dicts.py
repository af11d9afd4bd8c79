"""sprig's functions on dicts.

`set`, `unset` and `merge` change the dict they are given, as in Go. `keys` and `values` come in insertion order, where
Go's order is random. Merging keeps the rules of the Go library mergo for maps.
"""

from __future__ import annotations

from typing import Any

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.limits import charge
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.sprig.text import strval
from muster.gotemplate.sprig.versions import Version
from muster.gotemplate.values import ANY_MAP, ANY_SLICE, Map, Slice, go_type, is_interface_container
from muster.machinery.golang.errors import GoError

DICTS = FuncTable()
_MAX_NESTING = 200


@DICTS.add("dict", "...any", ANY_MAP)
def dict_(*values: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for at in range(0, len(values), 2):
        key = values[at]
        made[key if key.__class__ is str else strval(key)] = values[at + 1] if at + 1 < len(values) else ""
    return made


@DICTS.add("get", "map, string")
def get(mapping: dict[str, Any], key: str) -> Any:
    return mapping.get(key, "")


@DICTS.add("set", "map, string, any", ANY_MAP)
def set_(mapping: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    if mapping.__class__ is Map:
        raise GoError("assignment to entry in nil map")
    mapping[key] = value
    return mapping


@DICTS.add("unset", "map, string", ANY_MAP)
def unset(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    mapping.pop(key, None)
    return mapping


@DICTS.add("hasKey", "map, string", "bool")
def has_key(mapping: dict[str, Any], key: str) -> bool:
    return key in mapping


@DICTS.add("pluck", "string, ...map", ANY_SLICE)
def pluck(key: str, *mappings: dict[str, Any]) -> list[Any]:
    return [mapping[key] for mapping in mappings if key in mapping]


@DICTS.add("keys", "...map", "[]string")
def keys(*mappings: dict[str, Any]) -> Slice:
    return Slice([key for mapping in mappings for key in mapping], "[]string")


@DICTS.add("values", "map", ANY_SLICE)
def values(mapping: dict[str, Any]) -> list[Any]:
    return list(mapping.values())


@DICTS.add("pick", "map, ...string", ANY_MAP)
def pick(mapping: dict[str, Any], *wanted: str) -> dict[str, Any]:
    return {key: mapping[key] for key in wanted if key in mapping}


@DICTS.add("omit", "map, ...string", ANY_MAP)
def omit(mapping: dict[str, Any], *unwanted: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in unwanted}


def _conversion_error(value: Any, wanted: str) -> GoError:
    found = "nil" if value is None else go_type(value)
    return GoError(f"interface conversion: interface {{}} is {found}, not {wanted}")


def _as_map(value: Any) -> dict[str, Any]:
    if value.__class__ is not dict and go_type(value) != ANY_MAP:
        raise _conversion_error(value, ANY_MAP)
    return value  # type: ignore[no-any-return]


@DICTS.add("dig", "...any")
def dig(*params: Any) -> Any:
    if len(params) < 3:
        raise GoError("dig needs at least three arguments")
    *path, fallback, value = params
    mapping = _as_map(value)
    for key in path:
        if not isinstance(key, str):
            raise _conversion_error(key, "string")
    for key in path[:-1]:
        if key not in mapping:
            return fallback
        mapping = _as_map(mapping[key])
    return mapping.get(path[-1], fallback)


# Merging


def _set(target: dict[Any, Any], key: Any, value: Any, from_interface: bool) -> None:
    if not is_interface_container(target) and from_interface:
        wanted = go_type(target).partition("]")[2]
        raise GoError(f"reflect.Value.SetMapIndex: value of type interface {{}} is not assignable to type {wanted}")
    target[key] = value


def _merge_into(target: dict[Any, Any], source: dict[Any, Any], overwrite: bool, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise LimitExceeded("the dicts to merge are nested too deeply")
    charge(len(source) + 1)
    from_interface = is_interface_container(source)
    for key, value in list(source.items()):
        if value is None:
            if overwrite:
                _set(target, key, None, from_interface)
            continue
        present = key in target
        existing = target.get(key)
        if isinstance(value, dict) and isinstance(existing, dict) and not (isinstance(existing, Map) and existing.is_nil):
            _merge_into(existing, value, overwrite, depth + 1)
        if existing and (isinstance(value, (list, tuple, bytes)) or (isinstance(value, dict) and isinstance(existing, dict))):
            if overwrite and not isinstance(value, dict):
                _set(target, key, value, from_interface)
            continue
        if overwrite or not present or not existing:
            _set(target, key, value, from_interface)


def _merge(overwrite: bool, target: dict[str, Any], sources: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    for source in sources:
        if target.__class__ is Map:
            if isinstance(source, Map) and source.is_nil:
                continue
            target = {}
        _merge_into(target, source, overwrite, 0)
    return target


@DICTS.add("merge mustMerge", "map, ...map")
def merge(target: dict[str, Any], *sources: dict[str, Any]) -> dict[str, Any]:
    return _merge(False, target, sources)


@DICTS.add("mergeOverwrite mustMergeOverwrite", "map, ...map")
def merge_overwrite(target: dict[str, Any], *sources: dict[str, Any]) -> dict[str, Any]:
    return _merge(True, target, sources)


# Copying


def _copy(value: Any, depth: int) -> Any:
    if depth > _MAX_NESTING:
        raise LimitExceeded("the value to copy is nested too deeply")
    if isinstance(value, dict):
        charge(len(value) + 1)
        items = {key: _copy(item, depth + 1) for key, item in value.items()}
        return Map(items, value.go_type, value.is_nil) if isinstance(value, Map) else items
    if isinstance(value, (list, tuple)):
        charge(len(value) + 1)
        copied = [_copy(item, depth + 1) for item in value]
        return Slice(copied, value.go_type, value.is_nil) if isinstance(value, Slice) else copied
    if isinstance(value, Version):
        # Go's copystructure leaves out private fields, and a version has no others.
        return value.__class__(0, 0, 0, "", "", "")
    return value


@DICTS.add("deepCopy mustDeepCopy", "any")
def deep_copy(value: Any) -> Any:
    if value is None:
        raise GoError("reflect: call of reflect.Value.Type on zero Value")
    return _copy(value, 0)
