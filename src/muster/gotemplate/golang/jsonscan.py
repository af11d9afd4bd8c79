"""The scanner of Go's `encoding/json`: finds the first invalid position of a text, with Go's error.

The states are Go's; each takes one byte and returns the next state or raises. Only the error matters here: values are decoded by
Python.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import quote
from muster.machinery.golang.text import decode, encode

_SPACE = frozenset(b" \t\r\n")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_MAX_DEPTH = 10000
_State = Callable[[int], "_State"]


def _quote_char(byte: int) -> str:
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    # Go converts the byte to a rune, so bytes of a longer sequence show as Latin-1 letters.
    return "'" + quote(chr(byte))[1:-1] + "'"


class _Scanner:
    def __init__(self) -> None:
        self.stack: list[str] = []
        self.state: _State = self.begin_value
        self.end = False

    def fail(self, byte: int, context: str) -> GoError:
        return GoError(f"invalid character {_quote_char(byte)} {context}")

    def push(self, what: str) -> None:
        self.stack.append(what)
        if len(self.stack) > _MAX_DEPTH:
            raise GoError("exceeded max depth")

    def begin_value(self, byte: int) -> _State:
        if byte in _SPACE:
            return self.begin_value
        char = chr(byte)
        if char == "{":
            self.push("key")
            return self.begin_string_or_empty
        if char == "[":
            self.push("array")
            return self.begin_value_or_empty
        if char == '"':
            return self.in_string
        if char == "-":
            return self.neg
        if char == "0":
            return self.zero
        if "1" <= char <= "9":
            return self.digits
        literals = {"t": ("true", 1), "f": ("false", 1), "n": ("null", 1)}
        if char in literals:
            return self.word(*literals[char])
        raise self.fail(byte, "looking for beginning of value")

    def begin_value_or_empty(self, byte: int) -> _State:
        if byte in _SPACE:
            return self.begin_value_or_empty
        if byte == ord("]"):
            return self.end_value(byte)
        return self.begin_value(byte)

    def begin_string_or_empty(self, byte: int) -> _State:
        if byte in _SPACE:
            return self.begin_string_or_empty
        if byte == ord("}"):
            self.stack[-1] = "value"
            return self.end_value(byte)
        return self.begin_string(byte)

    def begin_string(self, byte: int) -> _State:
        if byte in _SPACE:
            return self.begin_string
        if byte == ord('"'):
            return self.in_string
        raise self.fail(byte, "looking for beginning of object key string")

    def end_value(self, byte: int) -> _State:
        if not self.stack:
            self.end = True
            return self.end_top(byte)
        if byte in _SPACE:
            return self.end_value
        top, char = self.stack[-1], chr(byte)
        if top == "key":
            if char == ":":
                self.stack[-1] = "value"
                return self.begin_value
            raise self.fail(byte, "after object key")
        if top == "value":
            if char == ",":
                self.stack[-1] = "key"
                return self.begin_string
            if char == "}":
                return self.pop()
            raise self.fail(byte, "after object key:value pair")
        if char == ",":
            return self.begin_value
        if char == "]":
            return self.pop()
        raise self.fail(byte, "after array element")

    def pop(self) -> _State:
        self.stack.pop()
        if not self.stack:
            self.end = True
            return self.end_top
        return self.end_value

    def end_top(self, byte: int) -> _State:
        if byte not in _SPACE:
            raise self.fail(byte, "after top-level value")
        return self.end_top

    def in_string(self, byte: int) -> _State:
        if byte == ord('"'):
            return self.end_value
        if byte == ord("\\"):
            return self.escape
        if byte < 0x20:
            raise self.fail(byte, "in string literal")
        return self.in_string

    def escape(self, byte: int) -> _State:
        if chr(byte) in 'bfnrt\\/"':
            return self.in_string
        if byte == ord("u"):
            return self.hex_digits(4)
        raise self.fail(byte, "in string escape code")

    def hex_digits(self, left: int) -> _State:
        def state(byte: int) -> _State:
            if byte not in _HEX:
                raise self.fail(byte, "in \\u hexadecimal character escape")
            return self.in_string if left == 1 else self.hex_digits(left - 1)

        return state

    def neg(self, byte: int) -> _State:
        if byte == ord("0"):
            return self.zero
        if ord("1") <= byte <= ord("9"):
            return self.digits
        raise self.fail(byte, "in numeric literal")

    def digits(self, byte: int) -> _State:
        return self.digits if ord("0") <= byte <= ord("9") else self.zero(byte)

    def zero(self, byte: int) -> _State:
        if byte == ord("."):
            return self.dot
        if byte in b"eE":
            return self.exponent
        return self.end_value(byte)

    def dot(self, byte: int) -> _State:
        if ord("0") <= byte <= ord("9"):
            return self.fraction
        raise self.fail(byte, "after decimal point in numeric literal")

    def fraction(self, byte: int) -> _State:
        if ord("0") <= byte <= ord("9"):
            return self.fraction
        return self.exponent if byte in b"eE" else self.end_value(byte)

    def exponent(self, byte: int) -> _State:
        return self.exponent_sign if byte in b"+-" else self.exponent_sign(byte)

    def exponent_sign(self, byte: int) -> _State:
        if ord("0") <= byte <= ord("9"):
            return self.exponent_digits
        raise self.fail(byte, "in exponent of numeric literal")

    def exponent_digits(self, byte: int) -> _State:
        return self.exponent_digits if ord("0") <= byte <= ord("9") else self.end_value(byte)

    def word(self, word: str, at: int) -> _State:
        def state(byte: int) -> _State:
            if byte != ord(word[at]):
                raise self.fail(byte, f"in literal {word} (expecting {_quote_char(ord(word[at]))})")
            return self.end_value if at == len(word) - 1 else self.word(word, at + 1)

        return state


def check(text: str) -> None:
    """Raises GoError if the text is not JSON."""
    scanner = _Scanner()
    state = scanner.state
    for byte in encode(decode(encode(text))):
        state = state(byte)
    if not scanner.end:
        state(ord(" "))
        if not scanner.end:
            raise GoError("unexpected end of JSON input")
