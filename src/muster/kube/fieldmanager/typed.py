"""Typed values, as structured-merge-diff's `typed`: validation, field sets of configurations, comparison.

Server-side apply consists of these operations, on plain JSON. `fields_of` lists the fields of a configuration (its leaves, and the
items of keyed lists and maps); `compare` lists what changed between two objects, including added and removed containers. An absent
value is `ABSENT`, which differs from null. Arguments are never changed; results share parts with them.
"""

from __future__ import annotations

from typing import Any, Final

from muster.kube.fieldmanager.atoms import BOOLEAN, DEDUCED, NUMERIC, STRING, Atom, ListAtom, MapAtom
from muster.kube.fieldmanager.fieldset import SELF, FieldSet, element_text, key_element, name_element, value_element
from muster.machinery.golang import formatting
from muster.machinery.golang.quoting import quote

ABSENT: Final = object()


_MOST_PROBLEMS: Final = 1_000


class TypedError(ValueError):
    """The value does not fit its schema. `problems` are (path, message) pairs."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        lines = [f"{path}: {message}" if path else message for path, message in problems[:_MOST_PROBLEMS]]
        if len(problems) > _MOST_PROBLEMS:
            lines.append("there are more errors than these")
        super().__init__(lines[0] if len(lines) == 1 else "\n".join(["errors:", *(f"  {line}" for line in lines)]))


class _ItemError(ValueError):
    """A list item that cannot be distinguished from the others."""


def item_element(atom: ListAtom, item: Any) -> str:
    """The path element of an item of a keyed list or a set."""
    if not atom.keys:
        if type(item) is str:
            return value_element(item)
        if isinstance(item, dict):
            raise _ItemError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise _ItemError("not supported: associative list with lists as elements")
        if item is None:
            raise _ItemError("associative list without keys has an element that's an explicit null")
        return value_element(item)
    if item is None:
        raise _ItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise _ItemError("associative list with keys may not have non-map elements")
    if len(atom.keys) == 1 and type(name := item.get(atom.keys[0])) is str:
        return name_element(atom.keys[0], name)
    key: dict[str, Any] = {}
    for name in atom.keys:
        if name in item:
            key[name] = item[name]
        elif name in atom.defaults:
            key[name] = atom.defaults[name]
    if not key:
        names = " ".join(quote(name) for name in atom.keys)
        raise _ItemError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(key)


def kind_of(atom: Atom, value: Any) -> MapAtom | ListAtom | str | None:
    """The effective type of a value. Null, and a value of another type than the atom has, get the first type of the atom."""
    if isinstance(value, dict):
        if atom.map is not None:
            return atom.map
    elif isinstance(value, list):
        if atom.list is not None:
            return atom.list
    elif value is not None and value is not ABSENT and atom.scalar is not None:
        return atom.scalar
    return atom.map or atom.scalar or atom.list


# Checking --------------------------------------------------------------------------------------------------------------------

_Problems = list[tuple[str, str]]


def check(atom: Atom, value: Any, allow_duplicates: bool = False) -> None:
    """Raises TypedError where a value does not fit: undeclared fields, wrong kinds, items without key, duplicate items."""
    problems: _Problems = []
    _check(atom, value, "", allow_duplicates, problems)
    if problems:
        raise TypedError(problems)


def _check(atom: Atom, value: Any, path: str, allow_duplicates: bool, problems: _Problems) -> None:
    kind = kind_of(atom, value)
    if value is None:
        return
    if isinstance(kind, str):
        if message := scalar_problem(kind, value):
            problems.append((path, message))
    elif isinstance(kind, MapAtom):
        if not isinstance(value, dict):
            problems.append((path, f"expected map, got {_wrapped(value)}"))
            return
        for key, item in value.items():
            if len(problems) > _MOST_PROBLEMS:
                return
            child = kind.fields.get(key) or kind.element
            if child is None:
                problems.append((f"{path}.{key}", "field not declared in schema"))
                return
            _check(child, item, f"{path}.{key}", allow_duplicates, problems)
    elif isinstance(kind, ListAtom):
        if not isinstance(value, list):
            problems.append((path, f"expected list, got {_wrapped(value)}"))
            return
        _check_items(kind, value, path, allow_duplicates, problems)


def _check_items(atom: ListAtom, items: list[Any], path: str, allow_duplicates: bool, problems: _Problems) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if len(problems) > _MOST_PROBLEMS:
            return
        if atom.atomic:
            where = f"{path}[{index}]"
        else:
            try:
                element = item_element(atom, item)
            except _ItemError as problem:
                problems.append((path, f"element {index}: {problem}"))
                return
            shown = element_text(element)
            if element in seen and not allow_duplicates:
                problems.append((path, f"duplicate entries for key {shown}"))
            seen.add(element)
            where = path + shown
        _check(atom.element, item, where, allow_duplicates, problems)


def scalar_problem(kind: str, value: Any) -> str | None:
    if kind == NUMERIC:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {formatting.type_name(value)}"
    elif kind == STRING:
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{formatting.syntax(value)}}}"
    elif kind == BOOLEAN:
        if not isinstance(value, bool):
            return f"expected boolean, got {_wrapped(value)}"
    elif isinstance(value, dict | list):
        return f"expected any scalar, got {_wrapped(value)}"
    return None


def _wrapped(value: Any) -> str:
    return f"&{{{formatting.text(value)}}}"


# Listing ---------------------------------------------------------------------------------------------------------------------


def fields_of(atom: Atom, value: Any) -> FieldSet:
    """The fields of a configuration that its applier owns."""
    return _fields(atom, value) or {}


def _fields(atom: Atom, value: Any) -> FieldSet | None:
    """A node of the set: None for nothing, empty for the value itself."""
    kind = kind_of(atom, value)
    if kind is None or isinstance(kind, str) or kind.atomic:
        return {}
    if isinstance(kind, ListAtom):
        return _item_fields(kind, value) if isinstance(value, list) else None
    if not isinstance(value, dict):
        return None
    made: FieldSet = {}
    for key, item in value.items():
        child = kind.fields.get(key)
        node = _fields(child or kind.element or DEDUCED, item)
        if child is None or item is None or item == {}:
            node = _with_self(node)
        if node is not None:
            made[f"f:{key}"] = node
    return made or None


def _with_self(node: FieldSet | None) -> FieldSet:
    return {SELF: {}, **node} if node else {}


def _item_fields(atom: ListAtom, items: list[Any]) -> FieldSet | None:
    made: FieldSet = {}
    repeated: set[str] = set()
    for item in items:
        element = item_element(atom, item)
        if element in made:
            repeated.add(element)
        else:
            made[element] = _with_self(_fields(atom.element, item))
    for element in repeated:
        made[element] = {}
    return made or None


# Comparing -------------------------------------------------------------------------------------------------------------------


class Comparison:
    """Changed and added fields, and removed fields."""

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.changed: FieldSet = {}
        self.removed: FieldSet = {}


def compare(atom: Atom, left: Any, right: Any) -> Comparison:
    """The changes of an update from left to right. Raises TypedError if list items cannot be distinguished."""
    result = Comparison()
    try:
        _compare(atom, left, right, result.changed, result.removed)
    except _ItemError as problem:
        raise TypedError([("", str(problem))]) from None
    result.changed.pop(SELF, None)
    result.removed.pop(SELF, None)
    return result


def _everything(atom: Atom, value: Any) -> FieldSet:
    """A node with every part of a value that came or went as a whole, and the value itself."""
    kind = kind_of(atom, value)
    if not value or isinstance(kind, str):
        return {}
    if isinstance(kind, MapAtom):
        if kind.atomic or not isinstance(value, dict):
            return {}
        fields, other = kind.fields, kind.element or DEDUCED
        made: FieldSet = {SELF: {}}
        for key, item in value.items():
            # Most values are text: a leaf, whatever the schema is.
            made["f:" + key] = {} if type(item) is str else _everything(fields.get(key) or other, item)
        return made
    if isinstance(kind, ListAtom):
        if kind.atomic or not isinstance(value, list):
            return {}
        made = {SELF: {}}
        repeated = set()
        for item in value:
            element = item_element(kind, item)
            if element in made:
                repeated.add(element)
            else:
                made[element] = {} if type(item) is str else _everything(kind.element, item)
        for element in repeated:
            made[element] = {}
        return made
    return {}


def _same(left: Any, right: Any) -> bool:
    """Equality that distinguishes true and 1, at any depth."""
    if left is right:
        return True
    if left != right:
        return False
    if isinstance(left, dict):
        return all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool)


def _compare(atom: Atom, left: Any, right: Any, changed: FieldSet, removed: FieldSet) -> None:
    """Two present values of one node; findings go into the two nodes, `.` standing for the value itself."""
    before, after = kind_of(atom, left), kind_of(atom, right)
    if left is None:
        before = after
    elif right is None:
        after = before
    _compare_as(before, left, right, changed, removed)
    if after is not before:
        _compare_as(after, left, right, changed, removed)


def _compare_as(kind: Any, left: Any, right: Any, changed: FieldSet, removed: FieldSet) -> None:
    if isinstance(kind, MapAtom):
        old = left if isinstance(left, dict) else {}
        new = right if isinstance(right, dict) else {}
        if not kind.atomic and (old or new):
            _compare_maps(kind, old, new, changed, removed)
            return
    elif isinstance(kind, ListAtom):
        olds = left if isinstance(left, list) else []
        news = right if isinstance(right, list) else []
        if not kind.atomic and (olds or news):
            _compare_lists(kind, olds, news, changed, removed)
            return
    if not _same(left, right):
        changed[SELF] = {}


def _compare_maps(atom: MapAtom, old: dict[str, Any], new: dict[str, Any], changed: FieldSet, removed: FieldSet) -> None:
    for key, value in new.items():
        was = old.get(key, ABSENT)
        if was is value:
            continue
        if was is ABSENT:
            changed["f:" + key] = {} if type(value) is str else _everything(atom.child(key), value)
        elif type(value) is str and type(was) is str:
            if value != was:
                changed["f:" + key] = {}
        elif not _same(was, value):
            _descend(atom.child(key), "f:" + key, was, value, changed, removed)
    for key, value in old.items():
        if key not in new:
            removed["f:" + key] = _everything(atom.child(key), value)


def _descend(atom: Atom, element: str, left: Any, right: Any, changed: FieldSet, removed: FieldSet) -> None:
    inner: FieldSet = {}
    gone: FieldSet = {}
    _compare(atom, left, right, inner, gone)
    if inner:
        changed[element] = {} if len(inner) == 1 and SELF in inner else inner
    if gone:
        removed[element] = {} if len(gone) == 1 and SELF in gone else gone


def _grouped(atom: ListAtom, items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(item_element(atom, item), []).append(item)
    return groups


def _compare_lists(atom: ListAtom, old: list[Any], new: list[Any], changed: FieldSet, removed: FieldSet) -> None:
    """Items with the same key are compared; a key that occurs twice on a side is one value there, whole."""
    before, after = _grouped(atom, old), _grouped(atom, new)
    for element in before | after:
        lefts, rights = before.get(element, []), after.get(element, [])
        if len(lefts) <= 1 and len(rights) <= 1:
            if not lefts:
                changed[element] = _everything(atom.element, rights[0])
            elif not rights:
                removed[element] = _everything(atom.element, lefts[0])
            elif not _same(lefts[0], rights[0]):
                _descend(atom.element, element, lefts[0], rights[0], changed, removed)
        elif len(lefts) >= 2 and len(rights) >= 2:
            if not _same(lefts, rights):
                changed[element] = {}
        elif len(lefts) >= 2:
            if rights:
                changed[element] = _everything(atom.element, rights[0])
            removed[element] = {}
        else:
            if lefts:
                removed[element] = _everything(atom.element, lefts[0])
            changed[element] = {}
