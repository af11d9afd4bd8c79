"""Operations on typed objects: merge, removal of fields, and adaptation of stored field sets to a changed schema.

`merge` keeps all fields of the left object that the right one does not have, and orders list items as in the right one. `remove`
removes the members of a field set. Arguments are never changed; results share parts with them.
"""

from __future__ import annotations

from typing import Any

from muster.kube.fieldmanager.atoms import UNTYPED, Atom, ListAtom, MapAtom
from muster.kube.fieldmanager.fieldset import SELF, FieldSet, below, is_member
from muster.kube.fieldmanager.typed import ABSENT, item_element, kind_of


def merge(atom: Atom, left: Any, right: Any) -> Any:
    """The left object with the fields of the right one; nothing is removed."""
    if right is ABSENT:
        return left
    if left is ABSENT:
        return right
    kind = kind_of(atom, left if right is None else right)
    if isinstance(kind, MapAtom):
        old = left if isinstance(left, dict) else {}
        new = right if isinstance(right, dict) else {}
        if not kind.atomic and (old or new):
            merged = dict(old)
            for key, value in new.items():
                merged[key] = merge(kind.child(key), old.get(key, ABSENT), value)
            return merged
    elif isinstance(kind, ListAtom):
        olds = left if isinstance(left, list) else []
        news = right if isinstance(right, list) else []
        if not kind.atomic and (olds or news):
            return _merge_items(kind, olds, news)
    return right


def _merge_items(atom: ListAtom, old: list[Any], new: list[Any]) -> list[Any]:
    """Items of both: the right one's order where it names items, the others staying where they were among their neighbours."""
    olds = [item_element(atom, item) for item in old]
    news = [item_element(atom, item) for item in new]
    first: dict[str, Any] = {}
    for element, item in zip(olds, old, strict=True):
        # Items that occur twice are replaced as a whole, not merged.
        first[element] = None if element in first else item
    right = dict(zip(news, new, strict=True))
    shared = [element for element in news if element in first]
    wanted = 0
    merged: list[Any] = []
    done: set[str] = set()

    def combined(element: str) -> Any:
        return merge(atom.element, first.get(element, ABSENT), right[element])

    left_at, right_at = 0, 0
    while left_at < len(olds) or right_at < len(news):
        if left_at < len(olds) and right_at < len(news):
            element = olds[left_at]
            if element == news[right_at]:
                merged.append(combined(element))
                done.add(element)
                left_at, right_at, wanted = left_at + 1, right_at + 1, wanted + 1
                continue
            if element in right and wanted < len(shared) and shared[wanted] != element:
                left_at += 1
                continue
        if left_at < len(olds):
            element = olds[left_at]
            if element not in right:
                merged.append(old[left_at])
                left_at += 1
                continue
            if element in done:
                left_at += 1
        if right_at < len(news):
            element = news[right_at]
            merged.append(combined(element))
            done.add(element)
            right_at += 1
            if wanted < len(shared) and shared[wanted] == element:
                wanted += 1
    return merged


# Removing --------------------------------------------------------------------------------------------------------------------


def remove(atom: Atom, value: Any, fields: FieldSet) -> Any:
    """The value without these fields and items. A container left with nothing becomes null."""
    kind = kind_of(atom, value)
    if isinstance(kind, MapAtom):
        if kind.atomic or not isinstance(value, dict):
            return None
        kept: dict[str, Any] = {}
        for key, item in value.items():
            element = "f:" + key
            if is_member(fields, element):
                continue
            under = below(fields, element)
            kept[key] = remove(kind.child(key), item, under) if under else item
        return kept or None
    if isinstance(kind, ListAtom):
        if kind.atomic or not isinstance(value, list):
            return None
        items: list[Any] = []
        for item in value:
            element = item_element(kind, item)
            if is_member(fields, element):
                continue
            under = below(fields, element)
            items.append(remove(kind.element, item, under) if under else item)
        return items or None
    return value


def with_named_fields(atom: Atom | None, fields: FieldSet) -> FieldSet:
    """The set plus every declared field on the way to its members, which sets usually leave out."""
    made: FieldSet = {}
    for element, node in fields.items():
        if element == SELF or not node:
            made[element] = node
            continue
        child: Atom | None = None
        named = False
        if atom is not None:
            if element[0] == "f" and atom.map is not None:
                child = atom.map.fields.get(element[2:])
                named = child is not None
                child = child or atom.map.element
            elif element[0] == "k" and atom.list is not None:
                child = atom.list.element
        inner = with_named_fields(child, node)
        made[element] = {SELF: {}, **inner} if named else inner
    return made


def reconcile_field_set_with_schema(atom: Atom, fields: FieldSet) -> FieldSet:
    """A stored set adapted to the current schema: fields inside a container that is atomic now become the container. Returns the
    same object if nothing changed."""
    lost: list[tuple[str, ...]] = []
    _outdated(atom, fields, False, (), lost)
    if not lost:
        return fields
    made = fields
    for path in lost:
        made = _replaced(made, path)
    return made


def _replaced(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    made = dict(fields)
    made[path[0]] = _replaced(made[path[0]], path[1:]) if len(path) > 1 else {}
    return made


def _outdated(atom: Atom, fields: FieldSet, member_only: bool, path: tuple[str, ...], lost: list[tuple[str, ...]]) -> None:
    kind = atom.map or atom.scalar or atom.list
    if isinstance(kind, MapAtom):
        if kind.atomic:
            if not member_only and fields and path:
                lost.append(path)
            return
        if not kind.fields and kind.element is not None and kind.element.scalar == UNTYPED:
            return
    elif isinstance(kind, ListAtom):
        if kind.atomic:
            if not member_only and path:
                lost.append(path)
            return
    else:
        return
    for element, node in fields.items():
        if element == SELF:
            continue
        if isinstance(kind, MapAtom):
            child = kind.fields.get(element[2:]) or kind.element if element[0] == "f" else kind.element
            if child is None:
                continue
        else:
            child = kind.element
        if node:
            _outdated(child, node, False, (*path, element), lost)
