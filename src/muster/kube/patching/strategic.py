"""Strategic merge patch: a merge patch in which some lists are merged by key. Follows apimachinery's `strategicpatch`.

The schema's patch strategies determine the merge of a field present on both sides: maps merge (unless the strategy is `replace`),
lists are replaced unless the strategy is `merge`, then lists of objects merge by their key and lists of scalars are united.
Directives in the patch change that: `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/f` and
`$setElementOrder/f`. If items of both sides are merged, the patch's items keep the patch's order and come before unrelated ones of
the server, which keep theirs. Neither argument is changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster.kube.schema_node import Schema
from muster.machinery.golang import formatting
from muster.machinery.golang.quoting import quote

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_ITEMS: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"


class StrategicPatchError(ValueError):
    """The patch does not apply. `code` is the HTTP status the API answers with."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


def _bad_format(what: str) -> StrategicPatchError:
    return StrategicPatchError(f"invalid patch format of {what}", 400)


def _no_merge_key(item: dict[str, Any], key: str) -> StrategicPatchError:
    return StrategicPatchError(f"map: {formatting.text(item)} does not contain declared merge key: {key}")


def _wrong_type(expected: str, value: Any) -> StrategicPatchError:
    received = "%!s(<nil>)" if value is None else formatting.type_name(value)
    return StrategicPatchError(f"expected a {expected}, but received a {received}")


