"""Limits of concurrent requests to one cluster, in total and per user.

A cluster that hangs, or a user with too many requests, must not use up the resources of others. Ordinary requests and
long-running ones (watches, logs, upgrades) are counted separately: a thousand watches do not reduce the limit of ordinary
requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RequestKind(StrEnum):
    """Kinds of requests; the values are also labels of metrics."""

    REQUEST = "request"
    STREAM = "stream"
    UPGRADE = "upgrade"


@dataclass(frozen=True, slots=True)
class Limits:
    requests: int = 512
    requests_per_user: int = 256
    streams: int = 5000
    """Watches, followed logs and upgrades."""
    streams_per_user: int = 2500
    body: int = 100 * 1024 * 1024
    """Maximum size of a request body."""


class ClusterLoad:
    """Requests in flight to one cluster."""

    __slots__ = ("_limits", "_requests", "_streams", "_users")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests = 0
        self._streams = 0
        self._users: dict[tuple[bool, str], int] = {}

    @property
    def empty(self) -> bool:
        return not self._users

    def acquire(self, kind: RequestKind, user: str) -> str:
        """Count one more request; or return why the limit is reached, and count nothing."""
        limits, long = self._limits, kind is not RequestKind.REQUEST
        what = "long-running requests" if long else "requests"
        mine = self._users.get((long, user), 0)
        if (self._streams if long else self._requests) >= (limits.streams if long else limits.requests):
            return f"too many {what} are in flight to this cluster"
        if mine >= (limits.streams_per_user if long else limits.requests_per_user):
            return f"too many {what} of this user are in flight to this cluster"
        self._users[long, user] = mine + 1
        if long:
            self._streams += 1
        else:
            self._requests += 1
        return ""

    def release(self, kind: RequestKind, user: str) -> None:
        long = kind is not RequestKind.REQUEST
        left = self._users[long, user] - 1
        if left:
            self._users[long, user] = left
        else:
            del self._users[long, user]
        if long:
            self._streams -= 1
        else:
            self._requests -= 1
