"""The JSONPath dialect of kubectl, printer columns and feedback rules: templates of text and `{…}` actions. Follows client-go's
`util/jsonpath`.

A template is compiled once into segments: literal text, an action (a chain of steps, each mapping a list of values to a list of
values), or a range with its body. `find` returns the values, `render` the text that kubectl prints. A column's path (`.spec.x`) is
compiled by `compile_path`; a path of plain fields is a loop over keys. Maps are iterated in their own order. Invalid templates
raise JSONPathError at compile time, mismatching data at evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from muster.kube.jsonpathsteps import (
    Chain,
    Constant,
    Field,
    Filter,
    JSONPathError,
    Limit,
    Slice,
    Step,
    TooMuch,
    Union,
    Values,
    recursive,
    wildcard,
    within,
)
from muster.machinery.golang import formatting
from muster.machinery.golang.json import encode_json
from muster.machinery.memo import memoized

__all__ = [
    "MOST",
    "JSONPath",
    "JSONPathError",
    "Limit",
    "TooMuch",
    "UnknownIdentifier",
    "compile_path",
    "compile_template",
    "relaxed",
]

MOST: Final = 500_000
"""The most values that a path may visit: more than a reasonable one finds in the largest object."""
_SLICE: Final = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?", re.ASCII)
_DICT_KEY: Final = re.compile(r"'([^']*)'")
_FILTER: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)", re.DOTALL)
_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_RELAXED: Final = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)", re.DOTALL)


# Templates -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Range:
    over: Chain
    body: tuple[_Segment, ...]


_Segment = str | Chain | _Range


@dataclass(frozen=True, slots=True)
class JSONPath:
    """A compiled template. `keys` is set where it is a single plain path."""

    segments: tuple[_Segment, ...]
    keys: tuple[str, ...] | None = None
    most: int | None = None
    """The most values to visit; None: unlimited."""

    def find(self, document: Any, missing: bool = True, limit: Limit | None = None) -> Values:
        """All values the actions select, in order. With `missing`, absent keys select nothing; without, they are an error."""
        if self.keys is not None:
            for key in self.keys:
                if not isinstance(document, dict) or key not in document:
                    if missing:
                        return []
                    raise JSONPathError(f"{key} is not found")
                document = document[key]
            return [document]
        return [value for values in self.results(document, missing, limit) for value in values]

    def results(self, document: Any, missing: bool = True, limit: Limit | None = None) -> Iterator[Values]:
        """The values of each segment; literal text counts as a value. With `limit` it shares that with others."""
        if limit is None and self.most is not None:
            limit = Limit(self.most)
        yield from _results(self.segments, document, missing, limit)

    def render(self, document: Any, missing: bool = True) -> str:
        """What kubectl prints: values of an action separated by spaces, maps and lists as JSON."""
        return "".join(" ".join(map(_printed, values)) for values in self.results(document, missing))


def _results(segments: tuple[_Segment, ...], document: Any, missing: bool, limit: Limit | None) -> Iterator[Values]:
    for segment in segments:
        if limit is not None:
            limit.spend(1)
        if isinstance(segment, str):
            yield [segment]
        elif isinstance(segment, _Range):
            for value in _selected(segment.over, document, missing, limit):
                yield from _results(segment.body, value, missing, limit)
        else:
            yield _selected(segment, document, missing, limit)


def _selected(chain: Chain, document: Any, missing: bool, limit: Limit | None) -> Values:
    with within(limit):
        return chain([document], missing)


def _printed(value: Any) -> str:
    if isinstance(value, dict | list):
        return encode_json(value)
    return "null" if value is None else formatting.text(value)


class UnknownIdentifier(JSONPathError):
    """A bare word that is no keyword. It is detected without data, though Go's library reports it only when it evaluates data."""


# Parsing ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Keyword:
    """`range` or `end` inside an action."""

    name: str


