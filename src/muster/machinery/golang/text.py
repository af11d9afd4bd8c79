"""Go's `string`, which is bytes, as a Python `str`.

A byte that is not UTF-8 is one of U+DC80…U+DCFF (surrogateescape), so that `encode(s)` is always the exact Go string. Invariant: a
string made by joining parts goes through `joined()`, which combines parts of a rune to the rune.
"""

from __future__ import annotations


def encode(text: str) -> bytes:
    """The bytes of a Go string."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A surrogate that represents no byte cannot be in a Go string: it becomes the replacement character.
        return b"".join(
            b"\xef\xbf\xbd" if 0xD800 <= ord(c) < 0xDC80 or 0xDCFF < ord(c) <= 0xDFFF
            else c.encode("utf-8", "surrogateescape") for c in text
        )  # fmt: skip


def decode(data: bytes) -> str:
    """The Go string of these bytes."""
    return data.decode("utf-8", "surrogateescape")


def joined(text: str) -> str:
    """The Go string of text made by joining strings."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return decode(encode(text))
    return text


def byte_len(text: str) -> int:
    return len(text) if text.isascii() else len(encode(text))


def well_formed(text: str) -> str:
    """A Go string where only valid text is possible: invalid UTF-8 becomes replacement characters, as in Go's JSON."""
    if text.isascii():
        return text
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
