"""sprig's conversions between ways of writing words: title, camelcase, snakecase, kebabcase…

camelcase, snakecase and kebabcase follow the word boundaries of the Go library xstrings 1.5, swapcase and untitle those
of goutils; both are peculiar, and users rely on the exact result.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.gotemplate.golang import unicode
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import joined

WORDS = FuncTable()
_INVALID, _NUMBER, _UPPER, _LETTERS, _CONNECTOR, _PUNCT, _OTHER = range(7)


def _runes(text: str) -> str:
    """The text as Go's []rune sees it: bytes that are not UTF-8 become U+FFFD."""
    return text if text.isascii() else "".join("�" if "\udc80" <= c <= "\udcff" else c for c in text)


@WORDS.add("title", "string", "string")
def title(text: str) -> str:
    out, previous = [], " "
    for char in _runes(text):
        out.append(unicode.to_title(char) if _is_separator(previous) else char)
        previous = char
    return "".join(out)


def _is_separator(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not (unicode.is_letter(char) or unicode.is_digit(char)) and unicode.is_space(char)


@WORDS.add("untitle", "string", "string")
def untitle(text: str) -> str:
    out, at_start = [], True
    for char in _runes(text):
        if unicode.is_space(char):
            at_start = True
        elif at_start:
            char, at_start = unicode.to_lower(char), False
        out.append(char)
    return "".join(out)


@WORDS.add("swapcase", "string", "string")
def swapcase(text: str) -> str:
    out, after_space = [], True
    for char in _runes(text):
        if unicode.is_upper(char) or unicode.is_title(char):
            out.append(unicode.to_lower(char))
            after_space = False
        elif unicode.is_lower(char):
            out.append(unicode.to_title(char) if after_space else unicode.to_upper(char))
            after_space = False
        else:
            out.append(char)
            after_space = unicode.is_space(char)
    return "".join(out)


def _is_connector(char: str) -> bool:
    return char in "-_" or unicode.is_space(char)


@WORDS.add("camelcase", "string", "string")
def camelcase(text: str) -> str:
    text = _runes(text)
    if not text:
        return ""
    start = 0
    while start < len(text) and _is_connector(text[start]):
        start += 1
    out = list(text[:start])
    if start == len(text):
        # xstrings writes the last connector twice when there is nothing else.
        return "".join(out) + text[-1]
    first_upper = unicode.is_upper(text[start])
    current = unicode.to_upper(text[start])
    for char in text[start + 1 :]:
        previous, current = current, char
        if _is_connector(current) and _is_connector(previous):
            out.append(previous)
            continue
        if _is_connector(previous):
            first_upper = unicode.is_upper(current)
            current = unicode.to_upper(current)
            continue
        if first_upper:
            if unicode.is_upper(current):
                current = unicode.to_lower(current)
            else:
                first_upper = False
        out.append(previous)
    out.append(current)
    return "".join(out)


_IDEOGRAPHS = ((0x3400, 0x4D85), (0x4E00, 0x9FCC), (0x20000, 0x2B81D))


def _is_alphabet(char: str) -> bool:
    """A letter that is no ideograph."""
    return unicode.is_letter(char) and not any(low <= ord(char) <= high for low, high in _IDEOGRAPHS)


def _next_word(text: str) -> tuple[int, int]:
    """The kind of the word at the start of the text, and its length."""
    char = text[0]
    if char == "�":
        return _INVALID, 1
    if _is_connector(char):
        return _CONNECTOR, _while(text, _is_connector)
    if unicode.is_punct(char):
        return _PUNCT, _while(text, unicode.is_punct)
    if unicode.is_upper(char):
        return _UPPER, _upper_word(text)
    if _is_alphabet(char):
        return _LETTERS, _while(text, lambda c: _is_alphabet(c) and not unicode.is_upper(c))
    if unicode.is_number(char):
        return _NUMBER, _while(text, unicode.is_number)

    def other(c: str) -> bool:
        return not (_is_connector(c) or _is_alphabet(c) or unicode.is_number(c) or unicode.is_punct(c))

    return _OTHER, _while(text, other)


def _while(text: str, inside: Callable[[str], bool]) -> int:
    size = 1
    while size < len(text) and inside(text[size]):
        size += 1
    return size


def _upper_word(text: str) -> int:
    if len(text) == 1:
        return 1
    if unicode.is_upper(text[1]):
        size = _while(text, unicode.is_upper)
        # "HTTPStatus" is HTTP and Status: the last capital belongs to the next word.
        return size - 1 if size < len(text) and _is_alphabet(text[size]) else size
    if _is_alphabet(text[1]):
        return _while(text, lambda c: _is_alphabet(c) and not unicode.is_upper(c))
    return 1


class _Splitter:
    def __init__(self, text: str, connector: str) -> None:
        self.rest = text
        self.connector = connector
        self.out: list[str] = []
        self.kind = _INVALID
        self.word = ""

    def advance(self) -> None:
        if not self.rest:
            self.kind, self.word = _INVALID, ""
            return
        self.kind, size = _next_word(self.rest)
        self.word, self.rest = self.rest[:size], self.rest[size:]

    def write(self, kind: int, word: str) -> None:
        if kind not in (_UPPER, _CONNECTOR):
            self.out.append(word)
            return
        for char in word:
            if _is_connector(char):
                self.out.append(self.connector)
            else:
                self.out.append(unicode.to_lower(char) if unicode.is_upper(char) else char)

    def connect_unless(self, *kinds: int) -> None:
        if self.kind not in kinds:
            self.out.append(self.connector)

    def run(self) -> str:
        self.advance()
        while self.rest:
            if self.kind != _CONNECTOR:
                self.write(self.kind, self.word)
            previous, last = self.kind, self.word
            self.advance()
            if previous == _NUMBER:
                self.letters_and_numbers()
                self.connect_unless(_INVALID, _PUNCT, _CONNECTOR)
            elif previous == _CONNECTOR:
                self.write(previous, last)
            elif previous != _PUNCT:
                self.after_word()
        self.write(self.kind, self.word)
        return "".join(self.out)

    def letters_and_numbers(self) -> None:
        while self.kind in (_LETTERS, _NUMBER):
            self.write(self.kind, self.word)
            self.advance()

    def after_word(self) -> None:
        if self.kind != _NUMBER:
            self.connect_unless(_CONNECTOR, _PUNCT)
            return
        if not self.rest:
            return
        number = self.word
        self.advance()
        if self.kind != _LETTERS:
            # The number belongs to the word before it: "Bld4Floor" is bld4_floor.
            self.write(_NUMBER, number)
            self.connect_unless(_CONNECTOR, _PUNCT)
            return
        self.out.append(self.connector)
        self.write(_NUMBER, number)
        self.letters_and_numbers()
        self.connect_unless(_INVALID, _CONNECTOR, _PUNCT)


@WORDS.add("snakecase", "string", "string")
def snakecase(text: str) -> str:
    return joined(_Splitter(_runes(text), "_").run())


@WORDS.add("kebabcase", "string", "string")
def kebabcase(text: str) -> str:
    return joined(_Splitter(_runes(text), "-").run())
