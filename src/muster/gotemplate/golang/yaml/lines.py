"""Line-by-line decoding of simple documents, as emitters and most users write them.

Block mappings and sequences, scalars on one line, literals without an indentation indicator, and flow collections on one line.
Everything else, and everything that is or could be an error, is `UNSURE` and left to the real parser, so results here are always
equal to the parser's. Invariant: a value is complete with its line, so the next line that is neither empty nor a comment starts in
the column of an open collection, or opens one under a key or dash that has no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from muster.gotemplate.golang.yaml.characters import POSSESSIVE, possessive
from muster.gotemplate.golang.yaml.decoder import decode
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.parser import Parser
from muster.gotemplate.golang.yaml.scalars import plain
from muster.gotemplate.limits import charge

UNSURE: Final = object()
MAX_DEPTH: Final = 100
_LONGEST_KEY: Final = 1000
_CHARGED_LINES: Final = 64
"""The number of lines that are charged together."""
_OTHER_CHARACTERS: Final = re.compile("[^\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]").search
_LINE: Final = possessive(
    r"(?P<indent> *+)(?P<dash>- ++|-\Z)?+"
    r"(?:(?:(?P<key>[A-Za-z_$/][A-Za-z0-9_./$@%+=()~-]*+)|\"(?P<double_key>[^\"\\]*+)\"|'(?P<single_key>[^']*+)'):(?: ++|\Z))?"
    r"(?:(?P<plain>(?:[^ \-?:,\[\]{}#&*!|>'\"%@`]|-(?=[^ ]))(?:[^ :]++|:(?=[^ ])| ++(?=[^ #]))*+)"
    r"|'(?P<single>(?:[^']++|'')*+)'"
    r"|\"(?P<double>(?:[^\"\\]++|\\.)*+)\""
    r"|\|(?P<literal>[-+]?+)"
    r"|(?P<flow>[\[{].*[\]}])"
    r")?+(?: ++#.*|(?<= )#.*| *+)\Z"
).match
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'", " ": " ", "0": "\0", "b": "\b", "f": "\f", "e": "\x1b",
}  # fmt: skip
_NO_STRINGS: Final = frozenset(("true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"))
_NO_KEY: Final = object()


class _Unsure(Exception):
    """The text must be left to the real parser."""


def read_lines(text: str) -> Any:
    """The value of a document, or UNSURE."""
    if not POSSESSIVE:
        return UNSURE
    if text.isascii():
        if not text.replace("\n", "").isprintable():
            return UNSURE
    elif _OTHER_CHARACTERS(text):
        return UNSURE
    try:
        if text[:1] in ("{", "["):
            return _json(text.rstrip(" \n"))
        return _Lines(text.split("\n")).read()
    except _Unsure:
        return UNSURE


class _Lines:
    """Reads lines with a stack of the open collections: their columns, and the lists and dicts."""

    def __init__(self, lines: list[str]) -> None:
        self._terminated = lines[-1] == ""
        if self._terminated:
            lines.pop()
        self._lines = lines
        self._at = 0
        self._columns: list[int] = []
        self._open: list[Any] = []
        self._root: Any = None
        self._key: Any = _NO_KEY
        """Of the innermost dict: the key whose value is on the next lines. In a list, None represents the item that a dash
        began."""

    def read(self) -> Any:
        lines, end = self._lines, len(self._lines)
        while self._at < end:
            line = lines[self._at]
            self._at += 1
            if not self._at % _CHARGED_LINES:
                charge(_CHARGED_LINES)
            found = _LINE(line)
            if found is None:
                _skip(line)
                continue
            indent, dash, key, double_key, single_key = found.group(1, 2, 3, 4, 5)
            kind = found.lastgroup or ""
            if key is None:
                key = double_key if double_key is not None else single_key
                if key is None and dash is None:
                    _skip(line)
                    continue
            elif key in _NO_STRINGS:
                raise _Unsure
            self._settle(len(indent), dash is not None)
            if key is not None:
                if dash is not None:
                    self._push(len(indent) + len(dash), {})
                self._name(key)
            elif kind == "dash":
                self._key = None
            convert = _SCALARS.get(kind)
            if convert is not None:
                self._add(convert(found[kind]))
            elif kind == "literal":
                self._add(self._literal(found[kind]))
        if self._key is not _NO_KEY:
            self._add(None)
        if not self._open:
            raise _Unsure
        return self._root

    def _settle(self, column: int, is_item: bool) -> None:
        """Closes and opens collections until the innermost one is that of a line in this column."""
        columns, opened = self._columns, self._open
        if not opened:
            if self._root is not None:
                raise _Unsure
            self._root = [] if is_item else {}
            columns.append(column)
            opened.append(self._root)
            return
        innermost = columns[-1]
        if self._key is not _NO_KEY:
            if column > innermost or (column == innermost and is_item and opened[-1].__class__ is dict):
                self._push(column, [] if is_item else {})
                return
            self._add(None)
        if column == innermost and (opened[-1].__class__ is list) is is_item:
            return
        while columns and (columns[-1] > column or (columns[-1] == column and not is_item and opened[-1].__class__ is list)):
            columns.pop()
            opened.pop()
        if not columns or columns[-1] != column or (opened[-1].__class__ is list) is not is_item:
            raise _Unsure

    def _push(self, column: int, made: Any) -> None:
        self._add(made)
        self._columns.append(column)
        self._open.append(made)
        if len(self._columns) > MAX_DEPTH:
            raise _Unsure

    def _name(self, key: str) -> None:
        if key in self._open[-1] or len(key) > _LONGEST_KEY:
            raise _Unsure
        self._key = key

    def _add(self, value: Any) -> None:
        innermost = self._open[-1]
        if innermost.__class__ is list:
            innermost.append(value)
        else:
            innermost[self._key] = value
        self._key = _NO_KEY

    def _literal(self, chomping: str) -> str:
        lines, start = self._lines, self._at
        first = lines[start] if start < len(lines) else ""
        text = first.lstrip(" ")
        indent = len(first) - len(text)
        if not text or indent <= self._columns[-1]:
            raise _Unsure
        padding = " " * indent
        at = start
        body = []
        while at < len(lines):
            line = lines[at]
            if line.startswith(padding):
                body.append(line[indent:])
            elif not line.strip(" "):
                body.append("")
            else:
                break
            at += 1
        if at == len(lines) and not self._terminated:
            raise _Unsure
        self._at = at
        kept = len(body)
        while not body[kept - 1]:
            kept -= 1
        if chomping == "+":
            return "\n".join(body) + "\n"
        return "\n".join(body[:kept]) + ("" if chomping else "\n")


def _skip(line: str) -> None:
    text = line.lstrip(" ")
    if text and text[0] != "#":
        raise _Unsure


def _single_quoted(text: str) -> str:
    return text.replace("''", "'")


def _double_quoted(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    if found[4]:
        char = _ESCAPES.get(found[4])
        if char is None:
            raise _Unsure
        return char
    code = int(found[1] or found[2] or found[3], 16)
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise _Unsure
    return chr(code)


def _flow(text: str) -> Any:
    """A flow collection that ends on its line."""
    try:
        return _json(text)
    except _Unsure:
        pass
    parser = Parser(text)
    try:
        node = parser.document()
        if node is None or not parser.is_at_end():
            raise _Unsure
        return decode(node)
    except YAMLError:
        raise _Unsure from None


def _json(text: str) -> Any:
    """JSON is YAML, but for some escapes, duplicate keys and keys of more than 1024 characters."""
    if "\n" in text or _ODD_ESCAPE(text):
        raise _Unsure
    try:
        return _decode_json(text)
    except (ValueError, RecursionError):
        raise _Unsure from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs) or any(len(key) > _LONGEST_KEY for key in made):
        raise _Unsure
    return made


def _integer(text: str) -> Any:
    return int(text) if len(text) < _SHORT_NUMBER else plain(text)


def _constant(text: str) -> Any:
    raise _Unsure


_ODD_ESCAPE: Final = re.compile(r"\\(?:/|u[dD][89a-fA-F])").search
_SHORT_NUMBER: Final = 18
_decode_json: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=plain, parse_constant=_constant
).decode
_SCALARS: Final[dict[str, Callable[[str], Any]]] = {
    "plain": plain, "single": _single_quoted, "double": _double_quoted, "flow": _flow,
}  # fmt: skip
