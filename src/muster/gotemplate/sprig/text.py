"""sprig's functions on strings: trimming, cutting, joining, quoting, wrapping.

Go's strings are bytes, and several of these cut between bytes; `encode` and `decode` keep that exact.
"""

from __future__ import annotations

import random
import secrets
import string
from typing import Any

from muster.gotemplate.golang import fmt
from muster.gotemplate.limits import charge, charge_size
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import Map, Slice
from muster.machinery.golang import quoting, unicode
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import byte_len, decode, encode, joined

TEXT = FuncTable()


def strval(value: Any) -> str:
    """The value as a string, the way sprig converts."""
    if value.__class__ is str:
        return str(value)
    if isinstance(value, bytes):
        return decode(value)
    return fmt.show(value)


def strslice(value: Any) -> list[str]:
    """The value as strings: the elements of a list that are not nil, or the value alone."""
    if isinstance(value, (list, tuple)):
        return [item if item.__class__ is str else strval(item) for item in value if item is not None]
    if isinstance(value, bytes):
        return [str(byte) for byte in value]
    return [] if value is None else [strval(value)]


def _is_whole(text: str) -> bool:
    """Whether the text is UTF-8; if so it matches in another string only at rune boundaries, as in Go."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Case and trimming

TEXT.add("upper", "string", "string")(unicode.upper)
TEXT.add("lower", "string", "string")(unicode.lower)
TEXT.add("trim", "string", "string")(unicode.trim_space)


@TEXT.add("trimAll trimall", "string, string", "string")
def trim_all(cutset: str, text: str) -> str:
    return text.strip(cutset) if cutset else text


@TEXT.add("trimSuffix", "string, string", "string")
def trim_suffix(suffix: str, text: str) -> str:
    return text.removesuffix(suffix) if _is_whole(suffix) else decode(encode(text).removesuffix(encode(suffix)))


@TEXT.add("trimPrefix", "string, string", "string")
def trim_prefix(prefix: str, text: str) -> str:
    return text.removeprefix(prefix) if _is_whole(prefix) else decode(encode(text).removeprefix(encode(prefix)))


@TEXT.add("contains", "string, string", "bool")
def contains(part: str, text: str) -> bool:
    return part in text if _is_whole(part) else encode(part) in encode(text)


@TEXT.add("hasPrefix", "string, string", "bool")
def has_prefix(prefix: str, text: str) -> bool:
    return text.startswith(prefix) if _is_whole(prefix) else encode(text).startswith(encode(prefix))


@TEXT.add("hasSuffix", "string, string", "bool")
def has_suffix(suffix: str, text: str) -> bool:
    return text.endswith(suffix) if _is_whole(suffix) else encode(text).endswith(encode(suffix))


@TEXT.add("replace", "string, string, string", "string")
def replace(old: str, new: str, text: str) -> str:
    if old and len(new) > len(old):
        charge_size(len(text) + text.count(old) * (len(new) - len(old)))
    elif not old:
        charge_size(len(text) + (len(text) + 1) * len(new))
    if _is_whole(old):
        return joined(text.replace(old, new))
    return decode(encode(text).replace(encode(old), encode(new)))


# Cutting


def _slice_error(low: int | None, high: int | None, size: int) -> GoError:
    if high is None:
        return GoError(f"runtime error: slice bounds out of range [{low}:{size}]")
    if low is None or not 0 <= high <= size:
        tail = f" with length {size}" if high >= 0 else ""
        return GoError(f"runtime error: slice bounds out of range [:{high}]{tail}")
    return GoError(f"runtime error: slice bounds out of range [{low}:{high}]")


@TEXT.add("substr", "int, int, string", "string")
def substr(start: int, end: int, text: str) -> str:
    data = encode(text)
    if start < 0:
        if not 0 <= end <= len(data):
            raise _slice_error(None, end, len(data))
        return decode(data[:end])
    if end < 0 or end > len(data):
        if start > len(data):
            raise _slice_error(start, None, len(data))
        return decode(data[start:])
    if start > end:
        raise _slice_error(start, end, len(data))
    return decode(data[start:end])


@TEXT.add("trunc", "int, string", "string")
def trunc(count: int, text: str) -> str:
    data: Any = text if text.isascii() else encode(text)
    if count < 0 and len(data) + count > 0:
        data = data[len(data) + count :]
    elif count >= 0 and len(data) > count:
        data = data[:count]
    return data if isinstance(data, str) else decode(data)


def _abbreviated(data: bytes, offset: int, width: int) -> bytes:
    if not data or len(data) <= width:
        return data
    offset = min(offset, len(data))
    if len(data) - offset < width - 3:
        offset = len(data) - (width - 3)
    if offset <= 4:
        return data[: width - 3] + b"..."
    if width < 7:
        return b""
    if offset + width - 3 < len(data):
        return b"..." + _abbreviated(data[offset:], 0, width - 3)
    return b"..." + data[len(data) - (width - 3) :]


@TEXT.add("abbrev", "int, string", "string")
def abbrev(width: int, text: str) -> str:
    return text if width < 4 else decode(_abbreviated(encode(text), 0, width))


@TEXT.add("abbrevboth", "int, int, string", "string")
def abbrevboth(left: int, right: int, text: str) -> str:
    if right < 4 or (left > 0 and right < 7):
        return text
    return decode(_abbreviated(encode(text), left, right))


@TEXT.add("initials", "string", "string")
def initials(text: str) -> str:
    """The first byte of every word, read as a Latin-1 letter: that is what goutils does."""
    out, after_gap = [], True
    for char in encode(text).decode("latin-1"):
        if unicode.is_space(char):
            after_gap = True
        elif after_gap:
            out.append(char)
            after_gap = False
    return "".join(out)


@TEXT.add("nospace", "string", "string")
def nospace(text: str) -> str:
    """Without white space; if there was any, bytes come out as Latin-1 letters, as in goutils."""
    letters = encode(text).decode("latin-1")
    kept = "".join(char for char in letters if not unicode.is_space(char))
    return text if len(kept) == len(letters) else kept


# Splitting and joining


def _split(text: str, separator: str, count: int) -> list[str]:
    """`strings.SplitN`; a negative count means all."""
    if count == 0:
        return []
    if not separator:
        runes = list(text)
        if count < 0 or len(runes) <= count:
            return runes
        return [*runes[: count - 1], "".join(runes[count - 1 :])]
    charge(text.count(separator) + 1)
    if _is_whole(separator):
        return text.split(separator, count - 1 if count > 0 else -1)
    return [decode(part) for part in encode(text).split(encode(separator), count - 1 if count > 0 else -1)]


def _numbered(parts: list[str]) -> Map:
    return Map({f"_{at}": part for at, part in enumerate(parts)}, "map[string]string")


@TEXT.add("split", "string, string", "map[string]string")
def split(separator: str, text: str) -> Map:
    return _numbered(_split(text, separator, -1))


@TEXT.add("splitn", "string, int, string", "map[string]string")
def splitn(separator: str, count: int, text: str) -> Map:
    return _numbered(_split(text, separator, count))


@TEXT.add("splitList", "string, string", "[]string")
def split_list(separator: str, text: str) -> Slice:
    return Slice(_split(text, separator, -1), "[]string")


@TEXT.add("toStrings", "any", "[]string")
def to_strings(value: Any) -> Slice:
    if isinstance(value, Slice) and value.go_type == "[]string":
        return value
    return Slice(strslice(value), "[]string")


@TEXT.add("join", "string, any", "string")
def join(separator: str, value: Any) -> str:
    parts = strslice(value)
    charge_size(sum(map(len, parts)) + len(separator) * len(parts))
    return joined(separator.join(parts))


@TEXT.add("cat", "...any", "string")
def cat(*values: Any) -> str:
    shown = [fmt.show(value) for value in values if value is not None]
    charge_size(sum(map(len, shown)))
    return joined(" ".join(shown))


@TEXT.add("repeat", "int, string", "string")
def repeat(count: int, text: str) -> str:
    if count < 0:
        raise GoError("strings: negative Repeat count")
    charge_size(count * byte_len(text))
    return joined(text * count)


@TEXT.add("toString", "any", "string")
def to_string(value: Any) -> str:
    return strval(value)


# Quoting and layout


@TEXT.add("quote", "...any", "string")
def quote(*values: Any) -> str:
    return " ".join(quoting.quote(strval(value)) for value in values if value is not None)


@TEXT.add("squote", "...any", "string")
def squote(*values: Any) -> str:
    return " ".join(f"'{fmt.show(value)}'" for value in values if value is not None)


@TEXT.add("indent", "int, string", "string")
def indent(spaces: int, text: str) -> str:
    if spaces < 0:
        raise GoError("strings: negative Repeat count")
    charge_size(len(text) + spaces * (text.count("\n") + 1))
    pad = " " * spaces
    return pad + text.replace("\n", "\n" + pad)


@TEXT.add("nindent", "int, string", "string")
def nindent(spaces: int, text: str) -> str:
    return "\n" + indent(spaces, text)


@TEXT.add("plural", "string, string, int", "string")
def plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _wrapped(data: bytes, width: int, line_end: bytes, cut_words: bool) -> bytes:
    width, line_end = max(width, 1), line_end or b"\n"
    out, at = bytearray(), 0
    while len(data) - at > width:
        if data[at] == 0x20:
            at += 1
            continue
        space = data.rfind(b" ", at, at + width + 1)
        if space >= at:
            out += data[at:space] + line_end
            at = space + 1
        elif cut_words:
            out += data[at : at + width] + line_end
            at += width
        else:
            space = data.find(b" ", at + width)
            if space < 0:
                out += data[at:]
                at = len(data)
            else:
                out += data[at:space] + line_end
                at = space + 1
        charge(1)
    return bytes(out + data[at:])


@TEXT.add("wrap", "int, string", "string")
def wrap(width: int, text: str) -> str:
    return decode(_wrapped(encode(text), width, b"\n", cut_words=False))


@TEXT.add("wrapWith", "int, string, string", "string")
def wrap_with(width: int, line_end: str, text: str) -> str:
    charge_size(len(text) + len(line_end) * (len(text) // max(width, 1) + 1))
    return decode(_wrapped(encode(text), width, encode(line_end), cut_words=True))


# Random


def _random(count: int, letters: str) -> str:
    if count < 0:
        return ""
    charge_size(count)
    return "".join(secrets.choice(letters) for _ in range(count))


@TEXT.add("randAlphaNum", "int", "string")
def rand_alphanumeric(count: int) -> str:
    return _random(count, string.ascii_letters + string.digits)


@TEXT.add("randAlpha", "int", "string")
def rand_alpha(count: int) -> str:
    return _random(count, string.ascii_letters)


@TEXT.add("randNumeric", "int", "string")
def rand_numeric(count: int) -> str:
    return _random(count, string.digits)


@TEXT.add("randAscii", "int", "string")
def rand_ascii(count: int) -> str:
    return _random(count, "".join(map(chr, range(32, 127))))


@TEXT.add("shuffle", "string", "string")
def shuffle(text: str) -> str:
    runes = list(text)
    random.SystemRandom().shuffle(runes)
    return joined("".join(runes))


@TEXT.add("hello", "", "string")
def hello() -> str:
    return "Hello!"
