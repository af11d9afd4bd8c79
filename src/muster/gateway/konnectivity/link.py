"""One connection through the proxy: a gRPC call joined to a socket, at the pace of the slower.

Bytes that the socket does not take stay with the proxy, which may send no more than the call's window; bytes that the proxy does
not take are not read from the socket. So far, a reader who stalls stalls only itself. The server of the proxy waits for it, though,
with all that comes of the same agent (apiserver-network-proxy#180). Therefore a connection whose window is shut and whose
reader takes nothing for `STALL_TIMEOUT` seconds is cut: better one than everything of that cluster.

Data of another connection are the proxy's mistake or worse. They end this one.
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
"""For the proxy to end a call after our farewell."""
PIECE: Final = 64 * 1024
SOCKET_BYTES: Final = 128 * 1024
"""Written to the socket and not taken yet, from which on the link waits."""
_LOOKS: Final = 10
"""At how a reader fares, in `STALL_TIMEOUT` seconds."""


class LinkBroken(Exception):
    """A connection that did not end as connections do; fit to be logged."""


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
        writer.transport.set_write_buffer_limits(SOCKET_BYTES)

    async def run(self) -> None:
        """Until either side ends. Raises LinkBroken."""
        try:
            await race(self._send(), self._receive())
            self._writer.close()
        except ConnectionError:
            pass  # of our socket, since nobody wants more of it, or of a call that is over
        except (MalformedMessage, RpcError) as error:
            raise LinkBroken(str(error)) from error
        finally:
            if not self._writer.transport.is_closing():
                self._writer.transport.abort()
        await self._end()

    async def _send(self) -> None:
        call = self._call
        while data := await self._reader.read(PIECE):
            call.send(data_packet(self._id, data))
            if call.unsent:
                await call.writable()

    async def _receive(self) -> None:
        async for message in self._call:
            packet = read_packet(message)
            if packet.type is PacketType.DRAIN:
                continue  # what is here may end
            if packet.connect_id != self._id or packet.type not in _EXPECTED:
                raise LinkBroken(f"the proxy sent {packet.type.name} of connection {packet.connect_id}, and not of {self._id}")
            if packet.data:
                self._writer.write(packet.data)
                if self._writer.transport.get_write_buffer_size() > SOCKET_BYTES:
                    await self._taken()
            if packet.type is not PacketType.DATA:
                # For whatever reason: what came before is the reader's, who knows whether it is whole.
                self._closed_there = True
                return
            if packet.error:
                raise LinkBroken(f"the proxy says: {packet.error}")
        raise LinkBroken("the proxy ended the call before the connection")

    async def _taken(self) -> None:
        """Until there is room for more. The time counts from when the reader last took something."""
        transport = self._writer.transport
        looks, kept = 0, transport.get_write_buffer_size()
        while True:
            try:
                async with asyncio.timeout(self._stall_timeout / _LOOKS):
                    return await self._writer.drain()
            except TimeoutError:
                before, kept = kept, transport.get_write_buffer_size()
                looks = looks + 1 if kept == before else 0
                if looks >= _LOOKS and self._call.is_full:
                    raise LinkBroken("cut, since nobody reads it and the proxy waits with everything of the cluster") from None

    async def _end(self) -> None:
        """Tell the proxy, and let it end the call; what still comes is not wanted, but must not hold it up."""
        call = self._call
        if not self._closed_there:
            call.send(close_request(self._id))
        call.finish()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                async for _ in call:
                    pass
        except (RpcError, TimeoutError):
            pass  # whoever closes the call does the rest


_EXPECTED: Final = frozenset((PacketType.DATA, PacketType.CLOSE_REQ, PacketType.CLOSE_RSP))
