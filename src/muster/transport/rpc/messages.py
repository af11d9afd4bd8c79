"""gRPC's messages in HTTP/2's data: each behind five bytes, a flag for compression and its length.

A message is kept only as far as it has come, and none that is longer than allowed: its length is known from its first five bytes.
We compress nothing and ask for nothing compressed, so a message that is must not come.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from muster.transport.rpc.status import Code, RpcError

_PREFIX: Final = Struct(">BL")
PREFIX_SIZE: Final = _PREFIX.size
MAX_MESSAGE: Final = 4 * 1024 * 1024
"""What gRPC's implementations take if nothing else is said."""


def prefixed(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Messages of data that come in any pieces."""

    __slots__ = ("_kept", "_limit", "_size", "messages")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._size: int | None = None
        """Of the message that is on its way, once it is known."""
        self.messages: list[bytes] = []
        """Those that are there; the reader takes them."""

    def feed(self, data: bytes) -> None:
        """Raises RpcError."""
        if not self._kept and self._size is None and len(data) >= PREFIX_SIZE:
            size = self._check(data)
            if len(data) == PREFIX_SIZE + size:  # by far the most frequent case
                self.messages.append(data[PREFIX_SIZE:])
                return
        kept = self._kept
        kept += data
        while True:
            if self._size is None:
                if len(kept) < PREFIX_SIZE:
                    return
                self._size = self._check(kept)
                del kept[:PREFIX_SIZE]
            if len(kept) < self._size:
                return
            self.messages.append(bytes(kept[: self._size]))
            del kept[: self._size]
            self._size = None

    def _check(self, data: bytes | bytearray) -> int:
        compressed, size = _PREFIX.unpack_from(data)
        if compressed:
            raise RpcError(Code.INTERNAL, "a message is compressed although no encoding was agreed upon; send it as it is")
        if size > self._limit:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"received message larger than max ({size} vs. {self._limit})")
        return int(size)

    @property
    def announced(self) -> int | None:
        """The size of the message that is on its way, if that is known."""
        return self._size

    @property
    def missing(self) -> int:
        """Bytes that are still to come of the message that is on its way, as far as is known."""
        return PREFIX_SIZE - len(self._kept) if self._size is None else self._size - len(self._kept)

    @property
    def is_between(self) -> bool:
        """Nothing of a further message has come."""
        return self._size is None and not self._kept

    @property
    def kept(self) -> int:
        return len(self._kept)
