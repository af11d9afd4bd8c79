"""Parsing and formatting of URLs. Follows Go's `net/url` (`Parse`, `ParseRequestURI`).

Validity (characters in hosts, ports, escapes) is part of the contract of schemas and of validation rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.ips import parse_address
from muster.machinery.golang.quoting import quote
from muster.machinery.golang.text import decode, encode

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_SAFE = {
    "path": _UNRESERVED | frozenset(b"$&+,/:;=@"),
    "userinfo": _UNRESERVED | frozenset(b"$&+,;="),
    "fragment": _UNRESERVED | frozenset(b"$&+,/:;=?@!()*"),
    "host": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
}
_SAFE["zone"] = _SAFE["host"]
_is_safe = {mode: re.compile(f"[{re.escape(bytes(safe).decode())}]*").fullmatch for mode, safe in _SAFE.items()}
_VALID_ENCODED = frozenset(b"!$&'()*+,;=:@[]%")
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})")
_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?\Z")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")


def escape(text: str, mode: str) -> str:
    if _is_safe[mode](text):
        return text
    safe = _SAFE[mode]
    return decode(b"".join(bytes((byte,)) if byte in safe else b"%%%02X" % byte for byte in encode(text)))


def unescape(text: str, mode: str) -> str:
    """The text with its escapes decoded; raises GoError for an invalid escape, or one that is not permitted at this position."""
    if "%" not in text and (_is_safe["host"](text) if mode in ("host", "zone") else text.isascii()):
        return text.replace("+", " ") if mode == "query" else text
    data = encode(text)
    if mode in ("host", "zone"):
        _check_host(data, mode)
    elif bad := _BAD_ESCAPE.search(data):
        raise GoError(f"invalid URL escape {quote(decode(data[bad.start() : bad.start() + 3]))}")
    if mode == "query":
        data = data.replace(b"+", b" ")
    return decode(unquote_to_bytes(data))


def _check_host(data: bytes, mode: str) -> None:
    at = 0
    while at < len(data):
        byte = data[at]
        if byte == ord("%"):
            code = _ESCAPE.match(data, at)
            value = int(code[1], 16) if code else -1
            if (
                value < 0
                or (mode == "host" and value < 0x80 and value != 0x25)
                or (mode == "zone" and value not in (0x25, 0x20) and value not in _SAFE["host"])
            ):
                raise GoError(f"invalid URL escape {quote(decode(data[at : at + 3]))}")
            at += 3
            continue
        if byte < 0x80 and byte not in _SAFE[mode]:
            raise GoError(f"invalid character {quote(chr(byte))} in host name")
        at += 1


def decode_path(raw: str) -> str:
    """The decoded path of a request's target, without its query. ValueError if it cannot be decoded, or is not UTF-8."""
    if "%" not in raw:
        return raw
    path = unescape(raw, "path")
    if not path.isascii() and any("\udc80" <= character <= "\udcff" for character in path):
        raise ValueError("the request path is not UTF-8")
    return path


def query_pairs(query: str) -> list[tuple[str, str]]:
    """The names and values of a query in order, as `ParseQuery` parses them: invalid pairs are left out."""
    pairs = []
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, value = pair.partition("=")
        try:
            pairs.append((unescape(name, "query"), unescape(value, "query")))
        except GoError:
            continue
    return pairs


