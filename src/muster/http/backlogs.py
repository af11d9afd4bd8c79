"""Limits for unsent data of slow clients, per owner and in all, and which connections are closed above them.

A connection is in this table from when its transport's buffer is above its high-water mark until the client has read enough. The
server's sweep adds up the unsent data of each. Above a limit, connections that have read almost nothing for `STALLED_SECONDS` are
closed, the largest first, until the sum is within the limit; a client that still reads, however slowly, is kept. Nothing is counted
when bytes are written, so the limits cost a broadcast nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Protocol

from muster.http.message import Connection

STALLED_SECONDS = 2.0
PROGRESS = 64 * 1024
"""Bytes that a client must read within that time to count as reading."""

logger = logging.getLogger("muster.http")


class Reader(Protocol):
    """A connection with unsent data."""

    info: Connection

    def held(self) -> int:
        """All unsent data."""

    def abort(self) -> None: ...


class _Mark:
    """The unsent data of a connection when it last read enough, and that time."""

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
        """Check all slow connections, and close some above a limit."""
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
