"""Go's `netip.ParseAddr`, as far as a URL shows it: is the text an address, of which version, and if not, why."""

from __future__ import annotations

import re

from muster.gotemplate.errors import GoError
from muster.gotemplate.golang.strconv import quote

_GROUP = re.compile("[0-9a-fA-F]*")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, reason: str, at: str = "") -> GoError:
        place = f" (at {quote(at)})" if at else ""
        return GoError(f"ParseAddr({quote(self.text)}): {reason}{place}")

    def version(self) -> int:
        first = re.search("[.:%]", self.text)
        if first is None:
            raise self.error("unable to parse IP")
        if first[0] == "%":
            raise self.error("missing IPv6 address")
        if first[0] == ".":
            self.version4(self.text)
            return 4
        self.version6()
        return 6

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


def address_version(text: str) -> int:
    """4 or 6; raises GoError if the text is no address."""
    return _Parser(text).version()