@dataclass
class URL:
    scheme: str = ""
    opaque: str = ""
    user: tuple[str, str | None] | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    force_query: bool = False
    query: str = ""
    fragment: str = ""
    raw_fragment: str = ""
    omit_host: bool = False

    def _host_and_port(self) -> tuple[str, str]:
        host, port = self.host, ""
        colon = host.rfind(":")
        if colon >= 0 and _PORT.match(host, colon):
            host, port = host[:colon], host[colon + 1 :]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host, port

    def hostname(self) -> str:
        return self._host_and_port()[0]

    def port(self) -> str:
        return self._host_and_port()[1]

    def escaped_path(self) -> str:
        return "*" if self.path == "*" else self._escaped(self.raw_path, self.path, "path")

    def query_values(self) -> dict[str, list[str]]:
        """`URL.Query`: invalid pairs are left out."""
        values: dict[str, list[str]] = {}
        for name, value in query_pairs(self.query):
            values.setdefault(name, []).append(value)
        return values

    def userinfo(self) -> str:
        if self.user is None:
            return ""
        name, password = self.user
        return escape(name, "userinfo") + ("" if password is None else ":" + escape(password, "userinfo"))

    def _escaped(self, raw: str, value: str, mode: str) -> str:
        if raw and all(byte in _VALID_ENCODED or byte in _SAFE[mode] for byte in encode(raw)):
            try:
                if unescape(raw, mode) == value:
                    return raw
            except GoError:
                pass
        return escape(value, mode)

    def __str__(self) -> str:
        out = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            out += self.opaque
        else:
            out += self._hierarchy(out)
        if self.force_query or self.query:
            out += "?" + self.query
        if self.fragment:
            out += "#" + self._escaped(self.raw_fragment, self.fragment, "fragment")
        return out

    def _hierarchy(self, before: str) -> str:
        out = ""
        if (self.scheme or self.host or self.user) and not (self.omit_host and not self.host and not self.user):
            if self.host or self.path or self.user:
                out = "//"
            if self.user is not None:
                out += self.userinfo() + "@"
            if self.host:
                out += escape(self.host, "host")
        path = self.escaped_path()
        if path and not path.startswith("/") and self.host:
            out += "/"
        if not before and not out and ":" in path.partition("/")[0]:
            out = "./"
        return out + path


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise GoError("missing protocol scheme")
    match = _SCHEME.match(text)
    return (match[1].lower(), text[match.end() :]) if match else ("", text)


def _bracketed_host(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        raise GoError("missing ']' in host")
    port = host[closing + 1 :]
    if not _PORT.match(port):
        raise GoError(f"invalid port {quote(port)} after host")
    inner = host[1:closing]
    zone = inner.find("%25")
    inner = unescape(inner, "host") if zone < 0 else unescape(inner[:zone], "host") + unescape(inner[zone:], "zone")
    try:
        version = parse_address(inner).version
    except GoError as error:
        raise GoError(f"invalid host: {error}") from None
    if version == 4:
        raise GoError("invalid IP-literal")
    return f"[{inner}]{port}"


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise GoError("invalid IP-literal")
    if bracket == 0:
        return _bracketed_host(host)
    colon = host.find(":")
    if colon >= 0:
        if host.rfind(":") != colon and scheme not in ("http", "https"):
            colon = host.rfind(":")
        if not _PORT.match(host, colon):
            raise GoError(f"invalid port {quote(host[colon:])} after host")
    return unescape(host, "host")


def _authority(url: URL, authority: str) -> None:
    userinfo, at, host = authority.rpartition("@")
    url.host = _host(url.scheme, host)
    if not at:
        return
    if not _USERINFO.match(userinfo):
        raise GoError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    url.user = unescape(name, "userinfo"), unescape(password, "userinfo") if colon else None


def _parse(text: str, via_request: bool) -> URL:
    if _CONTROL.search(text):
        raise GoError("net/url: invalid control character in URL")
    if not text and via_request:
        raise GoError("empty url")
    url = URL()
    if text == "*":
        url.path = "*"
        return url
    url.scheme, rest = _scheme(text)
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query = True
        rest = rest[:-1]
    else:
        rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if via_request:
            raise GoError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise GoError("first path segment in URL cannot contain colon")
    if (url.scheme or not (via_request or rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        _authority(url, authority)
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = unescape(rest, "path")
    url.raw_path = "" if escape(url.path, "path") == rest else rest
    return url


def parse_url(text: str) -> URL:
    """`url.Parse`; raises GoError."""
    before, _, fragment = text.partition("#")
    url = _parsed(before, via_request=False)
    if fragment:
        try:
            url.fragment = unescape(fragment, "fragment")
        except GoError as error:
            raise GoError(f"parse {quote(text)}: {error}") from None
        url.raw_fragment = "" if escape(url.fragment, "fragment") == fragment else fragment
    return url


def parse_request_uri(text: str) -> URL:
    """`url.ParseRequestURI`: an absolute URL or an absolute path; a fragment is not split off. Raises GoError."""
    return _parsed(text, via_request=True)


def is_request_uri(text: str) -> bool:
    try:
        _parse(text, via_request=True)
    except GoError:
        return False
    return True


def _parsed(text: str, via_request: bool) -> URL:
    try:
        return _parse(text, via_request)
    except GoError as error:
        raise GoError(f"parse {quote(text)}: {error}") from None
