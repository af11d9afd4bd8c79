"""Go's `regexp` over google-re2, which has the same syntax and semantics and runs in linear time.

Patterns and texts are bytes here, as Go's engine sees them. What differs is done in this module: the loop over
matches (where Go allows an empty match), `$name` in replacements, the texts of errors, and the little syntax that C++
accepts and Go refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import re2

from muster.gotemplate.limits import charge
from muster.machinery.golang import unicode
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import decode, encode

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_MESSAGES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "pattern too large - compile failed": "expression too large",
}
_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_REFUSED = re.compile(
    rb"\\Q.*?(?:\\E|$)|\\(?P<any>C)|\\.|(?P<count>\{[0-9]{9,}(?:,[0-9]*)?\}|\{[0-9]+,[0-9]{9,}\})|(?P<name>\(\?P?<[^>]*>)",
    re.DOTALL,
)
_COUNT = re.compile(r"\{([0-9]+(?:,[0-9]*)?)\}\??\Z")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_WORD = re.compile(rb"[A-Za-z0-9_]+\Z")
Match = tuple[tuple[int, int], ...]


def _error(reason: str, part: str) -> GoError:
    return GoError(f"error parsing regexp: {reason}: `{part}`")


def _refuse_what_go_refuses(pattern: bytes) -> None:
    for found in _REFUSED.finditer(pattern):
        if found["any"]:
            raise _error("invalid escape sequence", "\\C")
        if found["count"]:
            raise _error("invalid repeat count", found["count"].decode())
        if found["name"]:
            name = found["name"].split(b"<", 1)[1][:-1]
            if not _WORD.match(name) and name[:1] not in (b"=", b"!"):
                raise _error("invalid named capture", decode(found["name"]))


def _go_error(message: str, pattern: str) -> GoError:
    reason, _, part = message.partition(": ")
    if reason == "invalid perl operator" and part in ("(?<=", "(?<!"):
        rest = pattern[pattern.index(part) :]
        return _error("invalid named capture", rest[: rest.index(">") + 1] if ">" in rest else rest)
    count = _COUNT.search(part) if reason in ("bad repetition operator", "invalid repetition size") else None
    if count:
        # Go checks the numbers before what they repeat, and before the mark of a lazy repetition.
        numbers = [int(number) for number in count[1].split(",") if number]
        if max(numbers) > 1000 or numbers[0] > numbers[-1]:
            return _error("invalid repeat count", f"{{{count[1]}}}")
    if reason == "invalid UTF-8":
        part = pattern[next(at for at, char in enumerate(pattern) if "\udc80" <= char <= "\udcff") :]
    return _error(_MESSAGES.get(reason, reason), part)


class _Subject:
    """The text that is searched.

    In Go an invalid UTF-8 byte is U+FFFD, which `.` matches; in RE2 nothing matches it. Such bytes are therefore searched as
    U+FFFD, and `cut` returns the original bytes.
    """

    __slots__ = ("_bytes", "_offsets", "data")

    def __init__(self, text: str) -> None:
        self.data = encode(text)
        self._offsets: dict[int, int] | None = None
        if text.isascii() or not _ESCAPED_BYTE.search(text):
            return
        self._bytes = self.data
        self._offsets, original = {0: 0}, 0
        data = bytearray()
        for char in text:
            escaped = "\udc80" <= char <= "\udcff"
            encoded = "�".encode() if escaped else encode(char)
            data += encoded
            original += 1 if escaped else len(encoded)
            self._offsets[len(data)] = original
        self.data = bytes(data)

    def cut(self, start: int, end: int) -> bytes:
        if self._offsets is None:
            return self.data[start:end]
        return self._bytes[self._offsets[start] : self._offsets[end]]


class Regexp:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        data = encode(pattern)
        try:
            self._compiled: Any = re2.compile(data, _OPTIONS)
        except re2.error as error:
            text = error.args[0]
            raise _go_error(decode(text) if isinstance(text, bytes) else str(text), pattern) from None
        _refuse_what_go_refuses(data)

    def _search(self, data: bytes, start: int) -> Match | None:
        found = self._compiled.search(data, start)
        if found is None:
            return None
        return tuple(found.span(group) for group in range(self._compiled.groups + 1))

    def matches(self, text: str) -> bool:
        return self._compiled.search(_Subject(text).data) is not None

    def find(self, text: str) -> str:
        subject = _Subject(text)
        found = self._search(subject.data, 0)
        return decode(subject.cut(*found[0])) if found else ""

    def _all(self, data: bytes, count: int) -> Iterator[Match]:
        position, delivered, previous_end = 0, 0, -1
        limit = len(data) + 1 if count < 0 else count
        while delivered < limit and position <= len(data):
            found = self._search(data, position)
            if found is None:
                return
            start, end = found[0]
            accept = True
            if end == position:
                accept = start != previous_end
                position += _rune_width(data, position) or 1
            else:
                position = end
            previous_end = end
            if accept:
                charge(1)
                yield found
                delivered += 1

    def find_all(self, text: str, count: int) -> list[str] | None:
        subject = _Subject(text)
        return [decode(subject.cut(*match[0])) for match in self._all(subject.data, count)] or None

    def find_all_groups(self, text: str) -> list[tuple[str, ...]]:
        """The groups of all matches (`FindAllStringSubmatch`, without the whole match)."""
        subject = _Subject(text)
        return [tuple(decode(subject.cut(*span)) for span in match[1:]) for match in self._all(subject.data, -1)]

    def split(self, text: str, count: int) -> list[str] | None:
        if count == 0:
            return None
        if self.pattern and not text:
            return [""]
        subject, begin, end = _Subject(text), 0, 0
        parts: list[str] = []
        for match in self._all(subject.data, count):
            if count > 0 and len(parts) >= count - 1:
                break
            end = match[0][0]
            if match[0][1] != 0:
                parts.append(decode(subject.cut(begin, end)))
            begin = match[0][1]
        if end != len(subject.data):
            parts.append(decode(subject.cut(begin, len(subject.data))))
        return parts

    def _replace(self, text: str, replacement: Callable[[_Subject, Match], bytes]) -> str:
        subject, out, last_end, position = _Subject(text), bytearray(), 0, 0
        size = len(subject.data)
        while position <= size:
            found = self._search(subject.data, position)
            if found is None:
                break
            charge(1)
            start, end = found[0]
            out += subject.cut(last_end, start)
            if end > last_end or start == 0:
                out += replacement(subject, found)
            last_end = end
            width = _rune_width(subject.data, position)
            if position + width > end:
                position += width
            else:
                position = position + 1 if position + 1 > end else end
        out += subject.cut(last_end, size)
        return decode(bytes(out))

    def replace_literal(self, text: str, replacement: str) -> str:
        data = encode(replacement)
        return self._replace(text, lambda _subject, _match: data)

    def replace(self, text: str, template: str) -> str:
        parts = _template_parts(template)
        names: dict[str, int] = {decode(_as_bytes(name)): at for name, at in self._compiled.groupindex.items()}

        def expand(subject: _Subject, match: Match) -> bytes:
            out = b""
            for part in parts:
                if isinstance(part, bytes):
                    out += part
                    continue
                group = part if isinstance(part, int) else names.get(part, -1)
                if 0 <= group < len(match) and match[group][0] >= 0:
                    out += subject.cut(*match[group])
            return out

        return self._replace(text, expand)


def _as_bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def _rune_width(data: bytes, position: int) -> int:
    """The number of bytes of the rune at this position; an invalid byte counts as one; 0 at the end."""
    if position >= len(data):
        return 0
    lead = data[position]
    width = 1 if lead < 0xC2 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4 if lead < 0xF5 else 1
    try:
        data[position : position + width].decode()
    except UnicodeDecodeError:
        return 1
    return width


@lru_cache(maxsize=256)
def _template_parts(template: str) -> tuple[bytes | int | str, ...]:
    """A replacement as literal bytes, group numbers and group names."""
    parts: list[bytes | int | str] = []
    rest = template
    while True:
        before, dollar, after = rest.partition("$")
        parts.append(encode(before))
        if not dollar:
            return tuple(parts)
        rest = after
        if rest.startswith("$"):
            parts.append(b"$")
            rest = rest[1:]
            continue
        brace = rest.startswith("{")
        body = rest[1:] if brace else rest
        size = 0
        while size < len(body) and (unicode.is_letter(body[size]) or unicode.is_digit(body[size]) or body[size] == "_"):
            size += 1
        if size == 0 or (brace and body[size : size + 1] != "}"):
            parts.append(b"$")
            continue
        name = body[:size]
        rest = body[size + brace :]
        number = name.isascii() and name.isdigit() and len(name) <= 9 and (name[0] != "0" or len(name) == 1)
        parts.append(int(name) if number else name)


@lru_cache(maxsize=512)
def compile(pattern: str) -> Regexp:
    """`regexp.Compile`, with a cache."""
    return Regexp(pattern)


def quote_meta(text: str) -> str:
    return "".join("\\" + char if char in _SPECIAL else char for char in text)
