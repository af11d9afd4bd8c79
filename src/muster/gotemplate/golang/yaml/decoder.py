"""Values of nodes. Follows yaml.v3's decoder for an `interface{}`.

A mapping whose keys are all strings becomes a dict; with other keys it is a map[interface {}]interface {}, which has no JSON form.
Aliases are decoded again at each position, so that values are never shared; their part of a document is limited as in yaml.v3.
Duplicate keys are collected, and the error lists all of them.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from muster.gotemplate.golang.printf import sprintf
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.parser import ALIAS, MAPPING, SCALAR, SEQUENCE, Node
from muster.gotemplate.golang.yaml.scalars import BINARY, MAP, MERGE, NULL, SEQ, STR, binary, resolve
from muster.gotemplate.limits import charge
from muster.gotemplate.values import Map
from muster.machinery.golang.quoting import quote

ANY_KEY_MAP: Final = "map[interface {}]interface {}"
MAX_DEPTH: Final = 200
MOST_DUPLICATES: Final = 100
_FEW_ALIASES: Final = 100
_FEW_VALUES: Final = 1000
_RATIO_FROM: Final = 400_000
_RATIO_TO: Final = 4_000_000
_DROPPED: Final = object()
"""An undecodable value, which is left out of its container; the error is recorded."""


def decode(node: Node) -> Any:
    """The value of a document's node. Raises YAMLError."""
    decoder = _Decoder()
    value = decoder.value(node)
    if decoder.problems:
        raise YAMLError("yaml: unmarshal errors:\n  " + "\n  ".join(decoder.problems))
    return value


def _allowed_alias_ratio(count: int) -> float:
    if count <= _RATIO_FROM:
        return 0.99
    if count >= _RATIO_TO:
        return 0.10
    return 0.99 - 0.89 * ((count - _RATIO_FROM) / (_RATIO_TO - _RATIO_FROM))


class _Decoder:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._count = 0
        self._alias_count = 0
        self._alias_depth = 0
        self._open: set[int] = set()
        """Aliases that are being decoded."""
        self._depth = 0
        self._merged: set[Any] | None = None
        """While a mapping is merged into another: the keys that are set already."""

    def _counted(self) -> None:
        # Once for the document itself.
        self._count += 1
        if self._alias_depth:
            self._alias_count += 1
            if (
                self._alias_count > _FEW_ALIASES
                and self._count > _FEW_VALUES
                and self._alias_count / self._count > _allowed_alias_ratio(self._count)
            ):
                raise YAMLError("yaml: document contains excessive aliasing")
            charge(1)

    def value(self, node: Node) -> Any:
        self._counted()
        kind = node.kind
        if kind == SCALAR:
            return _scalar(node)
        if kind == ALIAS:
            return self._aliased(node, self.value)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YAMLError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        if kind == SEQUENCE:
            value: Any = [item for item in map(self.value, node.content) if item is not _DROPPED]
        else:
            value = self._mapping(node, None)
        self._depth -= 1
        return value

    def _aliased(self, node: Node, decode: Any) -> Any:
        if id(node) in self._open or node.target is None:
            raise YAMLError(f"yaml: anchor '{node.value}' value contains itself")
        self._open.add(id(node))
        self._alias_depth += 1
        value = decode(node.target)
        self._alias_depth -= 1
        self._open.discard(id(node))
        return value

    def _mapping(self, node: Node, into: dict[Any, Any] | None) -> Any:
        """The mapping as a map of its own, or merged into one."""
        content = node.content
        if self._has_duplicates(node):
            return _DROPPED
        made = into if into is not None else {} if _has_string_keys(node) else Map((), ANY_KEY_MAP)
        set_already, self._merged = self._merged, None
        merge: Node | None = None
        string_keys = made.__class__ is dict
        for at in range(0, len(content), 2):
            key_node = content[at]
            if key_node.tag == MERGE and key_node.kind == SCALAR and key_node.value == "<<":
                merge = content[at + 1]
                continue
            key = self._string_key(key_node) if string_keys else self.value(key_node)
            if key is _DROPPED:
                continue
            if isinstance(key, (dict, list)):
                raise YAMLError(sprintf("yaml: invalid map key: %#v", [key]))
            if set_already is not None:
                if key in set_already:
                    continue
                set_already.add(key)
            value = self.value(content[at + 1])
            if value is not _DROPPED:
                made[key] = value
        self._merged = set_already
        if merge is not None:
            self._merge(node, merge, made)
        return made

    def _string_key(self, node: Node) -> Any:
        """A key as a string: its text, whatever it would resolve to."""
        self._counted()
        if node.kind == ALIAS:
            return self._aliased(node, self._string_key)
        if node.kind == SCALAR:
            value = _scalar(node)
            return _DROPPED if value is None else value if node.tag in (STR, BINARY) else node.value
        tag = node.tag or (SEQ if node.kind == SEQUENCE else MAP)
        shown = "" if tag in (SEQ, MAP) else " ``"
        self.problems.append(f"line {node.line}: cannot unmarshal {tag}{shown} into string")
        return _DROPPED

    def _has_duplicates(self, node: Node) -> bool:
        """Records each pair of equal keys, up to a limit: there are quadratically many."""
        keys = node.content[::2]
        seen: dict[tuple[str, str], list[Node]] = {}
        for key in keys:
            seen.setdefault((key.kind, key.value), []).append(key)
        if len(seen) == len(keys):
            return False
        for first in keys:
            same = seen[first.kind, first.value]
            for again in islice(same, same.index(first) + 1, None):
                if len(self.problems) >= MOST_DUPLICATES:
                    return True
                self.problems.append(f"line {again.line}: mapping key {quote(again.value)} already defined at line {first.line}")
        return True

    def _merge(self, parent: Node, merge: Node, made: dict[Any, Any]) -> None:
        outer = self._merged
        if outer is None:
            self._merged = {self._hashable(self.value(key)) for key in parent.content[::2]}
        if merge.kind == SEQUENCE:
            for part in merge.content:
                self._merge_one(part, made)
        else:
            self._merge_one(merge, made)
        self._merged = outer

    @staticmethod
    def _hashable(key: Any) -> Any:
        return id(key) if isinstance(key, (dict, list)) else key

    def _merge_one(self, part: Node, made: dict[Any, Any]) -> None:
        source = part.target if part.kind == ALIAS else part
        if source is None or source.kind != MAPPING:
            raise YAMLError("yaml: map merge requires map or sequence of maps as the value")
        self._counted()
        if part.kind == ALIAS:
            self._counted()
            self._aliased(part, lambda target: self._mapping(target, made))
        else:
            self._mapping(source, made)


def _scalar(node: Node) -> Any:
    tag = node.tag
    if tag == STR:
        return node.value
    if tag == NULL and not node.value:
        return None
    found, value = resolve(tag, node.value)
    return binary(value) if found == BINARY else value


def _short_tag(node: Node) -> str:
    while node.kind == ALIAS and node.target is not None:
        node = node.target
    return node.tag


def _has_string_keys(node: Node) -> bool:
    return all(_short_tag(key) in (STR, MERGE) for key in node.content[::2])
