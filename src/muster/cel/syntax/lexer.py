"""Text to tokens.

One alternation does the work; its order encodes CEL's longest-match rules (floats before integers, triple quotes
before single ones). Text that starts no token is reported the way cel-go's lexer reports it and skipped, so that
the parser can still say what it expected there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.cel.errors import Issue

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING = (
    r'[rR]"""[\s\S]*?"""'
    r"|[rR]'''[\s\S]*?'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    rf"""
    (?P<SKIP>[\t \r\n\f]+|//[^\n]*)
  | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<BYTES>[bB](?:{_STRING}))
  | (?P<STRING>{_STRING})
  | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<OP>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_WORDS = frozenset({"in", "true", "false", "null"})

EOF = "<EOF>"


class Token(NamedTuple):
    """`kind` is a class name such as IDENTIFIER, or the text itself for operators and the four word tokens."""

    kind: str
    text: str
    offset: int


def tokenize(source: str) -> tuple[list[Token], list[Issue]]:
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, end, match = 0, len(source), _TOKEN.match
    while position < end:
        found = match(source, position)
        if found is None:
            bad = _unrecognized(source, position)
            issues.append(Issue(position, f"Syntax error: token recognition error at: '{bad}'"))
            position += len(bad)
            continue
        kind = found.lastgroup or ""
        if kind != "SKIP":
            text = found.group()
            if kind == "OP" or (kind == "IDENTIFIER" and text in _WORDS):
                kind = text
            tokens.append(Token(kind, text, position))
        position = found.end()
    tokens.append(Token(EOF, EOF, end))
    return tokens, issues


def _unrecognized(source: str, position: int) -> str:
    """What the reference lexer would name: all it consumed while hoping for a string, up to and with the bad character."""
    if source[position] in "=&|":
        # Half an operator: the lexer had hoped for the other half.
        return source[position : position + 2]
    if source[position] not in "\"'":
        return source[position]
    quote = source[position]
    found = re.compile(rf"{quote}(?:{_ESCAPE}|[^\\{quote}\n\r])*").match(source, position)
    stop = found.end() if found else position + 1
    if source[stop : stop + 1] == "\\":
        stop += 1
    return source[position : min(stop + 1, len(source))]
