"""Untrusted text made safe for a terminal: characters that control it, or hide text, are shown as escapes.

Versions, messages, names and logs come from clusters, which may be hostile. A terminal interprets control characters (the C0 and C1
sets: cursor movements, colours, titles, even responses that appear as typed input), and some others change how text reads without
being visible: directional overrides, zero-width characters, tags, fillers. They are written as `\\x1b` or `\\u202e`. Line breaks
and tabs stay, except where a text must be one line (`one_line`). Backslashes stay unchanged: the result is for reading, not for
parsing.
"""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff"
)
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}\ud800-\udfff]")
_LINES: Final = {ord("\n"): "\\n", ord("\t"): "\\t"}


def printable(text: str) -> str:
    """Text of any number of lines."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    return printable(text).translate(_LINES)


def is_printable(text: str) -> bool:
    return _UNSAFE.search(text) is None


def printable_json(text: str) -> str:
    """Equivalent JSON: such characters can only be in its strings."""
    return _UNSAFE.sub(_escape_in_json, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
