"""IP addresses and prefixes. Follows Go's `net/netip` (`ParseAddr`, `ParsePrefix`).

The values are those of Python's `ipaddress`, which accepts what Go accepts; refused texts are parsed again by Go's rules for the
error. An address may have a zone; a prefix may not.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import quote

_GROUP = re.compile("[0-9a-fA-F]*")
_BITS = re.compile("0|[1-9][0-9]{0,17}")


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """`netip.ParseAddr`; raises GoError."""
    try:
        return ip_address(text)
    except ValueError:
        _Reader(text).read()
    # Go also accepts a zone with a percent sign in it.
    return ip_address(text.partition("%")[0])


def parse_prefix(text: str) -> IPv4Interface | IPv6Interface:
    """`netip.ParsePrefix`: an address with all its bits, and the length of its network prefix; raises GoError."""
    address_text, slash, bits = text.rpartition("/")
    if not slash:
        raise _bad_prefix(text, "no '/'")
    try:
        address = parse_address(address_text)
    except GoError as error:
        raise _bad_prefix(text, str(error)) from None
    if "%" in address_text:
        raise _bad_prefix(text, "IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits):
        raise _bad_prefix(text, f"bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise _bad_prefix(text, "prefix length out of range")
    return ip_interface((address.packed, int(bits)))


def _bad_prefix(text: str, reason: str) -> GoError:
    return GoError(f"netip.ParsePrefix({quote(text)}): {reason}")


class _Reader:
    """Parses an invalid address up to the error."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, reason: str, at: str = "") -> GoError:
        position = f" (at {quote(at)})" if at else ""
        return GoError(f"ParseAddr({quote(self.text)}): {reason}{position}")

    def read(self) -> None:
        first = re.search("[.:%]", self.text)
        if first is None:
            raise self.error("unable to parse IP")
        if first[0] == "%":
            raise self.error("missing IPv6 address")
        if first[0] == ".":
            self.version4(self.text)
        else:
            self.version6()

    def version4(self, text: str) -> None:
        value, fields, digits = 0, 0, 0
        for at, char in enumerate(text):
            if "0" <= char <= "9":
                if digits == 1 and value == 0:
                    raise self.error("IPv4 field has octet with leading zero")
                value, digits = value * 10 + int(char), digits + 1
                if value > 255:
                    raise self.error("IPv4 field has value >255")
            elif char == ".":
                if at in (0, len(text) - 1) or text[at - 1] == ".":
                    raise self.error("IPv4 field must have at least one digit", text[at:])
                if fields == 3:
                    raise self.error("IPv4 address too long")
                fields, value, digits = fields + 1, 0, 0
            else:
                raise self.error("unexpected character", text[at:])
        if fields < 3:
            raise self.error("IPv4 address too short")

    def version6(self) -> None:
        rest, percent, zone = self.text.partition("%")
        if percent and not zone:
            raise self.error("zone must be a non-empty string")
        filled, ellipsis = 0, -1
        if rest.startswith("::"):
            ellipsis, rest = 0, rest[2:]
            if not rest:
                return
        while filled < 16:
            size = self._group(rest)
            if rest[size : size + 1] == ".":
                if ellipsis < 0 and filled != 12:
                    raise self.error("embedded IPv4 address must replace the final 2 fields of the address", rest)
                if filled + 4 > 16:
                    raise self.error("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
                self.version4(rest)
                rest, filled = "", filled + 4
                break
            filled, rest = filled + 2, rest[size:]
            if not rest:
                break
            if rest[0] != ":":
                raise self.error("unexpected character, want colon", rest)
            if len(rest) == 1:
                raise self.error("colon must be followed by more characters", rest)
            rest = rest[1:]
            if rest[0] == ":":
                if ellipsis >= 0:
                    raise self.error("multiple :: in address", rest)
                ellipsis, rest = filled, rest[1:]
                if not rest:
                    break
        if rest:
            raise self.error("trailing garbage after address", rest)
        if filled < 16 and ellipsis < 0:
            raise self.error("address string too short")
        if filled == 16 and ellipsis >= 0:
            raise self.error("the :: must expand to at least one field of zeros")

    def _group(self, rest: str) -> int:
        match = _GROUP.match(rest)
        size = match.end() if match else 0
        if size == 0:
            raise self.error("each colon-separated field must have at least one digit", rest)
        if size > 4:
            raise self.error("each group must have 4 or less digits", rest)
        return size
