"""YAML with the meaning Kubernetes gives it: a notation for JSON, nothing more.

Map keys are strings, duplicate keys are an error (or collected, for strict decoding that reports all of them), and documents whose
aliases multiply into something huge are refused before they are built. What scalars mean is in `yamlscalars`.
Values are built from libyaml's events as they come: nodes in between would cost five times as much, and a composer's recursion.
`dump` writes block style with sorted keys, as kubectl does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml as pyyaml
from yaml._yaml import CParser

from muster.kube.yamldump import dump, dump_all
from muster.kube.yamlscalars import YAMLError, is_merge, value_of

MAX_NODES: Final = 2_000_000
MAX_DEPTH: Final = 500
MOST_DUPLICATES: Final = 100
_ALIAS_ALLOWANCE: Final = 10_000
_EXCESSIVE: Final = "document contains excessive aliasing"
_TOO_DEEP: Final = "exceeded max depth"
_NO_KEY: Final = object()
_MERGE_KEY: Final = object()


class _Open:
    """A collection that is being built."""

    __slots__ = ("anchor", "before", "height", "key", "made", "merged")

    def __init__(self, made: Any, anchor: str | None, before: int) -> None:
        self.made = made
        self.anchor = anchor
        self.before = before
        """Values built before it."""
        self.height = 0
        self.key: Any = _NO_KEY
        """Of a map: the key whose value comes next."""
        self.merged: list[Any] = []


class _Anchored:
    __slots__ = ("count", "height", "value")

    def __init__(self, value: Any, count: int, height: int) -> None:
        self.value = value
        self.count = count
        self.height = height


class _Builder:
    """Turns the events of one document into plain values, counting what it builds and noting duplicate keys."""

    def __init__(self, parser: CParser, budget: int, duplicates: list[str] | None) -> None:
        self._next: Callable[[], Any] = parser.get_event
        self._budget = budget
        self._duplicates = duplicates
        self._built = 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}

    def build(self) -> Any:
        stack, following = self._stack, self._next
        root: Any = None
        while True:
            event = following()
            kind = event.__class__
            if kind is pyyaml.DocumentEndEvent:
                return root
            top = stack[-1] if stack else None
            if kind is pyyaml.ScalarEvent:
                if top is not None and top.key is _NO_KEY and top.made.__class__ is dict:
                    self._start_field(top, event, _MERGE_KEY if is_merge(event) else value_of(event))
                    continue
                value = value_of(event)
                self._built += 1
                if event.anchor is not None:
                    self._anchor(event, _Anchored(value, 1, 0))
                if top is not None and top.made.__class__ is list and self._built <= self._budget and len(stack) <= MAX_DEPTH:
                    top.made.append(value)
                    top.height = top.height or 1
                    continue
                height = 0
            elif kind is pyyaml.SequenceEndEvent or kind is pyyaml.MappingEndEvent:
                value, height = self._close(stack.pop())
                top = stack[-1] if stack else None
            elif kind is pyyaml.AliasEvent:
                anchored = self._aliased(event)
                if top is not None and top.key is _NO_KEY and top.made.__class__ is dict:
                    self._start_field(top, event, anchored.value)
                    continue
                self._built += anchored.count
                self._check(len(stack) + anchored.height)
                value, height = _copy(anchored.value), anchored.height
            else:
                self._open(event, top)
                continue
            self._check(len(stack))
            if top is None:
                root = value
            else:
                if height >= top.height:
                    top.height = height + 1
                if top.made.__class__ is list:
                    top.made.append(value)
                else:
                    self._end_field(top, value)

    def _check(self, depth: int) -> None:
        if self._built > self._budget:
            raise YAMLError(_EXCESSIVE)
        if depth > MAX_DEPTH:
            raise YAMLError(_TOO_DEEP)

    def _open(self, event: Any, top: _Open | None) -> None:
        if event.__class__ is pyyaml.DocumentStartEvent:
            return
        if top is not None and top.key is _NO_KEY and top.made.__class__ is dict:
            raise YAMLError(f"line {event.start_mark.line + 1}: map keys must be scalars")
        self._check(len(self._stack))
        if event.anchor is not None:
            self._anchor(event, None)
        self._stack.append(_Open({} if event.__class__ is pyyaml.MappingStartEvent else [], event.anchor, self._built))
        self._built += 1

    def _close(self, closed: _Open) -> tuple[Any, int]:
        made = closed.made
        for source in closed.merged:
            if source.__class__ is not dict:
                raise YAMLError("map merge requires map or sequence of maps as the value")
            for key, value in source.items():
                made.setdefault(key, value)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchored(made, self._built - closed.before, closed.height)
        return made, closed.height

    def _start_field(self, top: _Open, event: Any, value: Any) -> None:
        """The next value belongs to this key."""
        if value is _MERGE_KEY:
            top.key = _MERGE_KEY
            return
        if value.__class__ in (dict, list):
            raise YAMLError(f"line {event.start_mark.line + 1}: map keys must be scalars")
        key = top.key = _key(value)
        if event.__class__ is pyyaml.ScalarEvent and event.anchor is not None:
            self._anchor(event, _Anchored(value, 1, 0))
        if key in top.made:
            if self._duplicates is None:
                raise YAMLError(f'line {event.start_mark.line + 1}: key "{key}" already set in map')
            if len(self._duplicates) < MOST_DUPLICATES:
                self._duplicates.append(self._path())

    @staticmethod
    def _end_field(top: _Open, value: Any) -> None:
        if top.key is _MERGE_KEY:
            top.merged += value if value.__class__ is list else [value]
        else:
            top.made[top.key] = value
        top.key = _NO_KEY

    def _path(self) -> str:
        """Where the key is that was just read. Merged maps are where they are merged into."""
        path = ""
        merging = False
        for level in self._stack:
            if level.made.__class__ is list:
                path += "" if merging else f"[{len(level.made)}]"
                merging = False
            elif not (merging := level.key is _MERGE_KEY):
                path += f".{level.key}" if path else level.key
        return path

    def _anchor(self, event: Any, anchored: _Anchored | None) -> None:
        if event.anchor in self._anchors:
            raise YAMLError(f"yaml: line {event.start_mark.line + 1}: found duplicate anchor")
        self._anchors[event.anchor] = anchored

    def _aliased(self, event: Any) -> _Anchored:
        if event.anchor not in self._anchors:
            raise YAMLError(f"yaml: line {event.start_mark.line + 1}: found undefined alias")
        anchored = self._anchors[event.anchor]
        if anchored is None or self._built + anchored.count > self._budget:  # None: it is inside itself.
            raise YAMLError(_EXCESSIVE)
        return anchored


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _copy(value: Any) -> Any:
    if value.__class__ is dict:
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if value.__class__ is list else value


def load_all(text: str | bytes, duplicates: list[str] | None = None) -> Iterator[Any]:
    """Every document of a stream (empty ones as None). With `duplicates`, paths of repeated keys are collected there instead of
    being an error, and the last value wins. Raises YAMLError."""
    budget = min(MAX_NODES, len(text) + _ALIAS_ALLOWANCE)
    try:
        parser = CParser(text)
        parser.get_event()
        while not parser.check_event(pyyaml.StreamEndEvent):
            yield _Builder(parser, budget, duplicates).build()
    except (pyyaml.YAMLError, UnicodeError) as problem:
        raise YAMLError(_describe(problem)) from problem


def load(text: str | bytes, duplicates: list[str] | None = None) -> Any:
    """The first document of a stream, or None where there is none."""
    for document in load_all(text, duplicates):
        return document
    return None


def _describe(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    detail = getattr(problem, "problem", None)
    return f"yaml: line {mark.line + 1}: {detail}" if mark is not None and detail else f"yaml: {problem}"


__all__ = ["YAMLError", "dump", "dump_all", "load", "load_all"]
