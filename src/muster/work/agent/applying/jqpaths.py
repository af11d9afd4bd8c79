"""jq paths, as far as they say where something is: enough to take it out of a manifest.

Understood are fields (`.a.b`, `."a.b"`, `.["a.b"]`), elements (`.[0]`, `.[-1]`), all of them (`.[]`, `[]`), pipes, alternatives
with a comma, `?`, and `select` by comparing a path with a constant: `.spec.containers[] | select(.name == "app") | .image`. The
rest of jq can compute for ever and is refused by name. As in jq, walking into a value of the wrong type is an error unless `?`
follows, and a field of nothing is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from muster.kube.jsonpath import Limit, TooMuch

Path = tuple[str | int, ...]
_Walk = Callable[[Any, Path], Iterator[tuple[Any, Path]]]
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>==|!=|\.\.|[.\[\]|,?()]))"""
)
_CONSTANTS: Final = {"null": None, "true": True, "false": False}


class JqError(Exception):
    """An expression that is not a path, or that does not fit the document."""


def delete_path(document: Any, expression: str, limit: Limit) -> None:
    """`del(expression)`, in place."""
    parser = _Parser(expression, limit)
    walk = parser.alternatives()
    parser.end()
    try:
        paths = {path for _, path in walk(document, ())}
    except TooMuch as error:
        raise JqError(str(error)) from error
    # From behind, so that places before stay what they are.
    for path in sorted(paths, key=_order, reverse=True):
        if not path:
            raise JqError("it selects the whole object")
        holder: Any = document
        for part in path[:-1]:
            holder = holder.get(part) if isinstance(holder, dict) else holder[part] if holder else None
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
        elif isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder):
            del holder[path[-1]]


def _order(path: Path) -> list[tuple[int, int, str]]:
    return [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in path]


class _Parser:
    def __init__(self, text: str, limit: Limit) -> None:
        self._limit = limit
        self._tokens: list[tuple[str, str]] = []
        position = 0
        text = text.strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise JqError(f"unexpected {text[position : position + 10]!r}: only paths are understood")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()
        self._at = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise JqError(f"unexpected {self._tokens[self._at][1]!r}: only paths are understood")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end")

    def _take(self, sign: str) -> bool:
        if self._peek() != ("sign", sign):
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise JqError(f"{sign!r} is expected, not {self._peek()[1]!r}")

    def alternatives(self) -> _Walk:
        # In jq a pipe binds more loosely than a comma.
        walks = [self._comma()]
        while self._take("|"):
            walks.append(self._comma())
        return _chain(walks, self._limit)

    def _comma(self) -> _Walk:
        walks = [self._term()]
        while self._take(","):
            walks.append(self._term())
        return walks[0] if len(walks) == 1 else _each(walks)

    def _term(self) -> _Walk:
        kind, text = self._peek()
        if self._take("("):
            inner = self.alternatives()
            self._expect(")")
            return self._suffixes([inner])
        if (kind, text) == ("word", "select"):
            self._at += 1
            return self._select()
        if kind == "field":
            return self._suffixes([])
        if self._take("."):
            kind, text = self._peek()
            if kind == "string":
                self._at += 1
                return self._suffixes([_field(orjson.loads(text))])
            return self._suffixes([])
        raise JqError(f"{text!r} is not a path" if kind != "end" else "a path is missing")

    def _suffixes(self, steps: list[_Walk]) -> _Walk:
        while True:
            kind, text = self._peek()
            if kind == "field":
                self._at += 1
                steps.append(_field(text[1:]))
            elif self._take("["):
                steps.append(self._bracket())
            elif self._take("?"):
                if steps:
                    steps.append(_forgiving(steps.pop()))
            elif (kind, text) == ("sign", ".") and self._tokens[self._at + 1 : self._at + 2]:
                self._at += 1
                kind, text = self._peek()
                if kind == "string":
                    self._at += 1
                    steps.append(_field(orjson.loads(text)))
                elif text != "[":
                    raise JqError(f"the name of a field is expected, not {text!r}")
            else:
                return _chain(steps, self._limit)

    def _bracket(self) -> _Walk:
        if self._take("]"):
            return _all
        kind, text = self._peek()
        self._at += 1
        if kind == "string":
            step = _field(orjson.loads(text))
        elif kind == "number" and "." not in text:
            step = _element(int(text))
        else:
            raise JqError(f"a name or a number is expected between brackets, not {text!r}")
        self._expect("]")
        return step

    def _select(self) -> _Walk:
        self._expect("(")
        tested = self.alternatives()
        equal: bool | None = True if self._take("==") else False if self._take("!=") else None
        constant = self._constant() if equal is not None else None
        self._expect(")")

        def walk(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
            for found, _ in tested(value, ()):
                if (found not in (None, False)) if equal is None else (found == constant) is equal:
                    yield value, path

        return walk

    def _constant(self) -> Any:
        kind, text = self._peek()
        self._at += 1
        if kind in ("string", "number"):
            return orjson.loads(text)
        if kind == "word" and text in _CONSTANTS:
            return _CONSTANTS[text]
        raise JqError(f"select compares with a constant, not with {text!r}")


def _chain(walks: list[_Walk], limit: Limit) -> _Walk:
    def walk(value: Any, path: Path, at: int = 0) -> Iterator[tuple[Any, Path]]:
        if at == len(walks):
            yield value, path
            return
        for found, where in walks[at](value, path):
            limit.spend(1)
            yield from walk(found, where, at + 1)

    return walk


def _each(walks: list[_Walk]) -> _Walk:
    def walk(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
        for step in walks:
            yield from step(value, path)

    return walk


def _forgiving(step: _Walk) -> _Walk:
    def walk(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
        try:
            yield from step(value, path)
        except JqError:
            return

    return walk


def _field(name: str) -> _Walk:
    def walk(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
        if value is not None and not isinstance(value, dict):
            raise JqError(f"{_type(value)} has no field {name!r}")
        yield (value or {}).get(name), (*path, name)

    return walk


def _element(index: int) -> _Walk:
    def walk(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
        if value is not None and not isinstance(value, list):
            raise JqError(f"{_type(value)} has no element {index}")
        elements = value or []
        position = index if index >= 0 else index + len(elements)
        if 0 <= position < len(elements):
            yield elements[position], (*path, position)

    return walk


def _all(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    if isinstance(value, dict):
        yield from ((item, (*path, key)) for key, item in list(value.items()))
    elif isinstance(value, list):
        yield from ((item, (*path, position)) for position, item in enumerate(list(value)))
    else:
        raise JqError(f"{_type(value)} has no elements")


def _type(value: Any) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
