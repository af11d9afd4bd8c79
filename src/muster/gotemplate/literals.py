"""Number literals: the Go types that can represent the number."""

from __future__ import annotations

import re

from muster.gotemplate.lexer import CHAR_CONSTANT, COMPLEX, Token
from muster.gotemplate.nodes import NumberNode
from muster.machinery.golang import numbers, quoting
from muster.machinery.golang.errors import GoError

_SIGNS = ("", "+", "-")
_COMPLEX_PARTS = re.compile(r"(.*[0-9a-fA-F_.])([+-].*)i\Z", re.DOTALL)


def _exact_int(value: float, low: int, high: int) -> int | None:
    """The float as an integer of the given range if it is one; Go converts and compares."""
    if value != value or value in (float("inf"), float("-inf")):
        return None
    whole = int(value)
    return whole if whole == value and low <= whole <= high else None


def _simplify(node: NumberNode, value: float) -> None:
    node.as_float = value
    if node.as_int is None:
        node.as_int = _exact_int(value, -(1 << 63), (1 << 63) - 1)
    if node.as_uint is None:
        node.as_uint = _exact_int(value, 0, (1 << 64) - 1)


def number(token: Token) -> NumberNode:
    """The node of a number token; raises GoError with the parser's text."""
    node = NumberNode(token.pos, token.text)
    text = token.text
    if token.kind == CHAR_CONSTANT:
        rune = quoting.unquote_char_constant(text)
        node.as_int = node.as_uint = rune
        node.as_float = float(rune)
        return node
    if token.kind == COMPLEX:
        parts = _COMPLEX_PARTS.match(text)
        if not parts or parts[1] in _SIGNS or parts[2] in _SIGNS:
            raise GoError("syntax error scanning complex number")
        node.as_complex = complex(numbers.parse_float(parts[1]), numbers.parse_float(parts[2]))
    elif text.endswith("i"):
        try:
            node.as_complex = complex(0, numbers.parse_float(text[:-1]))
        except GoError:
            node.as_complex = None
    if node.as_complex is not None:
        if node.as_complex.imag == 0:
            _simplify(node, node.as_complex.real)
        return node
    _real(node, text)
    return node


def _real(node: NumberNode, text: str) -> None:
    try:
        node.as_uint = numbers.parse_uint(text, 0)
    except GoError:
        node.as_uint = None
    try:
        node.as_int = numbers.parse_int(text, 0)
    except GoError:
        node.as_int = None
    if node.as_int is not None:
        if node.as_int == 0:
            node.as_uint = 0
        node.as_float = float(node.as_int)
    elif node.as_uint is not None:
        node.as_float = float(node.as_uint)
    else:
        try:
            value = numbers.parse_float(text)
        except GoError:
            raise GoError(f"illegal number syntax: {quoting.quote(text)}") from None
        if not any(mark in text for mark in ".eEpP"):
            raise GoError(f"integer overflow: {quoting.quote(text)}")
        _simplify(node, value)
