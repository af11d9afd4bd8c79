"""Strict parsing of API server addresses: an invalid address is refused, never corrected.

An endpoint is an https URL of a host, a port and a base path. The base path is prepended to every path that is sent, so it must
not contain escapes, empty segments, `.` or `..`. An administrator may write any address; one that a cluster's agent has written
(`refuse_local`) must not be the gateway's own machine or link, nor another gateway. The notations in which C libraries accept
numbers as IPv4 addresses (`127.1`, `0x7f000001`) are not accepted as host names, so that every address is recognized as one.

No error message quotes a user, password or query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from muster.gateway.names import RESOURCE
from muster.gateway.target import Endpoint
from muster.machinery.printable import one_line

MAX_URL_LENGTH: Final = 2048
MAX_QUOTED_LENGTH: Final = 120
"""Characters of a refused address in an error message."""
DEFAULT_PORT: Final = 443
PROXY_SCHEMES: Final = ("http", "https", "socks5")

_URL: Final = re.compile(
    r"(?i:https)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~:@!$&'()*+,;=-]+)*)/?",
    re.ASCII,
)
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
"""A last label with which C libraries parse the whole name as an IPv4 address."""
_DOT_SEGMENTS: Final = frozenset((".", ".."))
_LOCAL_NAMES: Final = frozenset(("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"))
_THIS_NETWORK: Final = IPv4Network("0.0.0.0/8")
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""IPv6 networks whose addresses end with the IPv4 address that they are translated to."""

Address = IPv4Address | IPv6Address


class InvalidEndpoint(ValueError):
    """What is wrong with an address; the message may be shown to users."""


def split_endpoints(text: str) -> list[str]:
    """Several addresses in one value: one per line, or separated by commas."""
    return [part for line in text.splitlines() for one in line.split(",") if (part := one.strip())]


def parse_endpoint(text: str) -> Endpoint:
    """Raises InvalidEndpoint."""
    if len(text) > MAX_URL_LENGTH:
        raise InvalidEndpoint(f"the URL is longer than {MAX_URL_LENGTH} characters")
    if any(sign in text for sign in "@?#"):
        # Not quoted, because it may contain a password. An @ in a path is refused too.
        raise InvalidEndpoint("the URL has a user, query or fragment; expected https://host[:port][/path]")
    found = _URL.fullmatch(text)
    if found is None:
        raise InvalidEndpoint(f"{_quoted(text)} is not a URL of the form https://host[:port][/path] without escapes")
    port = DEFAULT_PORT if found["port"] is None else int(found["port"])
    if not 0 < port < 65536:
        raise InvalidEndpoint(f"{_quoted(text)} has no port between 1 and 65535")
    base_path = found["path"]
    if not _DOT_SEGMENTS.isdisjoint(base_path.split("/")):
        raise InvalidEndpoint(f"{_quoted(text)} has a path segment '.' or '..'")
    try:
        host = parse_host(found["host"].removeprefix("[").removesuffix("]"), bracketed=found["host"].startswith("["))
    except InvalidEndpoint as problem:
        raise InvalidEndpoint(f"{_quoted(text)}: {problem}") from None
    return Endpoint(host, port, base_path)


def parse_host(text: str, *, bracketed: bool = False) -> str:
    """A host name in lower case, or an IP address in its usual form. Raises InvalidEndpoint."""
    try:
        address = ip_address(text)
    except ValueError:
        address = None
    if address is not None:
        if bracketed != (address.version == 6):
            raise InvalidEndpoint("brackets are for IPv6 addresses only")
        return str(address)
    name = text.lower()
    if bracketed or len(name) > 253 or not _NAME.fullmatch(name):
        raise InvalidEndpoint("the host is neither a DNS name nor an IP address")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise InvalidEndpoint("the host ends with a number but is not an IPv4 address of four decimal numbers")
    return name


def refuse_local(endpoint: Endpoint, *, loopback: bool) -> None:
    """Raises InvalidEndpoint for an address that an agent may not use. `loopback`: all clusters are on one machine."""
    if RESOURCE in endpoint.base_path.split("/"):
        raise InvalidEndpoint("the path is one of a gateway")
    host = endpoint.host
    try:
        address = ip_address(host)
    except ValueError:
        if (host in _LOCAL_NAMES or host.endswith(".localhost")) and not loopback:
            raise InvalidEndpoint(f"{host} is the gateway's own machine") from None
        return
    for one in _meant(address):
        if one.is_loopback and loopback:
            continue
        if problem := _local(one):
            raise InvalidEndpoint(f"{host} is {problem}")


def parse_proxy(text: str) -> str:
    """The URL of a proxy, which may contain credentials: error messages quote nothing of it. Raises InvalidEndpoint."""
    expected = f"expected a URL of a proxy, {', '.join(PROXY_SCHEMES[:-1])} or {PROXY_SCHEMES[-1]}, such as http://proxy:3128"
    if len(text) > MAX_URL_LENGTH or not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise InvalidEndpoint(expected)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        bracketed = parts.netloc.rpartition("@")[2].startswith("[")
        parse_host(host, bracketed=bracketed)
    except ValueError:
        raise InvalidEndpoint(expected) from None
    if parts.scheme not in PROXY_SCHEMES or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidEndpoint(expected)
    return text


def _meant(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that an IPv6 address may be translated to."""
    yield address
    if isinstance(address, IPv6Address) and not (address.is_loopback or address.is_unspecified):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield from address.teredo
        if any(address in network for network in _TRANSLATED):
            yield IPv4Address(int(address) & 0xFFFFFFFF)


def _local(address: Address) -> str:
    """Why an address cannot be a cluster's; empty if it can."""
    if address.is_unspecified or (isinstance(address, IPv4Address) and address in _THIS_NETWORK):
        return "not an address of a server"
    if address.is_loopback:
        return "a loopback address, the gateway's own machine"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast or (isinstance(address, IPv4Address) and address.is_reserved):
        return "a multicast, broadcast or reserved address"
    return ""


def _quoted(text: str) -> str:
    shown = one_line(text[:MAX_QUOTED_LENGTH])
    return f'"{shown}…"' if len(text) > MAX_QUOTED_LENGTH else f'"{shown}"'
