"""`python -m tests.support.rpc_server DIRECTORY`: our gRPC server as a process of its own, to be attacked and judged.

DIRECTORY has `tls.crt`, `tls.key` and `ca.crt` (of clients); the port is written to `port` there once the server listens. Whoever
shows a certificate is known. The transport's two methods answer: one says what it was told, the other sends for as long as its
reader reads.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from muster.http.http2.server import ServerLimits
from muster.http.tls import server_context
from muster.transport.rpc.interfaces import Call, CallHead, ServerStream, Streaming, Unary
from muster.transport.rpc.server import RpcServer
from muster.transport.rpc.status import Code, RpcError
from tests.support.http2_client import PUBLISH, SUBSCRIBE

HANDSHAKE_TIMEOUT = 2.0
"""For who has not said anything; the real one is longer than a test."""
MESSAGE = bytes(1024)


async def authenticate(head: CallHead) -> str:
    if head.connection.peer_certificate is None:
        raise RpcError(Code.UNAUTHENTICATED, "no certificate")
    return "known"


async def echo(call: Call, message: bytes) -> bytes:
    return message


async def stream(call: Call, message: bytes, answers: ServerStream) -> None:
    answers.start({"subscription-id": "1"})
    while True:
        answers.send(MESSAGE)
        await answers.writable()
        await asyncio.sleep(0.01)


async def main(directory: Path) -> None:
    certificate, key, clients = ((directory / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
    limits = ServerLimits(connection_timeout=HANDSHAKE_TIMEOUT)
    tls = server_context(certificate, key, clients, alpn="h2")
    server = RpcServer({PUBLISH: Unary(echo), SUBSCRIBE: Streaming(stream)}, authenticate, tls=tls, limits=limits)
    await server.start("127.0.0.1", 0)
    (directory / "port").write_text(str(server.port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
