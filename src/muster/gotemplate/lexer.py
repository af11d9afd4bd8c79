"""Splits template text into tokens, by the rules of Go's text/template/parse/lex.go.

The text is scanned once, before parsing. A lexical error is the last token of the list: the parser reaches it at the same point as
Go's, so earlier syntax errors take precedence. Positions are offsets in the text; `line` is the 1-based line on which the token
starts. Invariant: the list ends with EOF or ERROR.
"""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from muster.machinery.golang import unicode
from muster.machinery.golang.quoting import quote

ERROR, BOOL, CHAR, CHAR_CONSTANT, COMPLEX, ASSIGN, DECLARE, EOF, FIELD, IDENTIFIER = range(10)
LEFT_DELIM, LEFT_PAREN, NUMBER, PIPE, RAW_STRING, RIGHT_DELIM, RIGHT_PAREN, SPACE, STRING, TEXT, VARIABLE = range(10, 21)
KEYWORD = 21
BLOCK, BREAK, CONTINUE, DOT, DEFINE, ELSE, END, IF, NIL, RANGE, TEMPLATE, WITH = range(22, 34)

KEYWORDS = {
    "block": BLOCK, "break": BREAK, "continue": CONTINUE, "define": DEFINE, "else": ELSE, "end": END, "if": IF,
    "nil": NIL, "range": RANGE, "template": TEMPLATE, "with": WITH, "true": BOOL, "false": BOOL,
}  # fmt: skip

_SPACES = " \t\r\n"
_TERMINATORS = frozenset(_SPACES + ".,|:)(")
_SINGLE = {"=": ASSIGN, "|": PIPE}
_SPACE_RUN = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[A-Za-z0-9_]*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_CHAR_QUOTED = re.compile(r"'(?:[^'\\\n]|\\[^\n])*'")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)


class Token(NamedTuple):
    kind: int
    pos: int
    text: str
    line: int

    def __str__(self) -> str:
        if self.kind == EOF:
            return "EOF"
        if self.kind == ERROR:
            return self.text
        if self.kind > KEYWORD:
            return f"<{self.text}>"
        if len(self.text.encode("utf-8", "surrogateescape")) > 10:
            return quote(self.text[:10]) + "..."
        return quote(self.text)


def is_alphanumeric(char: str) -> bool:
    return char == "_" or unicode.is_letter(char) or unicode.is_digit(char)


def describe_rune(char: str) -> str:
    """A rune as `%#U` prints it."""
    if char and "\udc80" <= char <= "\udcff":
        char = "�"
    code = ord(char) if char else -1
    if code < 0:
        return "U+FFFFFFFFFFFFFFFF"
    return f"U+{code:04X}" + (f" '{char}'" if unicode.is_print(char) else "")


class _LexicalError(Exception):
    pass


