"""`python -m bench.wire_servers ours|h2 DIRECTORY`: a gRPC server over TLS with three methods, for `bench.wire`.

`/b/Subscribe` is a stream that hears what is delivered, `/b/Echo` answers with its message, `/b/Deliver` has so many messages
of such a size sent to every stream. DIRECTORY has `tls.crt`, `tls.key` and `ca.crt`; the port is written to `<name>.port`
there.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import uvloop

from bench.wire_h2 import H2Server
from muster.http.filelimit import raise_file_limit
from muster.http.http2.server import ServerLimits
from muster.http.tls import server_context
from muster.transport.rpc.interfaces import Call, CallHead, ServerStream, Streaming, Unary
from muster.transport.rpc.server import RpcServer

MOST_UNSENT = 64 * 1024


class Deliveries:
    def __init__(self) -> None:
        self.streams: dict[ServerStream, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def authenticate(self, head: CallHead) -> str:
        return "somebody"

    async def subscribe(self, call: Call, message: bytes, stream: ServerStream) -> None:
        self.streams[stream] = None
        stream.start({})
        try:
            await asyncio.Event().wait()
        finally:
            del self.streams[stream]

    async def echo(self, call: Call, message: bytes) -> bytes:
        return message

    async def start_delivering(self, call: Call, message: bytes) -> bytes:
        rounds, size = map(int, message.split())
        self.tasks.add(asyncio.create_task(self._deliver(rounds, b"x" * size)))
        return message

    async def _deliver(self, rounds: int, message: bytes) -> None:
        for _ in range(rounds):
            for stream in self.streams:
                stream.send(message)
            await asyncio.sleep(0)
            for stream in [stream for stream in self.streams if stream.unsent > MOST_UNSENT]:
                await stream.writable()


async def main(name: str, directory: Path) -> None:
    raise_file_limit()
    certificate, key, authority = ((directory / one).read_bytes() for one in ("tls.crt", "tls.key", "ca.crt"))
    tls = server_context(certificate, key, authority, alpn="h2")
    if name == "h2":
        other = H2Server()
        await other.start(tls)
        port = other.port
    else:
        rooms = Deliveries()
        server = RpcServer(
            {"/b/Subscribe": Streaming(rooms.subscribe), "/b/Echo": Unary(rooms.echo), "/b/Deliver": Unary(rooms.start_delivering)},
            rooms.authenticate,
            tls=tls,
            limits=ServerLimits(strangers=1.0),
        )
        await server.start("127.0.0.1", 0)
        port = server.port
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    (directory / f"{name}.port").write_text(str(port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2])))
