"""The tokens of a YAML text. Follows yaml.v3's scanner, a port of libyaml's.

A token is returned only when it is known whether it starts a simple key (`key: value`), because then a KEY token, and perhaps the
start of a block mapping, precedes it; and, as in yaml.v3 for comments, only when two more have been scanned, which determines the
first error. Columns are stored as the index of the line's start, so that moving costs one addition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from muster.gotemplate.golang.yaml.characters import utf8_width
from muster.gotemplate.golang.yaml.scan_scalars import BLANKS, BREAKS, ScalarScanner
from muster.gotemplate.golang.yaml.tokens import Kind, ScanError, Token

MAX_NESTING: Final = 10_000
_LONGEST_SIMPLE_KEY: Final = 1024
_LOOKAHEAD: Final = 2
_END: Final = "\0"
_BLANKZ: Final = BLANKS + BREAKS + _END
_NAME: Final = re.compile(r"[0-9A-Za-z_-]*")
_URI: Final = re.compile(r"[0-9A-Za-z_;/?:@&=+$,.!~*'()\[\]-]*")
_HEX: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_DIGITS: Final = re.compile(r"[0-9]*")
_AFTER_ANCHOR: Final = _BLANKZ + "?:,]}%@`"
_NO_PLAIN_START: Final = _BLANKZ + "-?:,[]{}#&*!|>'\"%@`"
_COMMENT_LINES: Final = re.compile(rf"(?:[{BLANKS}{BREAKS}]*#[^{BREAKS}\0]*)*")
_LINE_COMMENT: Final = re.compile(rf"[ \t]*#[^{BREAKS}\0]*")
_FLOW_STARTS: Final = {"[": Kind.FLOW_SEQUENCE_START, "{": Kind.FLOW_MAPPING_START}
_FLOW_ENDS: Final = {"]": Kind.FLOW_SEQUENCE_END, "}": Kind.FLOW_MAPPING_END}


@dataclass(slots=True)
class _SimpleKey:
    """A position where a simple key may have started."""

    at: int = 0
    line: int = 0
    column: int = 0
    token: int = 0
    """The number of tokens before it."""
    required: bool = False
    possible: bool = False


class Scanner(ScalarScanner):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._tokens: list[Token] = [Token(Kind.STREAM_START, 0)]
        self._given = 0
        """The number of returned tokens."""
        self._indents: list[int] = []
        self._simple_keys: list[_SimpleKey] = [_SimpleKey()]
        self._keys_by_token: dict[int, _SimpleKey] = {}
        self._simple_key_allowed = True
        self._ready = False

    # For the parser

    def peek(self) -> Token:
        if not self._ready:
            self._fetch()
        return self._tokens[0]

    def skip(self) -> None:
        """Returns the token that was peeked at."""
        self._ready = False
        self._given += 1
        del self._tokens[0]

    def _fetch(self) -> None:
        while True:
            if len(self._tokens) > _LOOKAHEAD:
                key = self._keys_by_token.get(self._given)
                if key is None or not self._is_valid(key):
                    break
            self._fetch_token()
        self._ready = True

    # Tokens

    def _fetch_token(self) -> None:
        line = self.line
        self._skip_to_token()
        column = self.at - self.line_start
        self._unroll_indent(column, line)
        text, at = self.text, self.at
        char = text[at]
        if char == _END:
            self._stream_end()
            return
        if column == 0:
            if char == "%":
                self._reset()
                self._add(self._directive())
                return
            if char in "-." and text[at : at + 3] == char * 3 and text[at + 3] in _BLANKZ:
                self._reset()
                self._add(Token(Kind.DOCUMENT_START if char == "-" else Kind.DOCUMENT_END, self.line, end_line=self.line))
                self.at += 3
                return
        after_break = self._fetch_content(char, text[at + 1])
        if not after_break and self._tokens[-1].kind != Kind.BLOCK_ENTRY:
            comment = _LINE_COMMENT.match(text, self.at)
            if comment is not None:
                self.at = comment.end()

    def _fetch_content(self, char: str, following: str) -> bool:
        """Scans a token that is part of a document; whether line breaks were scanned after it."""
        if char in "[{":
            self._save_simple_key()
            self._simple_keys.append(_SimpleKey(token=self._given + len(self._tokens)))
            self.flow_level += 1
            if self.flow_level > MAX_NESTING:
                self._fail(f"exceeded max depth of {MAX_NESTING}", self.line)
            self._indicator(_FLOW_STARTS[char], simple_key_allowed=True)
        elif char in "]}":
            self._remove_simple_key()
            if self.flow_level:
                self.flow_level -= 1
                gone = self._simple_keys.pop()
                self._keys_by_token.pop(gone.token, None)
            self._indicator(_FLOW_ENDS[char], simple_key_allowed=False)
        elif char == ",":
            self._remove_simple_key()
            self._indicator(Kind.FLOW_ENTRY, simple_key_allowed=True)
        elif char == "-" and following in _BLANKZ:
            self._block_entry()
        elif char == "?" and (self.flow_level or following in _BLANKZ):
            self._key()
        elif char == ":" and (self.flow_level or following in _BLANKZ):
            self._value()
        elif char in "*&":
            self._save_simple_key()
            self._simple_key_allowed = False
            self._add(self._anchor(Kind.ALIAS if char == "*" else Kind.ANCHOR))
        elif char == "!":
            self._save_simple_key()
            self._simple_key_allowed = False
            self._add(self._tag())
        elif char in "|>" and not self.flow_level:
            self._remove_simple_key()
            self._simple_key_allowed = True
            line = self.line
            self._add(Token(Kind.SCALAR, line, self.block_scalar(char == "|"), end_line=self.line))
            return True
        elif char in "'\"":
            self._save_simple_key()
            self._simple_key_allowed = False
            line = self.line
            value = self.quoted_scalar(char)
            self._add(Token(Kind.SCALAR, line, value, end_line=self.line))
        elif self._starts_plain(char, following):
            self._save_simple_key()
            line = self.line
            value, broken = self.plain_scalar()
            self._simple_key_allowed = broken
            self._add(Token(Kind.SCALAR, line, value, plain=True, end_line=line))
            return broken
        else:
            self._fail("found character that cannot start any token", self.line)
        return False

    def _starts_plain(self, char: str, following: str) -> bool:
        if char not in _NO_PLAIN_START:
            return True
        return (char == "-" and following not in BLANKS) or (char in "?:" and not self.flow_level and following not in _BLANKZ)

    def _indicator(self, kind: Kind, *, simple_key_allowed: bool) -> None:
        self._simple_key_allowed = simple_key_allowed
        self._add(Token(kind, self.line, end_line=self.line))
        self.at += 1

    def _add(self, token: Token) -> None:
        self._tokens.append(token)

    def _insert(self, number: int, token: Token) -> None:
        # yaml.v3 appends a token that would precede one already returned.
        self._tokens.insert(number if number >= 0 else len(self._tokens), token)

    def _fail(self, problem: str, context_line: int) -> NoReturn:
        raise ScanError(problem, context_line, self.line, scanning=True)

    def _stream_end(self) -> None:
        if self.at != self.line_start:
            self.line += 1
            self.line_start = self.at
        self._reset()
        self._add(Token(Kind.STREAM_END, self.line))

    def _reset(self) -> None:
        """Ends all blocks and forgets that a key could have started."""
        self._unroll_indent(-1, self.line)
        self._remove_simple_key()
        self._simple_key_allowed = False

    def _block_entry(self) -> None:
        if not self.flow_level:
            if not self._simple_key_allowed:
                self._fail("block sequence entries are not allowed in this context", self.line)
            self._roll_indent(self.at - self.line_start, Kind.BLOCK_SEQUENCE_START, self.line)
        self._remove_simple_key()
        self._indicator(Kind.BLOCK_ENTRY, simple_key_allowed=True)

    def _key(self) -> None:
        if not self.flow_level:
            if not self._simple_key_allowed:
                self._fail("mapping keys are not allowed in this context", self.line)
            self._roll_indent(self.at - self.line_start, Kind.BLOCK_MAPPING_START, self.line)
        self._remove_simple_key()
        self._indicator(Kind.KEY, simple_key_allowed=not self.flow_level)

    def _value(self) -> None:
        key = self._simple_keys[-1]
        if self._is_valid(key):
            number = key.token - self._given
            self._insert(number, Token(Kind.KEY, key.line, end_line=key.line))
            self._roll_indent(key.column, Kind.BLOCK_MAPPING_START, key.line, number)
            key.possible = False
            self._keys_by_token.pop(key.token, None)
            self._indicator(Kind.VALUE, simple_key_allowed=False)
            return
        if not self.flow_level:
            if not self._simple_key_allowed:
                self._fail("mapping values are not allowed in this context", self.line)
            self._roll_indent(self.at - self.line_start, Kind.BLOCK_MAPPING_START, self.line)
        self._indicator(Kind.VALUE, simple_key_allowed=not self.flow_level)

    # Simple keys

    def _is_valid(self, key: _SimpleKey) -> bool:
        """Whether the key can still be followed by its colon: on the same line, within 1024 characters."""
        if not key.possible:
            return False
        if key.line < self.line or key.at + _LONGEST_SIMPLE_KEY < self.at:
            if key.required:
                self._fail("could not find expected ':'", key.line)
            key.possible = False
            return False
        return True

    def _save_simple_key(self) -> None:
        if not self._simple_key_allowed:
            return
        column = self.at - self.line_start
        required = not self.flow_level and self.indent == column
        self._remove_simple_key()
        key = _SimpleKey(self.at, self.line, column, self._given + len(self._tokens), required, True)
        self._simple_keys[-1] = key
        self._keys_by_token[key.token] = key

    def _remove_simple_key(self) -> None:
        key = self._simple_keys[-1]
        if key.possible:
            if key.required:
                self._fail("could not find expected ':'", key.line)
            key.possible = False
            self._keys_by_token.pop(key.token, None)

    # Indentation

    def _roll_indent(self, column: int, kind: Kind, line: int, number: int | None = None) -> None:
        """Starts a block in this column, unless it is in one already; its token comes before the numbered one, or last."""
        if self.flow_level or self.indent >= column:
            return
        self._indents.append(self.indent)
        self.indent = column
        if len(self._indents) > MAX_NESTING:
            self._fail(f"exceeded max depth of {MAX_NESTING}", self._simple_keys[-1].line)
        token = Token(kind, line, end_line=line)
        self._insert(len(self._tokens) if number is None else number, token)

    def _unroll_indent(self, column: int, line: int) -> None:
        if self.flow_level:
            return
        while self.indent > column:
            self._add(Token(Kind.BLOCK_END, line, end_line=line))
            self.indent = self._indents.pop()

    # Blanks and comments

    def _skip_to_token(self) -> None:
        text = self.text
        while True:
            at = self.at
            while text[at] == " " or (text[at] == "\t" and (self.flow_level or not self._simple_key_allowed)):
                at += 1
            self.at = at
            if text[at] == "#":
                found = _COMMENT_LINES.match(text, at)
                if found is not None:
                    self.move_over(found.end())
            if text[self.at] not in BREAKS:
                return
            self.skip_break()
            if not self.flow_level:
                self._simple_key_allowed = True

    # Anchors, tags and directives

    def _anchor(self, kind: Kind) -> Token:
        found = _NAME.match(self.text, self.at + 1)
        name = found[0] if found else ""
        self.at += 1 + len(name)
        if not name or self.text[self.at] not in _AFTER_ANCHOR:
            self._fail("did not find expected alphabetic or numeric character", self.line)
        return Token(kind, self.line, name, end_line=self.line)

    def _tag(self) -> Token:
        text = self.text
        if text[self.at + 1] == "<":
            self.at += 2
            handle, suffix = "", self._uri("")
            if text[self.at] != ">":
                self._fail("did not find the expected '>'", self.line)
            self.at += 1
        else:
            handle = self._tag_handle(directive=False)
            if len(handle) > 1 and handle[-1] == "!":
                suffix = self._uri("")
            else:
                suffix = self._uri(handle)
                handle = "!"
                if not suffix:
                    handle, suffix = suffix, handle
        if text[self.at] not in _BLANKZ:
            self._fail("did not find expected whitespace or line break", self.line)
        return Token(Kind.TAG, self.line, handle, suffix, end_line=self.line)

    def _tag_handle(self, *, directive: bool) -> str:
        text = self.text
        if text[self.at] != "!":
            self._fail("did not find expected '!'", self.line)
        found = _NAME.match(text, self.at + 1)
        handle = "!" + (found[0] if found else "")
        self.at += len(handle)
        if text[self.at] == "!":
            self.at += 1
            return handle + "!"
        if directive and handle != "!":
            self._fail("did not find expected '!'", self.line)
        return handle

    def _uri(self, head: str) -> str:
        parts = [head[1:]]
        found_any = bool(head)
        while True:
            found = _URI.match(self.text, self.at)
            plain = found[0] if found else ""
            self.at += len(plain)
            parts.append(plain)
            if self.text[self.at] == "%":
                parts.append(self._uri_escapes())
            elif not plain:
                break
            found_any = True
        if not found_any:
            self._fail("did not find expected tag URI", self.line)
        return "".join(parts)

    def _uri_escapes(self) -> str:
        """One character of which each byte is written as %xx."""
        octets = bytearray()
        width = 1
        while len(octets) < width:
            found = _HEX.match(self.text, self.at)
            if found is None:
                self._fail("did not find URI escaped octet", self.line)
            octet = int(found[1], 16)
            if not octets:
                width = utf8_width(octet)
                if not width:
                    self._fail("found an incorrect leading UTF-8 octet", self.line)
            elif octet & 0xC0 != 0x80:
                self._fail("found an incorrect trailing UTF-8 octet", self.line)
            octets.append(octet)
            self.at += 3
        return octets.decode("utf-8", "surrogateescape")

    def _directive(self) -> Token:
        text, line = self.text, self.line
        found = _NAME.match(text, self.at + 1)
        name = found[0] if found else ""
        self.at += 1 + len(name)
        if not name:
            self._fail("could not find expected directive name", line)
        if text[self.at] not in _BLANKZ:
            self._fail("found unexpected non-alphabetical character", line)
        if name == "YAML":
            self._skip_blanks()
            major = self._version_number()
            if text[self.at] != ".":
                self._fail("did not find expected digit or '.' character", line)
            self.at += 1
            token = Token(Kind.VERSION_DIRECTIVE, line, f"{major}.{self._version_number()}")
        elif name == "TAG":
            token = self._tag_directive()
        else:
            self._fail("found unknown directive name", line)
        self._skip_blanks()
        if text[self.at] == "#":
            comment = _LINE_COMMENT.match(text, self.at)
            self.at = comment.end() if comment else self.at
        if text[self.at] not in BREAKS + _END:
            self._fail("did not find expected comment or line break", line)
        if text[self.at] != _END:
            self.skip_break()
        return token

    def _skip_blanks(self) -> None:
        while self.text[self.at] in BLANKS:
            self.at += 1

    def _version_number(self) -> int:
        found = _DIGITS.match(self.text, self.at)
        digits = found[0] if found else ""
        if len(digits) > 2:
            self._fail("found extremely long version number", self.line)
        if not digits:
            self._fail("did not find expected version number", self.line)
        self.at += len(digits)
        return int(digits)

    def _tag_directive(self) -> Token:
        line = self.line
        self._skip_blanks()
        handle = self._tag_handle(directive=True)
        if self.text[self.at] not in BLANKS:
            self._fail("did not find expected whitespace", line)
        self._skip_blanks()
        prefix = self._uri("")
        if self.text[self.at] not in _BLANKZ:
            self._fail("did not find expected whitespace or line break", line)
        return Token(Kind.TAG_DIRECTIVE, line, handle, prefix)
