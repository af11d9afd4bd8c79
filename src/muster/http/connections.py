"""Who is connected, and who has to go when room is short.

A connection is a stranger's until its client proves an identity: by a certificate in the handshake, or by a request that a handler
found genuine. Strangers have a part of the room only. When that is used up, the stranger that came first goes, of the address that
has most of them, so that a newcomer gets the moment it needs to prove itself. Those who say nothing and those who do count apart:
a flood of the one kind takes no room from the other. On one machine all share one address, and order decides. When all the room is
used up, strangers go before anybody else, then idle connections of the owner that has most. Nobody is dropped while being served.

Room is bounded by the process's open files too. Others in the process open files as well, but the kernel gives the lowest free
descriptor, so the number of a new one tells how many are open at least.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol
from weakref import WeakSet

from muster.http.message import Connection

MAX_UNAUTHENTICATED = 2048
"""However much room there is: an idle TLS connection costs some 50 KiB."""


class ConnectionEntry(Protocol):
    """A connection from its acceptance on."""

    @property
    def address(self) -> str: ...

    @property
    def owner(self) -> Hashable | None: ...

    @property
    def silent(self) -> bool:
        """Its client has not said anything yet."""

    def waiting_since(self) -> float | None:
        """Since when the server waits for its client; None while the client waits for the server."""

    def drop(self) -> None: ...


class ServedConnection(abc.ABC):
    """A Guest whose handshake is over: it has spoken, and who it is stands in `info`. Since when it is waited for depends on the
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
    """Guests in the order of their coming, counted by `key`."""

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
        """Drop the first that is not being served, of those whose key is the most frequent if one of them can go."""
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
    """`limit` connections at once, of which `strangers` is the part for strangers; `files` descriptors are for connections."""

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
        """A silent one is none any longer."""
        self.discard(entry)
        self.add(entry)

    def discard(self, entry: ConnectionEntry) -> None:
        if not self._strangers.discard(entry):
            self._owned.discard(entry)

    def make_room(self, descriptor: int) -> bool:
        """Whether one more connection may stay, if need be in place of another."""
        if descriptor >= self._files and not relieve(self):
            return False
        if len(self._strangers) >= self._most_strangers:
            self._classify()
            if len(self._strangers) >= self._most_strangers and not self._strangers.drop_one():
                return False
        return len(self._strangers) + len(self._owned) < self._limit or self.shed()

    def shed(self) -> bool:
        """Drop one connection that is not being served; False if there is none."""
        self._classify()
        return self._strangers.drop_one() or self._owned.drop_one()

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def _classify(self) -> None:
        """Strangers who have proved who they are since are none any longer."""
        for entry in [entry for entry in self._strangers if entry.owner is not None]:
            self._strangers.discard(entry)
            self._owned.add(entry)


_tables: WeakSet[ConnectionTable] = WeakSet()
"""All of the process: open files are shared by whatever it serves."""


def relieve(wanting: ConnectionTable) -> bool:
    """Have one connection dropped so that a file becomes free: of the server that wants it, else of the one with most strangers."""
    if wanting.shed():
        return True
    others = sorted((table for table in _tables if table.loop is wanting.loop), key=lambda table: -table.strangers)
    return any(table.shed() for table in others)
