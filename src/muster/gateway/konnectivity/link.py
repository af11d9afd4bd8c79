"""One connection through the proxy: a gRPC call joined to a socket, with backpressure in both directions.

Data that the socket does not accept stay with the proxy, which may send no more than the call's window; data that the proxy does
not accept are not read from the socket. However, the proxy's server then waits with everything of the same agent for one stalled
reader (apiserver-network-proxy#180). Therefore a connection whose window is exhausted and whose reader accepts nothing for
`STALL_TIMEOUT` seconds is aborted, rather than blocking all connections to that cluster.

Data of another connection are an error or an attack; they end this connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster.gateway.konnectivity.packets import PacketType, close_request, data_packet, read_packet
from muster.machinery.protobuf import MalformedMessage
from muster.machinery.tasks import race
from muster.transport.rpc.interfaces import BidirectionalStream
from muster.transport.rpc.status import RpcError

STALL_TIMEOUT: Final = 5.0
CLOSE_TIMEOUT: Final = 5.0
"""For the proxy to end a call after the connection was closed."""
CHUNK_SIZE: Final = 64 * 1024
SOCKET_BUFFER_SIZE: Final = 128 * 1024
"""Bytes written to the socket but not yet accepted, from which on the link waits."""
_STALL_CHECKS: Final = 10
"""Number of checks in `STALL_TIMEOUT` seconds whether the reader has accepted data."""


class LinkBroken(Exception):
    """A connection that was not closed regularly; the message may be logged."""


class Link:
    def __init__(
        self,
        call: BidirectionalStream,
        connect_id: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stall_timeout: float = STALL_TIMEOUT,
    ) -> None:
        self._call = call
        self._id = connect_id
        self._reader = reader
        self._writer = writer
        self._stall_timeout = stall_timeout
        self._closed_there = False
        writer.transport.set_write_buffer_limits(SOCKET_BUFFER_SIZE)

    async def run(self) -> None:
        """Runs until either side ends. Raises LinkBroken."""
        try:
            await race(self._send(), self._receive())
            self._writer.close()
        except ConnectionError:
            pass  # of the socket, if its reader has closed it, or of a call that has ended
        except (MalformedMessage, RpcError) as error:
            raise LinkBroken(str(error)) from error
        finally:
            if not self._writer.transport.is_closing():
                self._writer.transport.abort()
        await self._end()

    async def _send(self) -> None:
        call = self._call
        while data := await self._reader.read(CHUNK_SIZE):
            call.send(data_packet(self._id, data))
            if call.unsent:
                await call.writable()

    async def _receive(self) -> None:
        async for message in self._call:
            packet = read_packet(message)
            if packet.type is PacketType.DRAIN:
                continue  # existing connections may finish
            if packet.connect_id != self._id or packet.type not in _EXPECTED_PACKETS:
                raise LinkBroken(f"the proxy sent {packet.type.name} of connection {packet.connect_id}, and not of {self._id}")
            if packet.data:
                self._writer.write(packet.data)
                if self._writer.transport.get_write_buffer_size() > SOCKET_BUFFER_SIZE:
                    await self._taken()
            if packet.type is not PacketType.DATA:
                # Whatever the reason: the data received so far are delivered, and the reader knows whether they are complete.
                self._closed_there = True
                return
            if packet.error:
                raise LinkBroken(f"the proxy reports: {packet.error}")
        raise LinkBroken("the proxy ended the call before the connection")

    async def _taken(self) -> None:
        """Waits until there is room for more data. The timeout starts whenever the reader accepts data."""
        transport = self._writer.transport
        checks, kept = 0, transport.get_write_buffer_size()
        while True:
            try:
                async with asyncio.timeout(self._stall_timeout / _STALL_CHECKS):
                    return await self._writer.drain()
            except TimeoutError:
                before, kept = kept, transport.get_write_buffer_size()
                checks = checks + 1 if kept == before else 0
                if checks >= _STALL_CHECKS and self._call.is_full:
                    raise LinkBroken("aborted, because its reader is stalled and blocks all connections to the cluster") from None

    async def _end(self) -> None:
        """Close the connection and let the proxy end the call; data still arriving are discarded so that they do not block it."""
        call = self._call
        if not self._closed_there:
            call.send(close_request(self._id))
        call.finish()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                async for _ in call:
                    pass
        except (RpcError, TimeoutError):
            pass  # closing the call does the rest


_EXPECTED_PACKETS: Final = frozenset((PacketType.DATA, PacketType.CLOSE_REQ, PacketType.CLOSE_RSP))
