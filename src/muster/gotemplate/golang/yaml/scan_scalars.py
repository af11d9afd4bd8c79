"""Scanning of scalars: plain ones, in quotes, and blocks. Follows yaml.v3's scanner.

What a line holds is taken in one piece by a regular expression; only what joins lines (folding, indentation) goes step by step.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from muster.gotemplate.golang.yaml.tokens import ScanError

BLANKS: Final = " \t"
BREAKS: Final = "\r\n\x85\u2028\u2029"
_END: Final = "\0"
_BLANKZ: Final = BLANKS + BREAKS + _END
_PLAIN: Final = re.compile(rf"(?:[^:{_BLANKZ}]+|:(?![{_BLANKZ}]))*")
_FLOW_PLAIN: Final = re.compile(rf"(?:[^:,?\[\]{{}}{_BLANKZ}]+|:(?![{_BLANKZ}]))*")
_SINGLE_QUOTED: Final = re.compile(rf"(?:[^'{_BLANKZ}]+|'')*")
_DOUBLE_QUOTED: Final = re.compile(rf"[^\"\\{_BLANKZ}]*")
_REST_OF_LINE: Final = re.compile(rf"[^{BREAKS}\0]*")
_BREAK: Final = re.compile(rf"\r\n|[{BREAKS}]")
_HEX: Final = re.compile(r"[0-9A-Fa-f]*")
_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ",
    '"': '"', "'": "'", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_CODE_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}


class ScalarScanner:
    def __init__(self, text: str) -> None:
        self.text = text + _END * 4
        self.at = 0
        self.line = 0
        self.line_start = 0
        self.indent = -1
        """The column of the innermost block."""
        self.flow_level = 0

    def _broken(self, problem: str, start_line: int) -> NoReturn:
        raise ScanError(problem, start_line, self.line, scanning=True)

    # Moving

    def skip_break(self) -> str:
        """Skips a line break, and returns it in the form in which a scalar has it."""
        char = self.text[self.at]
        self.at += 2 if char == "\r" and self.text[self.at + 1] == "\n" else 1
        self.line += 1
        self.line_start = self.at
        return char if char in "\u2028\u2029" else "\n"

    def move_over(self, end: int) -> None:
        """Goes to this place, counting lines."""
        for found in _BREAK.finditer(self.text, self.at, end):
            self.line += 1
            self.line_start = found.end()
        self.at = end

    def _at_document_indicator(self) -> bool:
        at = self.at
        return at == self.line_start and self.text[at : at + 3] in ("---", "...") and self.text[at + 3] in _BLANKZ

    # Plain scalars

    def plain_scalar(self) -> tuple[str, bool]:
        """The scalar, and whether line breaks came after it."""
        text, start_line = self.text, self.line
        indent = self.indent + 1
        pattern = _FLOW_PLAIN if self.flow_level else _PLAIN
        parts: list[str] = []
        between = ""
        broken = False
        while not self._at_document_indicator() and text[self.at] != "#":
            found = pattern.match(text, self.at)
            if found is not None and found.end() > self.at:
                parts += (between, found[0])
                between, broken = "", False
                self.at = found.end()
            if text[self.at] not in BLANKS and text[self.at] not in BREAKS:
                break
            between, broken = self._gap(start_line, indent)
            if not self.flow_level and self.at - self.line_start < indent:
                break
        return "".join(parts), broken

    def _gap(self, start_line: int, indent: int = 0) -> tuple[str, bool]:
        """Blanks and line breaks within a scalar: what they are folded to, and whether there was a break."""
        text, start = self.text, self.at
        while text[self.at] in BLANKS:
            self.at += 1
        if text[self.at] not in BREAKS:
            return text[start : self.at], False
        return self._folded(start_line, indent, self.skip_break()), True

    def _folded(self, start_line: int, indent: int, first: str) -> str:
        text = self.text
        more = ""
        while True:
            char = text[self.at]
            if char in BREAKS:
                more += self.skip_break()
            elif char in BLANKS:
                if char == "\t" and self.at - self.line_start < indent:
                    self._broken("found a tab character that violates indentation", start_line)
                self.at += 1
            else:
                break
        if first != "\n":
            return first + more
        return more or " "

    # Quoted scalars

    def quoted_scalar(self, quote: str) -> str:
        text, start_line = self.text, self.line
        self.at += 1
        parts: list[str] = []
        while True:
            if self._at_document_indicator():
                self._broken("found unexpected document indicator", start_line)
            if text[self.at] == _END:
                self._broken("found unexpected end of stream", start_line)
            escaped_break = False
            if quote == "'":
                found = _SINGLE_QUOTED.match(text, self.at)
                if found is not None:
                    parts.append(found[0].replace("''", "'"))
                    self.at = found.end()
            else:
                escaped_break = self._double_quoted_chunk(parts, start_line)
            if text[self.at] == quote:
                self.at += 1
                return "".join(parts)
            if escaped_break:
                parts.append(self._folded(start_line, 0, ""))
            elif text[self.at] != _END:
                parts.append(self._gap(start_line)[0])

    def _double_quoted_chunk(self, parts: list[str], start_line: int) -> bool:
        """Characters and escapes up to a blank, a break or the end; whether a line break was escaped."""
        text = self.text
        while True:
            found = _DOUBLE_QUOTED.match(text, self.at)
            if found is not None:
                parts.append(found[0])
                self.at = found.end()
            if text[self.at] != "\\":
                return False
            char = text[self.at + 1]
            if char in BREAKS:
                self.at += 1
                self.skip_break()
                return True
            known = _ESCAPES.get(char)
            if known is not None:
                parts.append(known)
                self.at += 2
            else:
                parts.append(self._code_point(char, start_line))

    def _code_point(self, char: str, start_line: int) -> str:
        length = _CODE_LENGTHS.get(char)
        if length is None:
            self._broken("found unknown escape character", start_line)
        self.at += 2
        found = _HEX.match(self.text, self.at, self.at + length)
        digits = found[0] if found else ""
        if len(digits) < length:
            self._broken("did not find expected hexdecimal number", start_line)
        code = int(digits, 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            self._broken("found invalid Unicode character escape code", start_line)
        self.at += length
        return chr(code)

    # Block scalars

    def block_scalar(self, literal: bool) -> str:
        text, start_line = self.text, self.line
        self.at += 1
        chomping, increment = self._block_header(start_line)
        indent = 0
        if increment:
            indent = self.indent + increment if self.indent >= 0 else increment
        parts: list[str] = []
        indent, breaks = self._block_breaks(indent, start_line)
        leading_break = ""
        was_blank = False
        while self.at - self.line_start == indent and text[self.at] != _END:
            is_blank = text[self.at] in BLANKS
            if not literal and not was_blank and not is_blank and leading_break == "\n":
                if not breaks:
                    parts.append(" ")
            else:
                parts.append(leading_break)
            parts.append(breaks)
            was_blank = is_blank
            found = _REST_OF_LINE.match(text, self.at)
            if found is not None:
                parts.append(found[0])
                self.at = found.end()
            leading_break = self.skip_break() if text[self.at] != _END else ""
            indent, breaks = self._block_breaks(indent, start_line)
        if chomping != "-":
            parts.append(leading_break)
        if chomping == "+":
            parts.append(breaks)
        return "".join(parts)

    def _block_header(self, start_line: int) -> tuple[str, int]:
        """The chomping indicator and the indentation indicator after `|` or `>`, in either order."""
        text = self.text
        chomping, increment = "", 0
        for _ in range(2):
            char = text[self.at]
            if char in "+-" and not chomping:
                chomping = char
            elif "0" <= char <= "9" and not increment:
                if char == "0":
                    self._broken("found an indentation indicator equal to 0", start_line)
                increment = int(char)
            else:
                break
            self.at += 1
        while text[self.at] in BLANKS:
            self.at += 1
        if text[self.at] == "#":
            found = _REST_OF_LINE.match(text, self.at)
            self.at = found.end() if found else self.at
        if text[self.at] in BREAKS:
            self.skip_break()
        elif text[self.at] != _END:
            self._broken("did not find expected comment or line break", start_line)
        return chomping, increment

    def _block_breaks(self, indent: int, start_line: int) -> tuple[int, str]:
        """Goes over indentation and empty lines. Where the indentation is not known (0), it is that of the first line found."""
        text = self.text
        breaks: list[str] = []
        deepest = 0
        while True:
            while text[self.at] == " " and (not indent or self.at - self.line_start < indent):
                self.at += 1
            column = self.at - self.line_start
            deepest = max(deepest, column)
            if text[self.at] == "\t" and (not indent or column < indent):
                self._broken("found a tab character where an indentation space is expected", start_line)
            if text[self.at] not in BREAKS:
                break
            breaks.append(self.skip_break())
        return indent or max(deepest, self.indent + 1, 1), "".join(breaks)
