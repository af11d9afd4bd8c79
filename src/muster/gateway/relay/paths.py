"""Parses the path of a request into the cluster and the path on the cluster.

Parsing works on the raw request target, and nothing is normalized: all readers of a path (the hub, the gateway, a proxy before
the cluster, the cluster) must find the same in it. Whatever a reader might take for a parent directory, an empty segment or a
control character, plain or percent-encoded once or twice, is refused. Any other path is sent byte for byte as received, and
exactly this string is authorized. `…/proxy` without a slash is the cluster's `/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.gateway import refusals
from muster.gateway.names import OAM_GROUP, PROXY, RESOURCE, SHORT_GROUP
from muster.kube.names import dns1123_subdomain
from muster.machinery.memo import memoized

CANONICAL: Final = f"{GROUP}/{VERSION}"
OAM: Final = f"{OAM_GROUP}/v1alpha1"

_PLAIN: Final = re.compile(r"(?:/(?!\.\.?(?:[/;]|\Z))[A-Za-z0-9._~!$&'()*+,;=:@-]+)*/?").fullmatch
"""A path without percent-escapes that every reader understands in the same way."""
_USUAL_PATH: Final = 192
_VISIBLE: Final = re.compile(r"[!-\"$-\[\]-~]*").fullmatch
"""Printable ASCII without quotes, # and backslash."""
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_LAYERS: Final = ("a", "an encoded", "a doubly encoded")


class ProxyPath(msgspec.Struct, frozen=True, gc=False):
    """The target of a request: `path` is raw and begins with a slash. `alias` is a notation that no API server routes."""

    cluster: str
    path: str
    alias: bool = False


class ProxyPaths:
    """The path prefixes of clusters: `versions` are groups with version, `aliases` enables upstream's abbreviation."""

    def __init__(self, versions: Iterable[str] = (CANONICAL,), *, aliases: bool = True) -> None:
        prefixes = {f"/apis/{version}/{RESOURCE}/": False for version in versions}
        if aliases:
            prefixes[f"/apis/{SHORT_GROUP}/{RESOURCE}/"] = True
        self._prefixes = tuple(prefixes.items())

    def split(self, raw_path: str) -> ProxyPath | None:
        """None for a path that is not one of a cluster; raises ApiError (400) for one that cannot be trusted."""
        for prefix, alias in self._prefixes:
            if raw_path.startswith(prefix):
                cluster, _, rest = raw_path[len(prefix) :].partition("/")
                below, slash, inner = rest.partition("/")
                if below == PROXY:
                    _check_cluster(cluster)
                    path = f"/{inner}" if slash else "/"
                    check_path(path, cluster)
                    return ProxyPath(cluster, path, alias)
        if "%" in raw_path or "//" in raw_path:
            self._refuse_disguise(raw_path)
        return None

    def covers(self, raw_path: str) -> bool:
        """Whether it is a path of a cluster, valid or not: such requests are handled after their head, and their bodies are
        streamed."""
        return any(raw_path.startswith(prefix) and _below(raw_path[len(prefix) :]) == PROXY for prefix, _ in self._prefixes)

    def _refuse_disguise(self, raw_path: str) -> None:
        """A path that would be one of a cluster after decoding or cleaning must not be treated as another one."""
        cleaned = re.sub("//+", "/", unquote_to_bytes(unquote_to_bytes(raw_path)).decode("latin-1"))
        for prefix, _ in self._prefixes:
            if cleaned.startswith(prefix) and _below(cleaned[len(prefix) :]) == PROXY:
                raise refusals.bad_path(f"write everything up to /{PROXY} plainly, without percent-escapes and empty segments")


def _below(named: str) -> str:
    """The segment after the name."""
    return named.partition("/")[2].partition("/")[0]


@lru_cache(maxsize=4096)
def _name_problems(cluster: str) -> tuple[str, ...]:
    return tuple(dns1123_subdomain(cluster))


def _check_cluster(cluster: str) -> None:
    if problems := _name_problems(cluster):
        raise refusals.bad_path(f"{cluster[:80]!r} is not the name of a cluster: {problems[0]}")


@memoized(2048, _USUAL_PATH)
def _is_plain(path: str) -> bool:
    return _PLAIN(path) is not None


def check_path(path: str, cluster: str = "") -> None:
    """Raises ApiError (400) with the reason why a raw path is refused."""
    if not _is_plain(path) and (problem := _problem(path)):
        raise refusals.bad_path(f"the path has {problem}: nothing was sent", cluster)


def check_query(query: str, cluster: str = "") -> None:
    """A query is sent as received; it only must not end the request line. Raises ApiError (400)."""
    if query and _VISIBLE(query) is None and any(not 32 < ord(character) < 127 or character == "#" for character in query):
        raise refusals.bad_path("the query has characters that must be percent-encoded: nothing was sent", cluster)


def _problem(path: str) -> str:
    if _VISIBLE(path) is None:
        return "a backslash" if "\\" in path else "characters that must be percent-encoded"
    if not path.startswith("/"):
        return "no leading slash"
    if _BAD_ESCAPE(path):
        return "an invalid percent-escape"
    layer = path.encode("ascii")
    slashes = layer.count(b"/")
    for spelling in _LAYERS:
        if problem := _problem_of_layer(layer, slashes):
            return f"{spelling} {problem}"
        layer = unquote_to_bytes(layer)
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return "percent-escapes that are not UTF-8"
    return ""


def _problem_of_layer(layer: bytes, slashes: int) -> str:
    """What readers of a path could understand differently after decoding it this many times."""
    if b"\0" in layer:
        return "NUL"
    if any(byte < 32 or byte == 127 for byte in layer):
        return "control character"
    if b"\\" in layer:
        return "backslash"
    if layer.count(b"/") != slashes:
        return "slash inside a segment"
    *inner, _ = segments = layer[1:].split(b"/")
    if b"" in inner:
        return "segment that is empty"
    if any(segment.split(b";", 1)[0] in (b".", b"..") for segment in segments):
        return 'segment "." or ".."'
    return ""
