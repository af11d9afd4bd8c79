"""From the path that a client asked for to the cluster it means and the path that goes there.

Work is done on the raw request target, and nothing is normalised: two readers of one path (the hub, the gateway, a proxy before the
cluster, the cluster) must not be able to find different things in it. What some reader might take for a step up, a second slash or
a control character, plainly spelt or encoded once or twice, is refused. All else goes out byte for byte as it came, and what is
authorised is that very string. `…/proxy` without a slash is the cluster's `/`.
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
"""A path without escapes in which nobody finds anything else than what it says."""
_USUAL_PATH: Final = 192
_VISIBLE: Final = re.compile(r"[!-\"$-\[\]-~]*").fullmatch
"""Printable ASCII without the signs for a fragment and a backslash."""
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_LAYERS: Final = ("a", "an encoded", "a doubly encoded")


class ProxyPath(msgspec.Struct, frozen=True, gc=False):
    """Where a request goes: `path` is raw and begins with a slash. `alias` is a spelling that no API server routes."""

    cluster: str
    path: str
    alias: bool = False


class ProxyPaths:
    """The spellings under which clusters are reached: `versions` are groups with version, `aliases` the seed's abbreviation."""

    def __init__(self, versions: Iterable[str] = (CANONICAL,), *, aliases: bool = True) -> None:
        prefixes = {f"/apis/{version}/{RESOURCE}/": False for version in versions}
        if aliases:
            prefixes[f"/apis/{SHORT_GROUP}/{RESOURCE}/"] = True
        self._prefixes = tuple(prefixes.items())

    def split(self, raw_path: str) -> ProxyPath | None:
        """None for what is no path to a cluster at all; raises ApiError (400) for one that is not to be trusted."""
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
        """Whether it leads to a cluster, good or bad: such requests are taken on their head, and their bodies streamed."""
        return any(raw_path.startswith(prefix) and _below(raw_path[len(prefix) :]) == PROXY for prefix, _ in self._prefixes)

    def _refuse_disguise(self, raw_path: str) -> None:
        """What would lead to a cluster after decoding or cleaning must not be taken for something else either."""
        cleaned = re.sub("//+", "/", unquote_to_bytes(unquote_to_bytes(raw_path)).decode("latin-1"))
        for prefix, _ in self._prefixes:
            if cleaned.startswith(prefix) and _below(cleaned[len(prefix) :]) == PROXY:
                raise refusals.bad_path(f"write everything up to /{PROXY} plainly, without percent-escapes and empty segments")


def _below(named: str) -> str:
    """The segment after a name."""
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
    """Raises ApiError (400) that names what is wrong with a raw path."""
    if not _is_plain(path) and (problem := _problem(path)):
        raise refusals.bad_path(f"the path has {problem}: nothing was sent", cluster)


def check_query(query: str, cluster: str = "") -> None:
    """A query goes out as it came; it only must not end the request line. Raises ApiError (400)."""
    if query and _VISIBLE(query) is None and any(not 32 < ord(character) < 127 or character == "#" for character in query):
        raise refusals.bad_path("the query has characters that must be percent-encoded: nothing was sent", cluster)


def _problem(path: str) -> str:
    if _VISIBLE(path) is None:
        return "a backslash" if "\\" in path else "characters that must be percent-encoded"
    if not path.startswith("/"):
        return "no slash at its beginning"
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
    """What one reading of a path, decoded so often, has in it that another reading has not."""
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
