"""gRPC's message framing: five bytes, a flag for compression and the length, before each message.

Only the received bytes of a message are kept, and no message that is longer than the limit: its length is known from its first five
bytes. Compression is neither used nor offered, so compressed messages are refused.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from muster.transport.rpc.status import Code, RpcError

_PREFIX: Final = Struct(">BL")
PREFIX_SIZE: Final = _PREFIX.size
MAX_MESSAGE: Final = 4 * 1024 * 1024
"""The usual default limit of gRPC implementations."""


def prefixed(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Decodes messages from pieces of any size."""

    __slots__ = ("_kept", "_limit", "_size", "messages")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._size: int | None = None
        """The size of the incomplete message, once it is known."""
        self.messages: list[bytes] = []
        """Complete messages; the reader removes them."""

    def feed(self, data: bytes) -> None:
        """Raises RpcError."""
        if not self._kept and self._size is None and len(data) >= PREFIX_SIZE:
            size = self._check(data)
            if len(data) == PREFIX_SIZE + size:  # the most frequent case
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
        """The size of the incomplete message, if it is known."""
        return self._size

    @property
    def missing(self) -> int:
        """Missing bytes of the incomplete message, as far as is known."""
        return PREFIX_SIZE - len(self._kept) if self._size is None else self._size - len(self._kept)

    @property
    def is_between(self) -> bool:
        """Whether there is no incomplete message."""
        return self._size is None and not self._kept

    @property
    def kept(self) -> int:
        return len(self._kept)
