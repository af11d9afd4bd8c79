"""JSON adapted by a schema: lists and maps whose parts are converted only when an expression reads them.

A declaration (`Declaration`) defines the conversion of a JSON value of one schema to a CEL value. Nothing is converted in advance:
an object stays the caller's dict, and a view has the declaration for the values that are read from it. Views also have Kubernetes'
list semantics: `set` and `map` lists are compared without regard to order and merged when added. Fields of objects are accessed by
their escaped names, and a null field counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.cel.errors import EvaluationError, no_such_overload
from muster.cel.types import Type
from muster.cel.values import MISSING, ListView, MapView, elements, equals, is_list, is_map, lookup, map_keys

Adapter = Callable[[Any], Any]


class Declaration:
    """A CEL type together with how JSON becomes a value of it.

    `adapt` is the conversion. `fields` (escaped name to JSON name and declaration) is set for objects, `element` for
    lists and maps. `bound` is the largest number of elements or characters, `smallest` the fewest bytes the value
    takes as JSON; both serve the cost estimate only, and mean nothing unless `bounded`.
    """

    __slots__ = ("adapt", "bound", "bounded", "element", "fields", "kind", "smallest", "type")

    def __init__(
        self,
        type_: Type,
        adapt: Adapter,
        kind: str = "scalar",
        fields: Mapping[str, tuple[str, Declaration]] | None = None,
        element: Declaration | None = None,
        bound: int | None = None,
        smallest: int = 1,
        bounded: bool = True,
    ) -> None:
        self.type = type_
        self.adapt = adapt
        self.kind = kind
        self.fields = fields or {}
        self.element = element
        self.bound = bound
        self.smallest = smallest
        self.bounded = bounded

    def field(self, name: str) -> tuple[str, Declaration] | None:
        """A field by the name an expression uses; a reserved word may come plain or escaped."""
        return self.fields.get(name) or self.fields.get(f"__{name}__")


class SchemaList(ListView):
    """An atomic list."""

    __slots__ = ("element", "raw")

    def __init__(self, raw: list[Any], element: Adapter) -> None:
        self.raw = raw
        self.element = element

    def __len__(self) -> int:
        return len(self.raw)

    def elements(self) -> list[Any]:
        return [self.element(item) for item in self.raw]

    def equals(self, other: Any) -> bool:
        if not is_list(other):
            raise no_such_overload()
        return len(self.raw) == len(other) and all(map(equals, self.elements(), elements(other)))

    def plus(self, other: Any) -> Any:
        return self.elements() + elements(other)


def _raw(value: Any) -> Any:
    return value.raw if isinstance(value, SchemaList | SchemaMap | SchemaObject) else value


def _hashable(value: Any) -> Any:
    return (value.__class__, value) if value.__class__ in (str, int, float, bool) else repr(value)


class SetList(SchemaList):
    """A list of unique scalars in no particular order."""

    __slots__ = ()

    def equals(self, other: Any) -> bool:
        if not is_list(other):
            raise no_such_overload()
        if len(self.raw) != len(other):
            return False
        mine = {_hashable(item) for item in self.raw}
        return all(_hashable(item) in mine for item in _raw_items(other))

    def plus(self, other: Any) -> Any:
        mine = {_hashable(item) for item in self.raw}
        added = [item for item in _raw_items(other) if _hashable(item) not in mine]
        return SetList([*self.raw, *dict.fromkeys(added)] if added else self.raw, self.element)


class KeyedList(SchemaList):
    """A list of objects identified by some of their fields."""

    __slots__ = ("keys",)

    def __init__(self, raw: list[Any], element: Adapter, keys: tuple[str, ...]) -> None:
        super().__init__(raw, element)
        self.keys = keys

    def _key(self, item: Any) -> Any:
        item = _raw(item)
        if item.__class__ is not dict:
            raise no_such_overload()
        return tuple(_hashable(item.get(key)) for key in self.keys)

    def equals(self, other: Any) -> bool:
        if not is_list(other):
            raise no_such_overload()
        if len(self.raw) != len(other):
            return False
        mine = {self._key(item): item for item in self.raw}
        for item in elements(other):
            found = mine.get(self._key(item), MISSING)
            if found is MISSING or not equals(self.element(found), item):
                return False
        return True

    def plus(self, other: Any) -> Any:
        merged = {self._key(item): item for item in self.raw}
        for item in _raw_items(other):
            merged[self._key(item)] = _raw(item)
        return KeyedList(list(merged.values()), self.element, self.keys)


def _raw_items(other: Any) -> list[Any]:
    return other.raw if isinstance(other, SchemaList) else [_raw(item) for item in elements(other)]


class SchemaMap(MapView):
    """`additionalProperties`: any key, all values of one schema."""

    __slots__ = ("element", "raw")

    def __init__(self, raw: dict[str, Any], element: Adapter) -> None:
        self.raw = raw
        self.element = element

    def __len__(self) -> int:
        return len(self.raw)

    def keys(self) -> list[Any]:
        return list(self.raw)

    def find(self, key: Any) -> Any:
        if key.__class__ is not str:
            raise no_such_overload()
        found = self.raw.get(key, MISSING)
        return found if found is MISSING else self.element(found)

    def equals(self, other: Any) -> bool:
        if not is_map(other):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        for key in self.raw:
            found = lookup(other, key)
            if found is MISSING or not equals(self.find(key), found):
                return False
        return True


class SchemaObject(MapView):
    """`properties`: declared fields only, by escaped name. Undeclared data takes part in equality alone."""

    __slots__ = ("declaration", "raw")

    def __init__(self, raw: dict[str, Any], declaration: Declaration) -> None:
        self.raw = raw
        self.declaration = declaration

    def __len__(self) -> int:
        return len(self.raw)

    def keys(self) -> list[Any]:
        return [name for name, (key, _) in self.declaration.fields.items() if key in self.raw]

    def find(self, key: Any) -> Any:
        if key.__class__ is not str:
            raise no_such_overload()
        field = self.declaration.field(key)
        if field is None:
            return MISSING
        found = self.raw.get(field[0])
        return MISSING if found is None else field[1].adapt(found)

    def equals(self, other: Any) -> bool:
        if not is_map(other):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        declared = {key: name for name, (key, _) in self.declaration.fields.items()}
        for key, value in self.raw.items():
            name = declared.get(key)
            if name is None:
                if isinstance(other, SchemaObject) and key in other.raw and other.raw[key] != value:
                    return False
                continue
            mine, theirs = self.find(name), lookup(other, name)
            if (mine is MISSING) != (theirs is MISSING):
                return False
            if mine is not MISSING and not equals(mine, theirs):
                return False
        return True


class LazyMap(MapView):
    """A map whose values are computed on first use, such as the variables of an admission policy."""

    __slots__ = ("_known", "_sources")

    def __init__(self, sources: Mapping[str, Callable[[], Any]]) -> None:
        self._sources = sources
        self._known: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def keys(self) -> list[Any]:
        return list(self._sources)

    def find(self, key: Any) -> Any:
        found = self._known.get(key, MISSING)
        if found is MISSING and key in self._sources:
            try:
                found = self._sources[key]()
            except EvaluationError as error:
                found = error
            self._known[key] = found
        if isinstance(found, EvaluationError):
            raise found
        return found

    def equals(self, other: Any) -> bool:
        return (
            is_map(other)
            and set(self.keys()) == set(map_keys(other))
            and all(equals(self.find(key), lookup(other, key)) for key in self.keys())
        )
