"""Sets of field paths as FieldsV1 tries, the form managedFields uses on the wire.

A set is a nested dict whose keys are path elements: `f:name` (a field), `k:{"name":"x"}` (an item of a keyed list), `v:"x"` (an
item of a set), `i:0` (a position). An empty dict is a member without members below it; a member that has some carries the extra key
`.`. This is exactly the JSON stored in an object, so a stored set needs no decoding and a result needs no encoding, only sorting.
Keys must be canonical (`canonical` makes them so for sets that came from a client); functions never change their arguments, and
never produce a node that holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from muster.machinery.golang import formatting
from muster.machinery.golang.json import encode_json
from muster.machinery.golang.quoting import quote
from muster.machinery.memo import memoized

FieldSet: TypeAlias = dict[str, "FieldSet"]
Path: TypeAlias = tuple[str, ...]

SELF: Final = "."


class FieldSetError(ValueError):
    """A FieldsV1 document that cannot be read."""


# Path elements ---------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Numbers that are equal are one element, however they were written."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def value_element(value: Any) -> str:
    """The element of a set item."""
    return "v:" + encode_json(_plain(value))


@memoized(8192)
def _quoted(text: str) -> str:
    return encode_json(text)


def name_element(field: str, name: str) -> str:
    """The element of an item of a list that is keyed by one text, as most are; the same as `key_element` gives."""
    return f"k:{{{_quoted(field)}:{_quoted(name)}}}"


def key_element(key: dict[str, Any]) -> str:
    """The element of a keyed list item, from its key fields."""
    return "k:" + encode_json({name: _plain(value) for name, value in key.items()})


@memoized(8192)
def _order(element: str) -> tuple[Any, ...]:
    """Where an element sorts among its siblings: fields, then keys, then values, then positions."""
    kind, content = element[:2], element[2:]
    if kind == "f:":
        return 1, content
    if kind == "k:":
        return 2, tuple((name, _rank(value)) for name, value in sorted(orjson.loads(content).items()))
    if kind == "v:":
        return 3, _rank(orjson.loads(content))
    return (4, int(content)) if kind == "i:" else (0,)


def _rank(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    if isinstance(value, list):
        return 3, tuple(map(_rank, value))
    if isinstance(value, dict):
        return 4, tuple((name, _rank(item)) for name, item in sorted(value.items()))
    return (5,)


@memoized(8192)
def element_text(element: str) -> str:
    """How messages show an element: `.name`, `[name="x"]`, `[="x"]`, `[0]`."""
    kind, content = element[:2], element[2:]
    if kind == "f:":
        return "." + content
    if kind == "k:":
        pairs = sorted(orjson.loads(content).items())
        return "[" + ",".join(f"{name}={_shown(value)}" for name, value in pairs) + "]"
    if kind == "v:":
        return f"[={_shown(orjson.loads(content))}]"
    return f"[{content}]"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return quote(value) if isinstance(value, str) else formatting.text(value)


def path_text(path: Path) -> str:
    return "".join(map(element_text, path))


@memoized(8192)
def _canonical_element(element: str) -> str | None:
    """The canonical spelling; None for kinds a later version may know."""
    kind, content = element[:2], element[2:]
    if len(element) < 2:
        raise FieldSetError("key must be 2 characters long:")
    if kind[1] != ":":
        raise FieldSetError(f"missing colon: {element}")
    if kind == "f:":
        return element
    try:
        if kind == "v:":
            return value_element(orjson.loads(content))
        if kind == "k:":
            return key_element(orjson.loads(content))
        if kind == "i:":
            return f"i:{int(content)}"
    except (ValueError, AttributeError) as problem:
        raise FieldSetError(f"parsing key as path element: {problem}") from problem
    return None


# Sets ------------------------------------------------------------------------------------------------------------------------


def canonical(fields: Any) -> FieldSet:
    """A set a client sent: elements spelled canonically, unknown kinds dropped. Raises FieldSetError."""
    if not isinstance(fields, dict):
        raise FieldSetError("expected a map of fields")
    made: FieldSet = {}
    for element, below in fields.items():
        name = SELF if element == SELF else _canonical_element(element)
        if name is not None:
            made[name] = canonical(below) if below else {}
    return made


def from_paths(paths: Iterable[Path]) -> FieldSet:
    made: FieldSet = {}
    for path in paths:
        insert(made, path)
    return made


def insert(fields: FieldSet, path: Path) -> None:
    """Adds one path to a set under construction (the only function that changes its argument)."""
    for element in path[:-1]:
        below = fields.get(element)
        if below is None:
            below = fields[element] = {}
        elif not below:
            below[SELF] = {}
        fields = below
    last = fields.get(path[-1])
    if last is None:
        fields[path[-1]] = {}
    elif last:
        last.setdefault(SELF, {})


def has(fields: FieldSet, path: Path) -> bool:
    for element in path:
        below = fields.get(element)
        if below is None:
            return False
        fields = below
    return bool(path) and (not fields or SELF in fields)


def is_member(fields: FieldSet, element: str) -> bool:
    below = fields.get(element)
    return below is not None and (not below or SELF in below)


def below(fields: FieldSet, element: str) -> FieldSet:
    """The members under an element, without the element itself."""
    found = fields.get(element)
    if not found:
        return {}
    return {name: node for name, node in found.items() if name != SELF} if SELF in found else found


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right
    if not right:
        return left
    made = dict(left)
    for element, node in right.items():
        mine = made.get(element)
        if mine is None:
            made[element] = node
        elif mine is not node and (mine or node):
            made[element] = union(mine or {SELF: {}}, node or {SELF: {}})
    return made


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """The union of many, taken in pairs: one after the other would copy what has gathered each time."""
    while len(sets) > 1:
        pairs = [union(sets[at], sets[at + 1]) for at in range(0, len(sets) - 1, 2)]
        sets = [*pairs, *sets[len(pairs) * 2 :]]
    return sets[0] if sets else {}


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    made: FieldSet = {}
    if len(right) < len(left):
        left, right = right, left
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            continue
        if not mine or not other:
            if (not mine or SELF in mine) and (not other or SELF in other):
                made[element] = {}
            continue
        shared = intersection(mine, other)
        if shared:
            made[element] = _collapsed(shared)
    return made


def _collapsed(node: FieldSet) -> FieldSet:
    return {} if len(node) == 1 and SELF in node else node


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of left that are not members of right; what lies below a removed member stays."""
    if not right:
        return left
    made: FieldSet = {}
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            made[element] = mine
            continue
        if not mine:
            if other and SELF not in other:
                made[element] = {}
            continue
        rest = difference(mine, other or {SELF: {}})
        if rest:
            made[element] = _collapsed(rest)
    return made


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Like difference, but a member of right takes everything below it too."""
    if not right:
        return left
    made: FieldSet = {}
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            made[element] = mine
        elif other and SELF not in other:
            rest = recursive_difference(mine, other) if mine else mine
            if rest or not mine:
                made[element] = _collapsed(rest)
    return made


def leaves(fields: FieldSet) -> FieldSet:
    """Only the members with no members below them."""
    return {element: leaves(node) for element, node in fields.items() if element != SELF}


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Every member: those of a level first, then those below, each in order."""
    elements = [element for element in ordered(fields) if element != SELF]
    for element in elements:
        node = fields[element]
        if not node or SELF in node:
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from paths(fields[element], (*prefix, element))


def ordered(elements: Iterable[str]) -> list[str]:
    found = sorted(elements)
    # Plain text order is right for fields, and the dot sorts before them; the other kinds order by value.
    return found if not found or found[-1] < "g" else sorted(found, key=_order)


def in_order(fields: FieldSet) -> FieldSet:
    """The set with its keys in the order the API writes them."""
    return {element: in_order(node) if (node := fields[element]) else node for element in ordered(fields)}
