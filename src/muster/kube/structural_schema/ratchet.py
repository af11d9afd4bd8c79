"""Old and new value side by side, so that an update is not refused for what it did not change.

A `Correlation` follows the validator's walk over the new value and finds the old value of the same place: object fields by name,
list items only in lists of type map, by their keys. Anything else has no old counterpart. `unchanged` is deep equality along that
correlation: a list of type map may be reordered; an object with a field the schema does not describe never counts as unchanged.
"""

from __future__ import annotations

from typing import Any, Final

from muster.kube.structural_schema.constraints import Constraints, same

_ABSENT: Final = object()
_SCALARS: Final = (bool, int, float, str)


def map_key(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The identity of an item in a list of type map, None if it lacks a key or a key is not a scalar."""
    if item.__class__ is not dict:
        return None
    values = tuple(item.get(key, _ABSENT) for key in keys)
    if any(value.__class__ not in _SCALARS for value in values):
        return None
    return tuple((value.__class__, value) for value in values)


class MapList:
    """Items of a list of type map by key; the first of equal keys counts."""

    __slots__ = ("_items", "_keys")

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._items: dict[tuple[Any, ...], Any] = {}
        for item in items:
            key = map_key(item, keys)
            if key is not None:
                self._items.setdefault(key, item)

    def get(self, item: Any) -> Any:
        key = map_key(item, self._keys)
        return None if key is None else self._items.get(key)


class Correlation:
    """One place of the new value together with its old value."""

    __slots__ = ("_by_key", "_children", "_unchanged", "node", "old", "value")

    def __init__(self, value: Any, old: Any, node: Constraints) -> None:
        self.value = value
        self.old = old
        self.node = node
        self._children: dict[str | int, Correlation] = {}
        self._by_key: MapList | None = None
        self._unchanged: bool | None = None

    def key(self, name: str) -> Correlation | None:
        child = self._children.get(name)
        if child is not None:
            return child
        if self.old.__class__ is not dict or self.value.__class__ is not dict:
            return None
        if name not in self.old or name not in self.value:
            return None
        node = self.node.properties.get(name, self.node.additional)
        if node is None:
            return None
        child = self._children[name] = Correlation(self.value[name], self.old[name], node)
        return child

    def index(self, position: int) -> Correlation | None:
        child = self._children.get(position)
        if child is not None:
            return child
        if self.old.__class__ is not list or self.value.__class__ is not list or self.node.items is None:
            return None
        if self.node.list_type != "map" or not self.node.list_map_keys:
            return None
        if self._by_key is None:
            self._by_key = MapList(self.old, self.node.list_map_keys)
        old = self._by_key.get(self.value[position])
        if old is None:
            return None
        child = self._children[position] = Correlation(self.value[position], old, self.node.items)
        return child

    @property
    def unchanged(self) -> bool:
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        if self.value.__class__ is not self.old.__class__:
            return False
        if self.value.__class__ is dict:
            return len(self.value) == len(self.old) and all(_is_unchanged(self.key(name)) for name in self.value)
        if self.value.__class__ is list and self.node.list_type == "map":
            return len(self.value) == len(self.old) and all(_is_unchanged(self.index(i)) for i in range(len(self.value)))
        return same(self.value, self.old)


def _is_unchanged(child: Correlation | None) -> bool:
    return child is not None and child.unchanged
