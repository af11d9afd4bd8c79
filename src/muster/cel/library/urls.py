"""URLs by Go's net/url: `url()`, `isURL()` and the parts of a URL.

Only request URIs are accepted: absolute URLs and absolute paths.
"""

from __future__ import annotations

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.types import BOOL, STRING, Type, list_type, map_type
from muster.cel.values import Opaque
from muster.machinery.golang import urls
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import encode

URL_TYPE = Type("struct", "kubernetes.URL")


class URL(Opaque):
    __slots__ = ("parts", "text")
    cel_type = URL_TYPE

    def __init__(self, text: str, parts: urls.URL) -> None:
        self.text = text
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def request_uri_error(text: str) -> str | None:
    """Why the text is no request URI, with Go's text, or None."""
    try:
        urls.parse_request_uri(text)
    except GoError as error:
        return str(error)
    return None


def parse_url(text: str) -> URL:
    try:
        urls.parse_request_uri(text)
        return URL(text.partition("#")[0], urls.parse_url(text))
    except GoError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def query_values(url: URL) -> dict[str, list[str]]:
    return {_valid(name): [_valid(value) for value in values] for name, values in url.parts.query_values().items()}


def _valid(text: str) -> str:
    """CEL's strings are always valid UTF-8."""
    return text if text.isascii() else encode(text).decode("utf-8", "replace")


_U = URL_TYPE
URLS = Library(
    "kubernetes.urls",
    overloads=(
        ("url", overload("string_to_url", (STRING,), _U, parse_url, cost=costs.first_argument)),
        ("isURL", overload("is_url_string", (STRING,), BOOL, lambda text: request_uri_error(text) is None)),
        ("getScheme", method("url_get_scheme", (_U,), STRING, lambda url: url.parts.scheme)),
        ("getHost", method("url_get_host", (_U,), STRING, lambda url: _valid(url.parts.host))),
        ("getHostname", method("url_get_hostname", (_U,), STRING, lambda url: _valid(url.parts.hostname()))),
        ("getPort", method("url_get_port", (_U,), STRING, lambda url: url.parts.port())),
        ("getEscapedPath", method("url_get_escaped_path", (_U,), STRING, lambda url: url.parts.escaped_path())),
        ("getQuery", method("url_get_query", (_U,), map_type(STRING, list_type(STRING)), query_values)),
    ),
)