class Lexer:
    def __init__(self, text: str, left: str, right: str, keywords: frozenset[str]) -> None:
        self.text = text
        self.left = left or "{{"
        self.right = right or "}}"
        self.keywords = keywords
        """The keywords of this template: `break` and `continue` are none if functions have these names."""
        self.tokens: list[Token] = []
        self.pos = 0
        self.paren_depth = 0
        self._line = 1
        self._counted = 0

    def run(self) -> list[Token]:
        with contextlib.suppress(_LexicalError):
            self._text()
        return self.tokens

    def _line_at(self, pos: int) -> int:
        self._line += self.text.count("\n", self._counted, pos)
        self._counted = pos
        return self._line

    def _emit(self, kind: int, start: int, end: int) -> None:
        self.tokens.append(Token(kind, start, self.text[start:end], self._line_at(start)))
        self.pos = end

    def _fail(self, start: int, message: str) -> None:
        self.tokens.append(Token(ERROR, start, message, self._line_at(start)))
        raise _LexicalError

    def _text(self) -> None:
        text, left = self.text, self.left
        while True:
            start = self.pos
            found = text.find(left, start)
            if found < 0:
                if len(text) > start:
                    self._emit(TEXT, start, len(text))
                self._emit(EOF, len(text), len(text))
                return
            inside = found + len(left)
            trim = text[inside : inside + 1] == "-" and text[inside + 1 : inside + 2] in _SPACES and inside + 1 < len(text)
            end = start + len(text[start:found].rstrip(_SPACES)) if trim else found
            if end > start:
                self._emit(TEXT, start, end)
            self.pos = inside
            after = inside + 2 if trim else inside
            if text.startswith("/*", after):
                self._comment(after)
                continue
            self._emit(LEFT_DELIM, found, inside)
            self.pos = after
            self.paren_depth = 0
            self._action()

    def _right_delim_at(self, pos: int) -> int:
        """0 if no right delimiter starts here, 1 for a plain one, 2 for one with a trim marker."""
        text = self.text
        if text[pos : pos + 1] in _SPACES and text.startswith("-", pos + 1) and text.startswith(self.right, pos + 2):
            return 2
        return 1 if text.startswith(self.right, pos) else 0

    def _comment(self, start: int) -> None:
        closing = self.text.find("*/", start + 2)
        if closing < 0:
            self._fail(start, "unclosed comment")
        self.pos = closing + 2
        delim = self._right_delim_at(self.pos)
        if not delim:
            self._fail(start, "comment ends before closing delimiter")
        self.pos += len(self.right) + (2 if delim == 2 else 0)
        if delim == 2:
            self._skip_spaces()

    def _skip_spaces(self) -> None:
        run = _SPACE_RUN.match(self.text, self.pos)
        if run:
            self.pos = run.end()

    def _right_delim(self, kind: int) -> None:
        start = self.pos + (2 if kind == 2 else 0)
        self._emit(RIGHT_DELIM, start, start + len(self.right))
        if kind == 2:
            self._skip_spaces()

    def _action(self) -> None:
        text, size = self.text, len(self.text)
        while True:
            pos = self.pos
            delim = self._right_delim_at(pos)
            if delim:
                self._close(pos, delim)
                return
            if pos >= size:
                self._fail(pos, "unclosed action")
            char = text[pos]
            if char in _SPACES:
                if self._space(pos):
                    return
            elif char in _SINGLE:
                self._emit(_SINGLE[char], pos, pos + 1)
            elif char == ":":
                self._declare(pos)
            elif char == '"':
                self._quoted(pos, _QUOTED, STRING, "unterminated quoted string")
            elif char == "`":
                self._raw_quoted(pos)
            elif char == "$":
                self._field_or_variable(pos, VARIABLE, VARIABLE)
            elif char == "'":
                self._quoted(pos, _CHAR_QUOTED, CHAR_CONSTANT, "unterminated character constant")
            elif char == "." and pos + 1 < size and not "0" <= text[pos + 1] <= "9":
                self._field_or_variable(pos, FIELD, DOT)
            elif char in ".+-" or "0" <= char <= "9":
                self._number(pos)
            elif is_alphanumeric(char):
                self._identifier(pos)
            elif char in "()":
                self._paren(pos, char)
            elif char.isascii() and unicode.is_print(char):
                self._emit(CHAR, pos, pos + 1)
            else:
                self._fail(pos, f"unrecognized character in action: {describe_rune(char)}")

    def _close(self, pos: int, delim: int) -> None:
        if self.paren_depth:
            self._fail(pos, "unclosed left paren")
        self._right_delim(delim)

    def _declare(self, pos: int) -> None:
        if not self.text.startswith("=", pos + 1):
            self._fail(pos, "expected :=")
        self._emit(DECLARE, pos, pos + 2)

    def _paren(self, pos: int, char: str) -> None:
        self.paren_depth += 1 if char == "(" else -1
        if self.paren_depth < 0:
            self._fail(pos, "unexpected right paren")
        self._emit(LEFT_PAREN if char == "(" else RIGHT_PAREN, pos, pos + 1)

    def _space(self, pos: int) -> bool:
        """Scans spaces; true if they led straight into a trimming right delimiter."""
        run = _SPACE_RUN.match(self.text, pos)
        end = run.end() if run else pos + 1
        if self._right_delim_at(end - 1) == 2:
            if end - pos == 1:
                if self.paren_depth:
                    return False
                self._right_delim(2)
                return True
            end -= 1
        self._emit(SPACE, pos, end)
        return False

    def _quoted(self, pos: int, pattern: re.Pattern[str], kind: int, message: str) -> None:
        match = pattern.match(self.text, pos)
        if not match:
            self._fail(pos, message)
        else:
            self._emit(kind, pos, match.end())

    def _raw_quoted(self, pos: int) -> None:
        closing = self.text.find("`", pos + 1)
        if closing < 0:
            self._fail(pos, "unterminated raw quoted string")
        self._emit(RAW_STRING, pos, closing + 1)

    def _word_end(self, pos: int) -> int:
        match = _WORD.match(self.text, pos)
        end = match.end() if match else pos
        while end < len(self.text) and is_alphanumeric(self.text[end]):
            end += 1
        return end

    def _at_terminator(self, pos: int) -> bool:
        return pos >= len(self.text) or self.text[pos] in _TERMINATORS or self.text.startswith(self.right, pos)

    def _bad_character(self, start: int, at: int) -> None:
        self._fail(start, f"bad character {describe_rune(self.text[at : at + 1])}")

    def _field_or_variable(self, pos: int, kind: int, alone: int) -> None:
        if self._at_terminator(pos + 1):
            self._emit(alone, pos, pos + 1)
            return
        end = self._word_end(pos + 1)
        if not self._at_terminator(end):
            self._bad_character(pos, end)
        self._emit(kind, pos, end)

    def _identifier(self, pos: int) -> None:
        end = self._word_end(pos)
        if not self._at_terminator(end):
            self._bad_character(pos, end)
        word = self.text[pos:end]
        self._emit(KEYWORDS[word] if word in self.keywords else IDENTIFIER, pos, end)

    def _scan_number(self, pos: int) -> tuple[int, bool]:
        match = _NUMBER.match(self.text, pos)
        end = match.end() if match else pos
        if end < len(self.text) and is_alphanumeric(self.text[end]):
            return end + 1, False
        return end, True

    def _number(self, pos: int) -> None:
        end, good = self._scan_number(pos)
        kind = NUMBER
        if good and self.text[end : end + 1] in ("+", "-") and end < len(self.text):
            end, good = self._scan_number(end)
            good = good and self.text[end - 1] == "i"
            kind = COMPLEX
        if not good:
            self._fail(pos, f"bad number syntax: {quote(self.text[pos:end])}")
        self._emit(kind, pos, end)