class _ActionParser:
    """Reads the inside of one `{…}` from `position` on; leaves `position` behind the closing brace."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def parse(self) -> list[Step | _Keyword]:
        steps: list[Step | _Keyword] = []
        while True:
            rest = self.text[self.position : self.position + 3]
            mark = rest[:1]
            if mark == "}":
                self.position += 1
                return steps
            if rest == "[?(":
                steps.append(self.filter())
            elif rest[:2] == "..":
                if steps and steps[-1] is recursive:
                    raise JSONPathError("invalid multiple recursive descent")
                self.position += 2
                steps.append(recursive)
                following = self.text[self.position : self.position + 1]
                if following == "_" or following.isalnum():
                    steps.append(self.field())
            elif not mark or mark in "\r\n":
                raise JSONPathError("unclosed action")
            elif mark in " @$":
                self.position += 1
            elif mark == "[":
                steps += self.brackets()
            elif mark in "\"'":
                steps.append(Constant(self.quoted(mark)))
            elif mark == ".":
                self.position += 1
                steps.append(self.field())
            elif mark in "+-" or mark.isdigit():
                steps.append(Constant(self.number()))
            elif mark == "_" or mark.isalnum():
                steps.append(self.identifier())
            else:
                raise JSONPathError(f"unrecognized character in action: U+{ord(mark):04X} '{mark}'")

    def word(self) -> str:
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in _TERMINATORS:
            self.position += 2 if self.text[self.position] == "\\" else 1
        self.position = min(self.position, len(self.text))
        return self.text[start : self.position]

    def field(self) -> Step:
        name = self.word()
        return wildcard if name == "*" else Field(name.replace("\\", ""))

    def identifier(self) -> Step | _Keyword:
        name = self.word()
        return Constant(name == "true") if name in ("true", "false") else _Keyword(name)

    def number(self) -> int | float:
        start = self.position
        self.position += self.text[start] in "+-"
        while self.text[self.position : self.position + 1].isdigit() or self.text[self.position : self.position + 1] == ".":
            self.position += 1
        text = self.text[start : self.position]
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            raise JSONPathError(f"cannot parse number {text}") from None

    def quoted(self, quote: str) -> str:
        start = self.position
        while True:
            self.position += 1
            mark = self.text[self.position : self.position + 1]
            if not mark or mark == "\n":
                raise JSONPathError("unterminated quoted string")
            if mark == quote and self.text[self.position - 1] != "\\":
                break
        self.position += 1
        return _unquoted(self.text[start : self.position])

    def brackets(self) -> list[Step]:
        end = self.text.find("]", self.position)
        if end < 0 or "\n" in self.text[self.position : end]:
            raise JSONPathError("unterminated array")
        inside = self.text[self.position + 1 : end]
        self.position = end + 1
        if "," in inside:
            return [Union(tuple(_action(f"[{part.strip(' ')}]") for part in inside.split(",")))]
        if named := _DICT_KEY.fullmatch(inside):
            return list(_action(f".{named[1]}").steps)
        found = _SLICE.fullmatch(":" if inside == "*" else inside)
        if found is None:
            raise JSONPathError(f"invalid array index {inside}")
        start, stop, step = (int(part) if part not in (None, "", "-") else None for part in found.groups())
        return [Slice(start, stop, step, single=found[2] is None)]

    def filter(self) -> Step:
        start = self.position + 3
        position, quote, closed = start, "", False
        while True:
            mark = self.text[position : position + 1]
            if not mark or mark == "\n":
                raise JSONPathError("unterminated filter")
            if mark in "\"'":
                if not quote:
                    quote = mark
                elif mark == quote and self.text[position - 1] != "\\":
                    closed = True
            elif mark == ")" and bool(quote) == closed:
                break
            position += 1
        if self.text[position + 1 : position + 2] != "]":
            raise JSONPathError("unclosed array expect ]")
        inside = self.text[start:position]
        self.position = position + 2
        if found := _FILTER.fullmatch(inside):
            return Filter(_action(found[1]), found[2], _action(found[3]))
        return Filter(_action(inside), "", Chain(()))


def _unquoted(text: str) -> str:
    quote, inside = text[0], text[1:-1]
    if "\\" not in inside:
        return inside

    def plain(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            return chr(int(code, 16))
        if found[4]:
            return chr(int(found[4], 8))
        if found[5] == quote or found[5] in _ESCAPES:
            return _ESCAPES.get(found[5], quote)
        raise JSONPathError(f"unquote string {text} error invalid syntax")

    try:
        return _ESCAPE.sub(plain, inside)
    except ValueError as problem:
        if isinstance(problem, JSONPathError):
            raise
        raise JSONPathError(f"unquote string {text} error invalid syntax") from None


def _action(inside: str) -> Chain:
    """A part of an action that is an action of its own: a side of a filter, a member of a union."""
    return _chain(_ActionParser(inside + "}", 0).parse())


def _chain(steps: list[Step | _Keyword]) -> Chain:
    made: list[Step] = []
    for step in steps:
        if isinstance(step, _Keyword):
            raise UnknownIdentifier(f"unrecognized identifier {step.name}")
        made.append(step)
    return Chain(tuple(made))


def _parse(text: str) -> tuple[_Segment, ...]:
    """Segments of a template; `{range}` opens a body that `{end}` closes (the end of the text closes it too)."""
    open_bodies: list[tuple[Chain | None, list[_Segment]]] = [(None, [])]
    position = 0
    while position < len(text):
        brace = text.find("{", position)
        if brace != position:
            open_bodies[-1][1].append(text[position:] if brace < 0 else text[position:brace])
        if brace < 0:
            break
        parser = _ActionParser(text, brace + 1)
        steps = parser.parse()
        position = parser.position
        names = [step.name for step in steps if isinstance(step, _Keyword)]
        if names == ["range"] and isinstance(steps[0], _Keyword):
            open_bodies.append((_chain(steps[1:]), []))
        elif names == ["end"]:
            if len(open_bodies) == 1:
                raise JSONPathError("not in range, nothing to end")
            _close(open_bodies)
        else:
            open_bodies[-1][1].append(_chain(steps))
    while len(open_bodies) > 1:
        _close(open_bodies)
    return tuple(open_bodies[0][1])


def _close(open_bodies: list[tuple[Chain | None, list[_Segment]]]) -> None:
    over, body = open_bodies.pop()
    assert over is not None
    open_bodies[-1][1].append(_Range(over, tuple(body)))


@memoized(1024, 4096)
def compile_template(text: str) -> JSONPath:
    """`{.items[*].metadata.name}{"\\n"}` and the like. Raises JSONPathError."""
    segments = _parse(text)
    keys: tuple[str, ...] | None = None
    if len(segments) == 1 and isinstance(segments[0], Chain):
        steps = segments[0].steps
        names = [step.name for step in steps if isinstance(step, Field) and step.name]
        if steps and len(names) == len(steps):
            keys = tuple(names)
    return JSONPath(segments, keys)


def compile_path(path: str) -> JSONPath:
    """The path of a printer column or selectable field, without braces: `.spec.replicas`. Raises JSONPathError.

    Users who are not trusted by the evaluating process write paths, so the number of visited values is limited.
    """
    return replace(compile_template("{" + path + "}"), most=MOST)


def relaxed(text: str) -> str:
    """kubectl's lenient spellings of one path (`x.y`, `.x.y`, `{x.y}`) as a template."""
    if not text:
        return text
    found = _RELAXED.fullmatch(text)
    if found is None:
        raise JSONPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        )
    return "{." + (found[1] or found[2]) + "}"
