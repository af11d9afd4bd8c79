"""What is kept for clients that are behind: how much it may be for one owner and in all, and who is cut off when it is more.

A connection is here from when its transport has more than it wants until the client has taken enough; whoever keeps up never is.
The server's sweep adds up what each of them holds: bytes in the transport and the rest of a large answer. Above a bound those are
cut that have hardly taken anything for `STALLED_SECONDS`, the largest first, until the sum is within it again; one that still
reads, however slowly others do, stays. Nothing is counted when bytes are written, so a broadcast costs the same with and without.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Protocol

from muster.http.message import Connection

STALLED_SECONDS = 2.0
PROGRESS = 64 * 1024
"""Bytes that a client must take within that time to count as reading."""

logger = logging.getLogger("muster.http")


class Reader(Protocol):
    """A connection whose client is to read what is kept for it."""

    info: Connection

    def held(self) -> int:
        """Everything that is kept until the client reads it."""

    def abort(self) -> None: ...


class _Mark:
    """How much a connection held when it last took enough, and when that was."""

    __slots__ = ("held", "since")

    def __init__(self) -> None:
        self.held = -1
        self.since = 0.0


class Backlogs:
    def __init__(self, most_of_owner: int, most_in_all: int) -> None:
        self._most_of_owner = most_of_owner
        self._most_in_all = most_in_all
        self._behind: dict[Reader, _Mark] = {}
        self.cut = 0

    def add(self, connection: Reader) -> None:
        self._behind.setdefault(connection, _Mark())

    def discard(self, connection: Reader) -> None:
        self._behind.pop(connection, None)

    def sweep(self, now: float) -> None:
        """Look at everybody who is behind, and cut whom there is no room for."""
        if not self._behind:
            return
        owners: dict[Hashable, list[Reader]] = {}
        for connection, mark in list(self._behind.items()):
            held = connection.held()
            if not held:
                self.discard(connection)
                continue
            if mark.held < 0 or mark.held - held >= PROGRESS:
                mark.held, mark.since = held, now
            owners.setdefault(connection.info.owner or connection.info.remote[0], []).append(connection)
        for owned in owners.values():
            self._fit(owned, self._most_of_owner, now)
        self._fit(list(self._behind), self._most_in_all, now)

    def _fit(self, connections: list[Reader], most: int, now: float) -> None:
        sizes = {connection: connection.held() for connection in connections if connection in self._behind}
        too_much = sum(sizes.values()) - most
        if too_much <= 0:
            return
        for connection in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if now - self._behind[connection].since < STALLED_SECONDS:
                continue
            info = connection.info
            who = info.owner if isinstance(info.owner, tuple) else info.remote[0]
            logger.warning("cut a client that does not read: %s holds %d bytes", who, sizes[connection])
            self.cut += 1
            self.discard(connection)
            connection.abort()
            too_much -= sizes[connection]
            if too_much <= 0:
                return
