"""URLs as Go's net/url reads them: `url()`, `isURL()` and the parts of a URL.

Only request URIs are accepted: absolute URLs and absolute paths. The parser follows Go's, because what counts as valid
(characters in hosts, ports, escapes) is part of the contract of a validation rule.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.numbers import quote
from muster.cel.types import BOOL, STRING, Type, list_type, map_type
from muster.cel.values import Opaque

URL_TYPE = Type("struct", "kubernetes.URL")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff]")
_PATH_PLAIN = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*\Z")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})?")
_PORT = re.compile(r"(:[0-9]*)?\Z")
_KEPT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")


class URL(Opaque):
    __slots__ = ("host", "path", "query", "scheme", "text")
    cel_type = URL_TYPE

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class _Invalid(Exception):
    pass


def request_uri_error(text: str) -> str | None:
    """Why the text is not a request URI, in Go's words, or None."""
    try:
        _parse(text, request=True)
    except _Invalid as error:
        return f"parse {quote(text)}: {error}"
    return None


def parse_url(text: str) -> URL:
    try:
        _parse(text, request=True)
        return _parse(text.partition("#")[0], request=False)
    except _Invalid as error:
        message = f"URL parse error during conversion from string: parse {quote(text)}: {error}"
        raise EvaluationError(message) from None


def _parse(text: str, request: bool) -> URL:
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise _Invalid("net/url: invalid control character in URL")
    if not text and request:
        raise _Invalid("empty url")
    if text == "*":
        return URL(text, "", "", "*", "")
    scheme, rest = _split_scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(text, scheme, "", "", query)
        if request:
            raise _Invalid("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Invalid("first path segment in URL cannot contain colon")
    host = ""
    if (scheme or not request) and rest.startswith("//") and not rest.startswith("///"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
        host = _parse_authority(authority)
    elif scheme and rest.startswith("///"):
        rest = rest[2:]
    _check_escapes(rest)
    return URL(text, scheme, host, rest, query)


def _split_scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise _Invalid("missing protocol scheme")
    match = _SCHEME.match(text)
    return ("", text) if match is None else (match.group(1).lower(), text[match.end() :])


def _parse_authority(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", userinfo):
        raise _Invalid("net/url: invalid userinfo")
    if host.startswith("["):
        close = host.rfind("]")
        if close < 0:
            raise _Invalid("missing ']' in host")
        _check_port(host[close + 1 :])
    elif ":" in host:
        _check_port(host[host.rindex(":") :])
        if ":" in host[: host.rindex(":")]:
            raise _Invalid(f'invalid port "{host[host.index(":") :]}" after host')
    _check_host(host)
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), host)


def _check_port(port: str) -> None:
    if not _PORT.match(port):
        raise _Invalid(f"invalid port {quote(port)} after host")


def _check_host(host: str) -> None:
    for match in _ESCAPE.finditer(host):
        # Hosts may escape only what is not ASCII.
        if match.group(1) is None or (int(match.group(1), 16) < 0x80 and match.group() != "%25"):
            raise _Invalid(f"invalid URL escape {quote(host[match.start() : match.start() + 3])}")
    for char in host.replace("%", ""):
        if not _HOST.match(char):
            raise _Invalid(f"invalid character {quote(char)} in host name")


def _check_escapes(text: str) -> None:
    for match in _ESCAPE.finditer(text):
        if match.group(1) is None:
            raise _Invalid(f"invalid URL escape {quote(text[match.start() : match.start() + 3])}")


def escaped_path(url: URL) -> str:
    if _PATH_PLAIN.match(url.path):
        return url.path
    raw = unquote_to_bytes(url.path)
    return "".join(chr(byte) if byte in _KEPT else f"%{byte:02X}" for byte in raw)


def hostname(url: URL) -> str:
    if url.host.startswith("["):
        return url.host[1 : url.host.index("]")]
    return url.host.partition(":")[0]


def port(url: URL) -> str:
    return url.host.rpartition("]")[2].partition(":")[2]


def query_values(url: URL) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            _check_escapes(pair)
        except _Invalid:
            continue
        values.setdefault(_unescape(key), []).append(_unescape(value))
    return values


def _unescape(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


_U = URL_TYPE
URLS = Library(
    "kubernetes.urls",
    overloads=(
        ("url", overload("string_to_url", (STRING,), _U, parse_url, cost=costs.first_argument)),
        ("isURL", overload("is_url_string", (STRING,), BOOL, lambda text: request_uri_error(text) is None)),
        ("getScheme", method("url_get_scheme", (_U,), STRING, lambda url: url.scheme)),
        ("getHost", method("url_get_host", (_U,), STRING, lambda url: url.host)),
        ("getHostname", method("url_get_hostname", (_U,), STRING, hostname)),
        ("getPort", method("url_get_port", (_U,), STRING, port)),
        ("getEscapedPath", method("url_get_escaped_path", (_U,), STRING, escaped_path)),
        ("getQuery", method("url_get_query", (_U,), map_type(STRING, list_type(STRING)), query_values)),
    ),
)
