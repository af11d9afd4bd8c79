"""The table of connections, and which are closed at a limit.

A connection is unauthenticated until its client proves an identity: by a certificate in the handshake, or by a request that a
handler authenticates. Unauthenticated connections may use only a part of the table. When that is used up, the oldest of them is
closed, of the address with the most, so that a new client has the time to authenticate. Silent connections and those that have sent
data are counted separately: a flood of one kind does not displace the other. On one machine all share one address, and age decides.
When the whole table is full, unauthenticated connections are closed first, then idle connections of the owner with the most. A
connection with a request under way is never closed.

The table is bounded by the process's limit of open files too. Other parts of the process open files as well, but the kernel assigns
the lowest free descriptor, so the number of a new one is a lower bound of the open files.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol
from weakref import WeakSet

from muster.http.message import Connection

MAX_UNAUTHENTICATED = 2048
"""In any case: an idle TLS connection costs some 50 KiB."""


class ConnectionEntry(Protocol):
    """A connection from its acceptance on."""

    @property
    def address(self) -> str: ...

    @property
    def owner(self) -> Hashable | None: ...

    @property
    def silent(self) -> bool:
        """Whether its client has not sent anything yet."""

    def waiting_since(self) -> float | None:
        """Since when the server waits for its client; None while the client waits for the server."""

    def drop(self) -> None: ...


class ServedConnection(abc.ABC):
    """An entry after its handshake: it has sent data, and its user is in `info`. Since when it is waited for depends on the
    protocol."""

    __slots__ = ()

    info: Connection

    @property
    def silent(self) -> bool:
        return False

    @property
    def address(self) -> str:
        return self.info.remote[0]

    @property
    def owner(self) -> Hashable | None:
        return self.info.owner

    @abc.abstractmethod
    def waiting_since(self) -> float | None: ...

    @abc.abstractmethod
    def abort(self) -> None: ...

    def drop(self) -> None:
        self.abort()


class _Crowd:
    """Entries in the order of arrival, counted by `key`."""

    def __init__(self, key: Callable[[ConnectionEntry], Hashable]) -> None:
        self._key = key
        self._entries: dict[ConnectionEntry, Hashable] = {}
        self._counts: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ConnectionEntry]:
        return iter(self._entries)

    def add(self, entry: ConnectionEntry) -> None:
        key = self._entries[entry] = self._key(entry)
        self._counts[key] = self._counts.get(key, 0) + 1

    def discard(self, entry: ConnectionEntry) -> bool:
        if entry not in self._entries:
            return False
        key = self._entries.pop(entry)
        if self._counts[key] > 1:
            self._counts[key] -= 1
        else:
            del self._counts[key]
        return True

    def drop_one(self) -> bool:
        """Drop the oldest entry without a request under way, of those with the most frequent key if possible."""
        if not self._entries:
            return False
        most = max(self._counts, key=self._counts.__getitem__)
        first: ConnectionEntry | None = None
        for entry, key in self._entries.items():
            if (key == most or first is None) and entry.waiting_since() is not None:
                first = entry
                if key == most:
                    break
        if first is None:
            return False
        self.discard(first)
        first.drop()
        return True


class ConnectionTable:
    """`limit` connections at once, of which `strangers` is the part for unauthenticated ones; `files` descriptors are for
    connections."""

    def __init__(self, limit: int, strangers: float, files: int) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._files = files
        self._limit = limit = min(limit, files)
        self._most_strangers = limit if strangers >= 1 else max(1, min(int(limit * strangers), MAX_UNAUTHENTICATED))
        self._strangers = _Crowd(lambda entry: (entry.address,) if entry.silent else entry.address)
        self._owned = _Crowd(lambda entry: entry.owner)
        _tables.add(self)

    def add(self, entry: ConnectionEntry) -> None:
        (self._strangers if entry.owner is None else self._owned).add(entry)

    def first_byte_received(self, entry: ConnectionEntry) -> None:
        """The entry is no longer silent."""
        self.discard(entry)
        self.add(entry)

    def discard(self, entry: ConnectionEntry) -> None:
        if not self._strangers.discard(entry):
            self._owned.discard(entry)

    def make_room(self, descriptor: int) -> bool:
        """Whether one more connection may stay, if necessary in place of another."""
        if descriptor >= self._files and not relieve(self):
            return False
        if len(self._strangers) >= self._most_strangers:
            self._classify()
            if len(self._strangers) >= self._most_strangers and not self._strangers.drop_one():
                return False
        return len(self._strangers) + len(self._owned) < self._limit or self.shed()

    def shed(self) -> bool:
        """Drop one connection without a request under way; False if there is none."""
        self._classify()
        return self._strangers.drop_one() or self._owned.drop_one()

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def _classify(self) -> None:
        """Move entries that were authenticated meanwhile."""
        for entry in [entry for entry in self._strangers if entry.owner is not None]:
            self._strangers.discard(entry)
            self._owned.add(entry)


_tables: WeakSet[ConnectionTable] = WeakSet()
"""All tables of the process, since open files are shared."""


def relieve(wanting: ConnectionTable) -> bool:
    """Drop one connection so that a file becomes free: of this server, else of the one with the most unauthenticated
    connections."""
    if wanting.shed():
        return True
    others = sorted((table for table in _tables if table.loop is wanting.loop), key=lambda table: -table.strangers)
    return any(table.shed() for table in others)
