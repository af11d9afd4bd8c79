"""The user that a front proxy sends in the X-Remote-* headers of a request.

The headers are trusted only on a connection of a front proxy, which the caller must verify, and relays must remove them, including
those of the default names if others are configured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster.kube.identity_headers import HeaderPairs, extra_fields, from_header
from muster.machinery.authentication import UserInfo

_USUAL_PREFIX: Final = "x-remote-"
_REMEMBERED: Final = 1024
_LONGEST_REMEMBERED: Final = 4096
"""Bytes of the headers of one user."""


@dataclass(frozen=True, slots=True)
class FrontProxyHeaders:
    """Names of the headers, in lower case: the first non-empty one has the user or the uid, all of them have groups."""

    user: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ("x-remote-uid",)
    group: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    names: frozenset[str] = field(init=False, repr=False, compare=False)
    """Headers that must not be forwarded, besides those with one of `prefixes`."""
    prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Prefixes of headers that must not be forwarded, always including the defaults."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset((*self.user, *self.uid, *self.group)))
        object.__setattr__(self, "prefixes", (_USUAL_PREFIX, *self.extra_prefixes))


USUAL: Final = FrontProxyHeaders()


def remote_user(headers: HeaderPairs, names: FrontProxyHeaders = USUAL) -> UserInfo | None:
    """None without a user, or if a header has several: a front proxy sends one, so another one is forged."""
    known, prefixes = names.names, names.extra_prefixes
    found: dict[str, list[str]] = {}
    extras = []
    for name, value in headers:
        if name in known and value:
            found.setdefault(name, []).append(value)
        if name.startswith(prefixes):
            extras.append((name, value))
    user, uid = _only(found, names.user), _only(found, names.uid)
    if not user or uid is None:
        return None
    groups = tuple(from_header(group) for name in dict.fromkeys(names.group) for group in found.get(name, ()))
    extra: dict[str, tuple[str, ...]] = {}
    if extras:
        for prefix in dict.fromkeys(prefixes):
            for key, values in extra_fields(extras, prefix).items():
                extra[key] = (*extra.get(key, ()), *values)
    return UserInfo(user, uid, groups, extra)


def _only(found: dict[str, list[str]], names: tuple[str, ...]) -> str | None:
    """The value of the first of these headers that exists; empty without any, None if it is repeated."""
    for name in names:
        if values := found.get(name):
            return from_header(values[0]) if len(values) == 1 else None
    return ""


class RemoteUsers:
    """`remote_user` with a cache, for a server with the same few users in many requests."""

    def __init__(self, names: FrontProxyHeaders = USUAL) -> None:
        self._names = names
        self._relevant: dict[bytes, bool] = {}
        """Whether headers of a name, in this spelling, are relevant."""
        self._users: dict[tuple[tuple[bytes, bytes], ...], UserInfo | None] = {}

    def find(self, fields: Iterable[tuple[bytes, bytes]]) -> UserInfo | None:
        """`fields`: all headers of a request, unchanged."""
        relevant = self._relevant
        user_fields = tuple(
            [field for field in fields if (relevant[field[0]] if field[0] in relevant else self._is_relevant(field[0]))]
        )
        if user_fields in self._users:
            return self._users[user_fields]
        user = remote_user([(_lowered(name), value.decode("latin-1")) for name, value in user_fields], self._names)
        if sum([len(value) for _, value in user_fields]) <= _LONGEST_REMEMBERED:
            if len(self._users) >= _REMEMBERED:
                self._users.clear()
            self._users[user_fields] = user
        return user

    def _is_relevant(self, raw_name: bytes) -> bool:
        name = _lowered(raw_name)
        relevant = name in self._names.names or name.startswith(self._names.extra_prefixes)
        if len(self._relevant) < _REMEMBERED:
            self._relevant[raw_name] = relevant
        return relevant


def _lowered(raw_name: bytes) -> str:
    return raw_name.decode("latin-1").lower()