def apply_strategic_merge(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Raises StrategicPatchError."""
    return _merge_maps(original, patch, schema)


# Schema ------------------------------------------------------------------------------------------------------------------------


class _Field:
    """How a field merges, and the schema of its content (of its items, for a list)."""

    __slots__ = ("content", "key", "strategy")

    def __init__(self, strategy: str, key: str, content: Schema | None) -> None:
        self.strategy = strategy
        self.key = key
        self.content = content


def _look_up(schema: Schema | None, name: str) -> _Field:
    if schema is None or schema.additional is not None:
        raise StrategicPatchError("merging an object in json but data type is not struct, instead is: map")
    child = schema.properties.get(name)
    if child is None:
        folded = name.lower()
        child = next((found for known, found in schema.properties.items() if known.lower() == folded), None)
    if child is None:
        struct = schema.name.rpartition(".")[2]
        raise StrategicPatchError(f"unable to find api field in struct {struct} for the json field {quote(name)}")
    strategies = [strategy for strategy in child.patch_strategies if strategy != "retainKeys"]
    if len(strategies) > 1:
        raise StrategicPatchError(f"unexpected patch strategy: {formatting.text(list(child.patch_strategies))}")
    return _Field(strategies[0] if strategies else "", child.patch_merge_key, child)


def _look_up_list(schema: Schema | None, name: str) -> _Field:
    field = _look_up(schema, name)
    assert field.content is not None
    if field.content.type != "array":
        raise StrategicPatchError("expected slice or array type, but got: struct")
    return _Field(field.strategy, field.key, field.content.items)


# Maps ------------------------------------------------------------------------------------------------------------------------


def _merge_maps(original: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise StrategicPatchError(f"unknown patch type: {formatting.text(directive)} in map: {formatting.text(patch)}")
    merged = _retained(original, patch)
    patch = {key: value for key, value in patch.items() if key != _RETAIN_KEYS}
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_in_order(merged, patch, key, schema)
    for key, value in patch.items():
        deletes_items = key.startswith(_DELETE_ITEMS)
        name = _named_by(key, _DELETE_ITEMS) if deletes_items else key
        if value is None:
            merged.pop(name, None)
            continue
        found: Any = merged.get(name)
        if name not in merged or not _same_type(found, value):
            if not deletes_items:
                _put(merged, name, _without_nulls(value))
        elif isinstance(value, dict):
            field = _look_up(schema, name)
            merged[name] = value if field.strategy == "replace" else _merge_maps(found, value, field.content)
        elif isinstance(value, list):
            field = _look_up_list(schema, name)
            if deletes_items or field.strategy == "merge":
                merged[name] = _merge_lists(found, value, field, deletes_items)
            else:
                merged[name] = value
        else:
            merged[name] = value
    return merged


def _same_type(left: Any, right: Any) -> bool:
    return type(left) is type(right)


def _put(merged: dict[str, Any], name: str, value: Any) -> None:
    """Sets a field the original lacks: the patch's value without its directives, if anything is left."""
    kept, keep = _without_directives(value)
    if keep:
        merged[name] = kept
    else:
        merged.pop(name, None)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Maps with a `$patch` directive vanish, as map values and as list items."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        cleaned = ((key, _without_directives(item)) for key, item in value.items())
        return {key: item for key, (item, keep) in cleaned if keep}, True
    if isinstance(value, list):
        return [item for item, keep in map(_without_directives, value) if keep], True
    return value, True


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _retained(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A copy of the original, limited to the keys the patch lists; the patch may set no others."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    listed = patch[_RETAIN_KEYS]
    if not isinstance(listed, list):
        raise _bad_format("retainKeys")
    keys = {key for key in listed if isinstance(key, str)}
    for key, value in patch.items():
        if key == _RETAIN_KEYS or value is None or key.startswith((_DELETE_ITEMS, _ORDER)):
            continue
        if key not in keys:
            raise _bad_format("retainKeys")
    return {key: value for key, value in original.items() if key in keys}


def _named_by(key: str, prefix: str) -> str:
    head, slash, name = key.partition("/")
    if not slash or head != prefix:
        raise _bad_format("primitive list" if prefix == _DELETE_ITEMS else "setElementOrder list")
    return name


# Lists -----------------------------------------------------------------------------------------------------------------------


def _merge_lists(original: list[Any], patch: list[Any], field: _Field, deletes_items: bool) -> list[Any]:
    if not original and not patch:
        return original
    if _item_type(original, patch) is not dict:
        if deletes_items:
            drop = {_comparable(item) for item in patch}
            return [item for item in original if _comparable(item) not in drop]
        merged = _distinct([*original, *patch])
        key = ""
    else:
        key = field.key
        if not key:
            name = field.content.type if field.content is not None else ""
            raise StrategicPatchError(f"cannot merge lists without merge key for {name or 'struct'}")
        original, patch = _without_special_items(original, patch, key)
        merged = _merge_items(original, patch, field)
    return _arranged(merged, patch, original, key)


def _item_type(*lists: list[Any]) -> type:
    """All items of merging lists are of one kind, and that is not a list."""
    found: type | None = None
    for items in lists:
        for item in items:
            if isinstance(item, list):
                raise StrategicPatchError("lists of lists are not supported", 422)
            if found is None:
                found = type(item)
            elif found is not type(item):
                shown = formatting.text([list(items) for items in lists])
                raise StrategicPatchError(f"list element types are not identical: {shown}")
    if found is None:
        raise StrategicPatchError("no elements in any of the given slices")
    return found


def _comparable(value: Any) -> Any:
    return (type(value), value) if not isinstance(value, dict | list) else (type(value), formatting.text(value))


def _distinct(items: Iterable[Any]) -> list[Any]:
    return list({_comparable(item): item for item in reversed(list(items))}.values())[::-1]


def _key_of(item: Any, key: str) -> Any:
    """What identifies an item: its merge key, or itself where there is none."""
    return _comparable(item.get(key) if key and isinstance(item, dict) else item)


def _without_special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Executes the `$patch` directives among the patch's items; returns the remaining items of the original and of the patch."""
    plain: list[Any] = []
    doomed: set[Any] = set()
    replace = False
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if key not in item:
                raise _no_merge_key(item, key)
            doomed.add(_comparable(item[key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise StrategicPatchError("merging lists cannot yet be specified in the patch")
        else:
            raise StrategicPatchError(f"unknown patch type: {formatting.text(directive)} in map: {formatting.text(item)}")
    if replace:
        return plain, []
    if doomed:
        original = [item for item in original if key not in item or _comparable(item[key]) not in doomed]
    return original, plain


def _merge_items(original: list[Any], patch: list[Any], field: _Field) -> list[Any]:
    merged = list(original)
    at: dict[Any, int] = {}
    for index, item in enumerate(merged):
        if field.key in item:
            at.setdefault(_comparable(item[field.key]), index)
    for item in patch:
        if field.key not in item:
            raise _no_merge_key(item, field.key)
        identity = _comparable(item[field.key])
        if identity in at:
            merged[at[identity]] = _merge_maps(merged[at[identity]], item, field.content)
        else:
            at[identity] = len(merged)
            merged.append(item)
    return merged


def _arranged(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Items in `order` as listed there; the others as on the server, before those that follow them there, else last."""
    if key:
        for item in (*merged, *order, *server):
            if not isinstance(item, dict):
                raise _wrong_type("map[string]interface {}", item)
            if key not in item:
                raise _no_merge_key(item, key)
    wanted: dict[Any, int] = {}
    for index, item in enumerate(order):
        wanted.setdefault(_key_of(item, key), index)
    known: dict[Any, int] = {}
    for index, item in enumerate(server):
        known.setdefault(_key_of(item, key), index)
    mine = sorted((item for item in merged if _key_of(item, key) in wanted), key=lambda item: wanted[_key_of(item, key)])
    others = [item for item in merged if _key_of(item, key) not in wanted]
    others.sort(key=lambda item: known.get(_key_of(item, key), -1))
    result: list[Any] = []
    waiting = 0
    for item in mine:
        position = known.get(_key_of(item, key))
        while position is not None and waiting < len(others) and 0 <= known.get(_key_of(others[waiting], key), -1) < position:
            result.append(others[waiting])
            waiting += 1
        result.append(item)
    return result + others[waiting:]


def _merge_in_order(merged: dict[str, Any], patch: dict[str, Any], directive: str, schema: Schema | None) -> None:
    """Executes one `$setElementOrder` directive: merges its list and orders it, and removes both from the patch."""
    order = patch.pop(directive)
    if not isinstance(order, list):
        raise _wrong_type("[]interface {}", order)
    name = _named_by(directive, _ORDER)
    for side in (merged, patch):
        if name in side and not isinstance(side[name], list):
            raise _wrong_type("[]interface {}", side[name])
    field = _look_up_list(schema, name)
    ours, theirs = patch.get(name), merged.get(name)
    _check_order(ours or [], order, field.key)
    if ours is None and theirs is None:
        return
    if theirs is None:
        items, _ = _without_directives(ours)
    elif ours is None:
        items = theirs
    elif field.strategy == "merge":
        items = _merge_lists(theirs, ours, field, False)
    else:
        items = ours
    _item_type(theirs or [], ours or [])
    merged[name] = _arranged(items, order, theirs or [], field.key)
    patch.pop(name, None)


def _check_order(items: list[Any], order: list[Any], key: str) -> None:
    """The patch's items must occur in the order list, in that order."""
    if not items or not order:
        return
    for item in (*items, *order) if key else ():
        if not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
    checked = [item for item in items if not (key and item.get(_DIRECTIVE) == "delete")]
    at = 0
    for index in order:
        # Other directives represent no item, but only as long as the order list continues.
        while at < len(checked) and isinstance(checked[at], dict) and _DIRECTIVE in checked[at]:
            at += 1
        if at == len(checked):
            return
        for side in (checked[at], index) if key else ():
            if key not in side:
                raise _no_merge_key(side, key)
        at += _key_of(index, key) == _key_of(checked[at], key)
    if at < len(checked):
        shown = f"{formatting.text(items)}\n doesn't match {_ORDER} list:\n{formatting.text(order)}"
        raise StrategicPatchError(f"The order in patch list:\n{shown}\n")
