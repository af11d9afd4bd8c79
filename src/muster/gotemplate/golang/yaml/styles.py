"""The style of a string: plain, single-quoted, double-quoted, or a literal block. Follows yaml.v3's scalar analysis.

A string of several lines is a literal. Another one is plain if that is valid and is read as the same string; if it would be read as
another type it is double-quoted, and if it is only invalid single-quoted. Strings that neither single quotes nor literals can
represent (control characters, tabs outside of literals, a space before a line break) are double-quoted with escapes.
"""

from __future__ import annotations

import re
from typing import Final

from muster.gotemplate.golang.yaml.characters import possessive
from muster.gotemplate.golang.yaml.scalars import QUOTED_WORDS, quotes_needed

_SIMPLE: Final = possessive(
    # Letters first, so that only words can be other types; then printable ASCII in which colons and hashes are harmless.
    r"[A-Za-z_/$](?:[!-9;-~]++|:(?=[!-~])| ++(?=[!-\"$-~]))*+"
).fullmatch
_ILLEGAL_START: Final = re.compile(r"---|\.\.\.|[#,\[\]{}&*!|>'\"%@` \u2028\u2029]|[?:\-](?: |\Z)").match
_ILLEGAL: Final = re.compile(r":(?: |\Z)| #| \Z|[\u2028\u2029]").search
_SPECIAL: Final = re.compile("[^\n\t -~\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]").search
_SPACE_BEFORE_BREAK: Final = re.compile("[ ](?:[\n\u2028\u2029]|\\Z)").search
_SPACE_BESIDE_BREAK: Final = re.compile("[ ][\u2028\u2029]|[\u2028\u2029][ ]").search
_ESCAPED: Final = re.compile("[^ !#-\\[\\]-~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPES: Final = {
    "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r", "\x1b": "\\e",
    '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\xa0": "\\_", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip
_LINE_STARTS: Final = re.compile("(?:^|(?<=[\n\u2028\u2029]))(?=[^\n\u2028\u2029])")
_AFTER_BREAKS: Final = re.compile("(?<=[\u2028\u2029])(?=[^\u2028\u2029])")
_BOM: Final = "\ufeff"


def is_simple(text: str) -> bool:
    """Whether the string is written unchanged; a quick test for most that are."""
    return _SIMPLE(text) is not None and text not in QUOTED_WORDS


def is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def styled(text: str, indent: int, step: int) -> str:
    """The string, which is UTF-8, with its line end; further lines have this indentation."""
    if text.isascii() and text.isprintable():
        if quotes_needed(text):
            return _double_quoted(text)
        return _single_quoted(text, 0) if _ILLEGAL_START(text) or _ILLEGAL(text) else text + "\n"
    if "\n" in text:
        if _SPACE_BEFORE_BREAK(text) or _SPECIAL(text):
            return _double_quoted(text)
        return literal(text, indent, step)
    if quotes_needed(text):
        return _double_quoted(text)
    if "\t" in text or _SPECIAL(text):
        return _double_quoted(text)
    if not (_ILLEGAL_START(text) or _ILLEGAL(text)):
        return text + "\n"
    return _double_quoted(text) if _SPACE_BESIDE_BREAK(text) else _single_quoted(text, indent)


def literal(text: str, indent: int, step: int) -> str:
    """A literal block with its line end. A line break at the start of the text is lost, as it is in yaml.v3."""
    start = f"|{step}" if text[0] in " \n\u2028\u2029" else "|"
    if text[-1] not in "\n\u2028\u2029":
        start += "-"
    elif len(text) == 1 or text[-2] in "\n\u2028\u2029":
        start += "+"
    if text[0] not in "\n\u2028\u2029":
        start += "\n"
    lines = _LINE_STARTS.sub(" " * indent, text)
    return start + lines + ("" if text[-1] in "\n\u2028\u2029" else "\n")


def _single_quoted(text: str, indent: int) -> str:
    if indent:
        text = _AFTER_BREAKS.sub(" " * indent, text)
    return "'" + text.replace("'", "''") + "'\n"


def _double_quoted(text: str) -> str:
    if text.startswith(_BOM):
        # yaml.v3 checks for the byte order mark at the start of the text for every character.
        return '"' + "".join(map(_escape, text)) + '"\n'
    return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"\n'


def _escape(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    code = ord(char)
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
