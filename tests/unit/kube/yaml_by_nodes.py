"""YAML read through PyYAML's nodes, as it was before events: slow and plain, to compare the loader with.

Nothing but the tests uses it.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml as pyyaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_NODES: Final = 2_000_000
MAX_DEPTH: Final = 500
_ALIAS_ALLOWANCE: Final = 10_000

_STR, _NULL, _BOOL, _INT, _FLOAT, _MERGE, _BINARY = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "merge", "binary")
)
_RESOLVERS: Final = (
    (_NULL, re.compile(r"~|null|Null|NULL|"), "~nN\0"),
    (_BOOL, re.compile("true|True|TRUE|false|False|FALSE|y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF"), "tTfFyYnNoO"),
    (_INT, re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)"), "-+0123456789"),
    (
        _FLOAT,
        re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        "-+0123456789.",
    ),
    (_MERGE, re.compile("<<"), "<"),
)


class YAMLError(ValueError):
    """The text is not YAML, or not a JSON-like document."""


class _Loader(pyyaml.CSafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012


for _tag, _pattern, _first in _RESOLVERS:
    anchored = re.compile(f"(?:{_pattern.pattern})\\Z")
    _Loader.add_implicit_resolver(_tag, anchored, ["" if mark == "\0" else mark for mark in _first])


_INT64: Final = range(-(2**63), 2**63)


def _integer(text: str) -> int | float:
    """Octal by a leading zero, and the other prefixes; what is too long for 64 bits is a float, as in JSON."""
    plain = text.replace("_", "")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if digits[:2] in ("0x", "0o", "0b"):
        value = sign * int(digits[2:], {"x": 16, "o": 8, "b": 2}[digits[1]])
    else:
        octal = len(digits) > 1 and digits[0] == "0" and all(digit in "01234567" for digit in digits)
        value = sign * int(digits, 8 if octal else 10)
    return value if value in _INT64 else float(value)


def _float(text: str) -> int | float | str:
    value = float(text)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and int(value) in _INT64 else value


_NOT_JSON: Final = frozenset({".inf", "-.inf", "+.inf", ".nan"})


class _Builder:
    """Turns a node graph into plain values, counting what it builds and noting duplicate keys."""

    def __init__(self, budget: int, duplicates: list[str] | None) -> None:
        self.budget = budget
        self.duplicates = duplicates

    def build(self, node: Node, path: str, depth: int = 0) -> Any:
        self.budget -= 1
        if self.budget < 0:
            raise YAMLError("document contains excessive aliasing")
        if depth > MAX_DEPTH:
            raise YAMLError("exceeded max depth")
        if isinstance(node, ScalarNode):
            return self.scalar(node)
        if isinstance(node, SequenceNode):
            return [self.build(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        assert isinstance(node, MappingNode)
        return self.mapping(node, path, depth)

    def mapping(self, node: MappingNode, path: str, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE and isinstance(key_node, ScalarNode):
                merged += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                continue
            key = self.key(key_node)
            where = f"{path}.{key}" if path else key
            if key in made:
                if self.duplicates is None:
                    raise YAMLError(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
                self.duplicates.append(where)
            made[key] = self.build(value_node, where, depth + 1)
        for source in merged:
            if not isinstance(source, MappingNode):
                raise YAMLError("map merge requires map or sequence of maps as the value")
            for key, value in self.mapping(source, path, depth + 1).items():
                made.setdefault(key, value)
        return made

    def key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise YAMLError(f"line {node.start_mark.line + 1}: map keys must be scalars")
        value = self.scalar(node)
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        return "null" if value is None else str(value)

    def scalar(self, node: ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag in (_STR, _MERGE):
            return text
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return text.lower() in ("true", "yes", "on", "y")
        line = node.start_mark.line + 1
        if tag == _FLOAT and text.lower() in _NOT_JSON:
            raise YAMLError(f"line {line}: json: unsupported value: {text}")
        try:
            if tag in (_INT, _FLOAT):
                return _integer(text) if tag == _INT else _float(text)
            return base64.b64decode(text, validate=True).decode() if tag == _BINARY else text
        except (ValueError, OverflowError) as problem:
            raise YAMLError(f"line {line}: cannot decode {text[:100]!r}") from problem


_NESTING_MARKS: Final = ("[", "{", "- ", "-\t", "? ", "?\t")
_OPENING: Final = (pyyaml.SequenceStartEvent, pyyaml.MappingStartEvent)
_CLOSING: Final = (pyyaml.SequenceEndEvent, pyyaml.MappingEndEvent)


def _may_be_deep(text: str | bytes) -> bool:
    """Whether there are marks or indentation enough to nest beyond the limit."""
    shown = text if isinstance(text, str) else text.decode("latin-1")
    return " " * MAX_DEPTH in shown or sum(shown.count(mark) for mark in _NESTING_MARKS) > MAX_DEPTH


def _check_depth(text: str | bytes) -> None:
    """libyaml's composer recurses on the C stack, which deep nesting would overflow; its events do not."""
    depth = 0
    loader = _Loader(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, _OPENING):
                depth += 1
                if depth > MAX_DEPTH:
                    raise YAMLError("exceeded max depth")
            elif isinstance(event, _CLOSING):
                depth -= 1
    finally:
        loader.dispose()


def load_all(text: str | bytes, duplicates: list[str] | None = None) -> Iterator[Any]:
    """Every document of a stream (empty ones as None). With `duplicates`, paths of repeated keys are collected there instead of
    being an error, and the last value wins. Raises YAMLError."""
    budget = min(MAX_NODES, len(text) + _ALIAS_ALLOWANCE)
    try:
        if _may_be_deep(text):
            _check_depth(text)
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                yield None if node is None else _Builder(budget, duplicates).build(node, "")
        finally:
            loader.dispose()
    except (pyyaml.YAMLError, UnicodeError) as problem:
        raise YAMLError(_describe(problem)) from problem
    except RecursionError:
        raise YAMLError("exceeded max depth") from None


def load(text: str | bytes, duplicates: list[str] | None = None) -> Any:
    """The first document of a stream, or None where there is none."""
    for document in load_all(text, duplicates):
        return document
    return None


def _describe(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    detail = getattr(problem, "problem", None)
    return f"yaml: line {mark.line + 1}: {detail}" if mark is not None and detail else f"yaml: {problem}"
