"""IP addresses and CIDR ranges, strict as Go's netip: no leading zeros, no zones, no IPv4-mapped IPv6."""

from __future__ import annotations

import ipaddress
from typing import Any

from muster.cel import types
from muster.cel.errors import EvaluationError, no_such_overload
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.types import BOOL, INT, STRING
from muster.cel.values import Opaque
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.ips import parse_address, parse_prefix
from muster.machinery.golang.quoting import quote

IP_TYPE, CIDR_TYPE = types.opaque("net.IP"), types.opaque("net.CIDR")


class IP(Opaque):
    __slots__ = ("address",)
    cel_type = IP_TYPE

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class CIDR(Opaque):
    """A range with its host bits kept, as written."""

    __slots__ = ("interface",)
    cel_type = CIDR_TYPE

    def __init__(self, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> None:
        self.interface = interface

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.interface.ip}/{self.interface.network.prefixlen}"


def parse_ip(text: str) -> IP:
    try:
        address = parse_address(text)
    except GoError as error:
        raise EvaluationError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if "%" in text:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if address.version == 6 and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


_CIDR_ERROR = "network address parse error during conversion from string: "


def parse_cidr(text: str) -> CIDR:
    try:
        interface = parse_prefix(text)
    except GoError as error:
        raise EvaluationError(f"{_CIDR_ERROR}{_CIDR_ERROR}{error}") from None
    if interface.version == 6 and interface.ip.ipv4_mapped is not None:
        raise EvaluationError(f"{_CIDR_ERROR}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(interface)


def _valid(parse: Any) -> Any:
    def valid(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return valid


def _global_unicast(value: IP) -> bool:
    address = value.address
    limited = address.version == 4 and str(address) == "255.255.255.255"
    return not (limited or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


_LINK_LOCAL_MULTICAST = ipaddress.ip_network("224.0.0.0/24")
_LINK_LOCAL_UNICAST = (ipaddress.ip_network("169.254.0.0/16"), ipaddress.ip_network("fe80::/10"))


def _link_local_multicast(value: IP) -> bool:
    address = value.address
    if address.version == 6:
        # Any flags, scope 2.
        return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02
    return address in _LINK_LOCAL_MULTICAST


def _link_local_unicast(value: IP) -> bool:
    return any(value.address in network for network in _LINK_LOCAL_UNICAST)


def _parsed(parse: Any, value: Any) -> Any:
    """Parses a string argument; an invalid one has no overload."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except EvaluationError:
        raise no_such_overload() from None


def contains_ip(cidr: CIDR, other: IP | str) -> bool:
    return _parsed(parse_ip, other).address in cidr.interface.network


def contains_cidr(cidr: CIDR, other: CIDR | str) -> bool:
    inner = _parsed(parse_cidr, other)
    outer_network, inner_network = cidr.interface.network, inner.interface.network
    if outer_network.version != inner_network.version:
        return False
    return outer_network.overlaps(inner_network) and outer_network.prefixlen <= inner_network.prefixlen


def _masked(cidr: CIDR) -> CIDR:
    return CIDR(ipaddress.ip_interface(str(cidr.interface.network)))


def _contains_cost(with_mask: bool, parsed: bool) -> Any:
    """Both sides' address bytes are compared; a string is parsed first, a range masked."""

    def cost(args: list[Any], result: Any) -> int:
        size = _cost_size(args[0])
        total = costs.tenth(2 * size)
        if with_mask:
            total += costs.tenth(size) + 1
        if parsed:
            total += costs.tenth(len(args[1]))
        return total

    return cost


def _cost_size(value: CIDR) -> int:
    return -(-value.interface.network.prefixlen // 8)


NETWORK = Library(
    "kubernetes.net",
    overloads=(
        ("ip", overload("string_to_ip", (STRING,), IP_TYPE, parse_ip, cost=costs.first_argument)),
        ("isIP", overload("is_ip", (STRING,), BOOL, _valid(parse_ip), cost=costs.first_argument)),
        (
            "ip.isCanonical",
            overload(
                "ip_is_canonical",
                (STRING,),
                BOOL,
                lambda text: str(parse_ip(text)) == text,
                cost=costs.first_argument_twice,
            ),
        ),
        ("family", method("ip_family", (IP_TYPE,), INT, lambda value: value.address.version)),
        ("isUnspecified", method("ip_is_unspecified", (IP_TYPE,), BOOL, lambda value: value.address.is_unspecified)),
        ("isLoopback", method("ip_is_loopback", (IP_TYPE,), BOOL, lambda value: value.address.is_loopback)),
        ("isLinkLocalMulticast", method("ip_is_link_local_multicast", (IP_TYPE,), BOOL, _link_local_multicast)),
        ("isLinkLocalUnicast", method("ip_is_link_local_unicast", (IP_TYPE,), BOOL, _link_local_unicast)),
        ("isGlobalUnicast", method("ip_is_global_unicast", (IP_TYPE,), BOOL, _global_unicast)),
        ("string", overload("ip_to_string", (IP_TYPE,), STRING, str)),
        ("cidr", overload("string_to_cidr", (STRING,), CIDR_TYPE, parse_cidr, cost=costs.first_argument)),
        ("isCIDR", overload("is_cidr", (STRING,), BOOL, _valid(parse_cidr), cost=costs.first_argument)),
        (
            "containsIP",
            method("cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, contains_ip, _contains_cost(False, True)),
        ),
        (
            "containsIP",
            method("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, contains_ip, _contains_cost(False, False)),
        ),
        (
            "containsCIDR",
            method("cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL, contains_cidr, _contains_cost(True, True)),
        ),
        (
            "containsCIDR",
            method("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, contains_cidr, _contains_cost(True, False)),
        ),
        ("ip", method("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda value: IP(value.interface.ip))),
        (
            "prefixLength",
            method("cidr_prefix_length", (CIDR_TYPE,), INT, lambda value: value.interface.network.prefixlen),
        ),
        ("masked", method("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, _masked)),
        ("string", overload("cidr_to_string", (CIDR_TYPE,), STRING, str)),
    ),
    types={"net.IP": IP_TYPE, "net.CIDR": CIDR_TYPE},
)
