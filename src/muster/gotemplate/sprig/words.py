"""sprig's conversions of word styles: title, camelcase, snakecase, kebabcase…

camelcase, snakecase and kebabcase follow the word boundaries of the Go library xstrings 1.5, swapcase and untitle those of goutils;
users rely on the exact results, including their peculiarities.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.gotemplate.signature import FuncTable
from muster.machinery.golang import unicode
from muster.machinery.golang.text import joined

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
        # xstrings writes the last connector twice if there is nothing else.
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


def _next_valid(text: str, at: int, previous: str) -> tuple[str, int]:
    """The next rune that is UTF-8, and the size up to its end; without one, the previous rune and all that is left."""
    for end in range(at, len(text)):
        if text[end] != "�" and not "\udc80" <= text[end] <= "\udcff":
            return text[end], end + 1 - at
    return previous, len(text) - at


def _while(text: str, size: int, char: str, inside: Callable[[str], bool]) -> int:
    while size < len(text):
        char, width = _next_valid(text, size, char)
        if not inside(char):
            break
        size += width
    return size


def _is_small(char: str) -> bool:
    return _is_alphabet(char) and not unicode.is_upper(char)


def _is_other(char: str) -> bool:
    return not (_is_connector(char) or _is_alphabet(char) or unicode.is_number(char) or unicode.is_punct(char))


def _next_word(text: str) -> tuple[int, int]:
    """The kind of the word at the start of the text, and its length."""
    char, size = _next_valid(text, 0, "�")
    if char == "�":
        return _INVALID, size
    if unicode.is_upper(char):
        return _UPPER, _upper_word(text, size, char)
    for kind, starts, inside in (
        (_CONNECTOR, _is_connector, _is_connector),
        (_PUNCT, unicode.is_punct, unicode.is_punct),
        (_LETTERS, _is_alphabet, _is_small),
        (_NUMBER, unicode.is_number, unicode.is_number),
    ):
        if starts(char):
            return kind, _while(text, size, char, inside)
    return _OTHER, _while(text, size, char, _is_other)


def _upper_word(text: str, size: int, char: str) -> int:
    if size == len(text):
        return size
    char, width = _next_valid(text, size, char)
    if not unicode.is_upper(char):
        return _while(text, size + width, char, _is_small) if _is_alphabet(char) else size
    while unicode.is_upper(char):
        size, last = size + width, width
        if size == len(text):
            return size
        char, width = _next_valid(text, size, char)
    # "HTTPStatus" is HTTP and Status: the last capital belongs to the next word.
    return size - last if _is_alphabet(char) else size


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
        for char in _runes(word):
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
    return joined(_Splitter(text, "_").run())


@WORDS.add("kebabcase", "string", "string")
def kebabcase(text: str) -> str:
    return joined(_Splitter(text, "-").run())
