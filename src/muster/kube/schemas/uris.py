"""Whether a text is a request URI: an absolute URI or an absolute path, as the schema format `uri` demands.

The rules are those of Go's net/url for requests, so that a value is accepted here exactly when the real server accepts it: a scheme
followed by anything opaque, or an authority with legal user information, host and port, then a path with sound percent escapes. A
fragment is not split off and a query is not looked at.
"""

from __future__ import annotations

import string
from typing import Final

_LETTERS: Final = frozenset(string.ascii_letters)
_SCHEME: Final = frozenset(string.ascii_letters + string.digits + "+-.")
_USER: Final = frozenset(string.ascii_letters + string.digits + "-._:~!$&'()*+,;=%@")
_HOST: Final = frozenset(string.ascii_letters + string.digits + "!$&'()*+,;=:[]<>\"-_.~%")
_HEX: Final = frozenset(string.hexdigits)


def is_request_uri(text: str) -> bool:
    if not text or any(c < " " or c == "\x7f" for c in text):
        return False
    if text == "*":
        return True
    scheme, rest = _split_scheme(text)
    if scheme is None:
        return False
    rest = rest.split("?", 1)[0]
    if not rest.startswith("/"):
        return bool(scheme)
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and _sound_escapes(slash + path)
    return _sound_escapes(rest)


def _split_scheme(text: str) -> tuple[str | None, str]:
    """The scheme (empty if there is none, None if a colon comes first) and what follows it."""
    for position, char in enumerate(text):
        if char == ":":
            return (text[:position], text[position + 1 :]) if position else (None, text)
        if char not in _SCHEME or (position == 0 and char not in _LETTERS):
            break
    return "", text


def _sound_escapes(text: str) -> bool:
    return all(len(part) >= 2 and part[0] in _HEX and part[1] in _HEX for part in text.split("%")[1:])


def _is_authority(authority: str) -> bool:
    user, at, host = authority.rpartition("@")
    if at and not (all(c in _USER for c in user) and _sound_escapes(user)):
        return False
    if host.startswith("["):
        inside, bracket, port = host.rpartition("]")
        return bool(bracket) and _is_optional_port(port) and _is_host(inside.partition("%25")[0])
    if ":" in host and not _is_optional_port(host[host.rindex(":") :]):
        return False
    return _is_host(host)


def _is_optional_port(port: str) -> bool:
    return not port or (port[0] == ":" and all(c in string.digits for c in port[1:]))


def _is_host(host: str) -> bool:
    """Escapes in a host may only spell bytes outside ASCII (or the percent sign itself)."""
    if not _sound_escapes(host) or not all(c in _HOST or c >= "\x80" for c in host):
        return False
    return all(int(part[0], 16) >= 8 or part[:2] == "25" for part in host.split("%")[1:])
