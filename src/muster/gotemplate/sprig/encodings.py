"""sprig's encodings: base64, base32, JSON, and digests.

For a text that cannot be decoded the result is the error's text, as in sprig; only the `must` forms fail.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

from muster.gotemplate.golang import json as gojson
from muster.gotemplate.limits import charge_size
from muster.gotemplate.signature import FuncTable
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import decode, encode

ENCODINGS = FuncTable()
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BASE32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_PAD = ord("=")
_NEWLINES = b"\r\n"


class CorruptInput(Exception):
    """The position of the first byte that is wrong."""


def decode_base64(data: bytes) -> bytes:
    """`base64.StdEncoding.DecodeString`: newlines are skipped, padding is required, spare bits are ignored."""
    kept = bytearray()
    at, size = 0, len(data)
    while True:
        filled = 0
        while filled < 4:
            if at == size:
                if filled == 0:
                    return base64.b64decode(bytes(kept))
                raise CorruptInput(at - filled)
            byte = data[at]
            at += 1
            if byte in _BASE64:
                kept.append(byte)
                filled += 1
            elif byte not in _NEWLINES:
                if byte != _PAD or filled < 2:
                    raise CorruptInput(at - 1)
                return _padded_end(data, at, filled, kept)


def _padded_end(data: bytes, at: int, filled: int, kept: bytearray) -> bytes:
    def skip(position: int) -> int:
        while position < len(data) and data[position] in _NEWLINES:
            position += 1
        return position

    if filled == 2:
        at = skip(at)
        if at == len(data):
            raise CorruptInput(at)
        if data[at] != _PAD:
            raise CorruptInput(at - 1)
        at += 1
    at = skip(at)
    if at < len(data):
        raise CorruptInput(at)
    return base64.b64decode(bytes(kept) + b"=" * (4 - filled))


def decode_base32(data: bytes) -> bytes:
    """`base32.StdEncoding.DecodeString`."""
    data = data.translate(None, _NEWLINES)
    size, at, end = len(data), 0, False
    kept = bytearray()
    while at < size and not end:
        filled = 0
        while filled < 8:
            if at == size:
                raise CorruptInput(size - filled)
            byte = data[at]
            at += 1
            if byte == _PAD and filled >= 2 and size - at < 8:
                if size - at + filled < 7:
                    raise CorruptInput(size)
                for offset in range(7 - filled):
                    if size - at > offset and data[at + offset] != _PAD:
                        raise CorruptInput(at + offset - 1)
                if filled in (1, 3, 6):
                    raise CorruptInput(at - 1)
                kept += b"=" * (8 - filled)
                end = True
                break
            if byte not in _BASE32:
                raise CorruptInput(at - 1)
            kept.append(byte)
            filled += 1
    return base64.b32decode(bytes(kept))


@ENCODINGS.add("b64enc", "string", "string")
def b64enc(text: str) -> str:
    charge_size(len(text) * 4 // 3)
    return base64.b64encode(encode(text)).decode()


@ENCODINGS.add("b64dec", "string", "string")
def b64dec(text: str) -> str:
    try:
        return decode(decode_base64(encode(text)))
    except CorruptInput as error:
        return f"illegal base64 data at input byte {error}"


@ENCODINGS.add("b32enc", "string", "string")
def b32enc(text: str) -> str:
    charge_size(len(text) * 8 // 5)
    return base64.b32encode(encode(text)).decode()


@ENCODINGS.add("b32dec", "string", "string")
def b32dec(text: str) -> str:
    try:
        return decode(decode_base32(encode(text)))
    except CorruptInput as error:
        return f"illegal base32 data at input byte {error}"


# JSON


@ENCODINGS.add("fromJson", "string")
def from_json(text: str) -> Any:
    try:
        return gojson.unmarshal(text, lenient=True)
    except GoError:
        return None


@ENCODINGS.add("mustFromJson", "string")
def must_from_json(text: str) -> Any:
    return gojson.unmarshal(text)


def _sized(text: str) -> str:
    charge_size(len(text))
    return text


@ENCODINGS.add("toJson", "any", "string")
def to_json(value: Any) -> str:
    try:
        return _sized(gojson.marshal(value))
    except GoError:
        return ""


@ENCODINGS.add("mustToJson", "any", "string")
def must_to_json(value: Any) -> str:
    return _sized(gojson.marshal(value))


@ENCODINGS.add("toPrettyJson", "any", "string")
def to_pretty_json(value: Any) -> str:
    try:
        return _sized(gojson.marshal(value, indent="  "))
    except GoError:
        return ""


@ENCODINGS.add("mustToPrettyJson", "any", "string")
def must_to_pretty_json(value: Any) -> str:
    return _sized(gojson.marshal(value, indent="  "))


@ENCODINGS.add("toRawJson mustToRawJson", "any", "string")
def to_raw_json(value: Any) -> str:
    return _sized(gojson.marshal(value, escape_html=False, by_pointer=True))


# Digests


@ENCODINGS.add("sha1sum", "string", "string")
def sha1sum(text: str) -> str:
    return hashlib.sha1(encode(text), usedforsecurity=False).hexdigest()


@ENCODINGS.add("sha256sum", "string", "string")
def sha256sum(text: str) -> str:
    return hashlib.sha256(encode(text)).hexdigest()


@ENCODINGS.add("sha512sum", "string", "string")
def sha512sum(text: str) -> str:
    return hashlib.sha512(encode(text)).hexdigest()


@ENCODINGS.add("adler32sum", "string", "string")
def adler32sum(text: str) -> str:
    return str(zlib.adler32(encode(text)))
