"""A proxy on the way to a server, as companies have them: it tunnels (`CONNECT`), spoken to in the clear or by TLS.

`routes` lead addresses where nobody listens to servers, so that whoever gets an answer there has come through the proxy. The proxy
runs on a loop in a thread of its own, and keeps in `asked` where its clients wanted to go.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Mapping

from tests.support.pki import Pair


class Proxy:
    """Use as a context manager. With `pair` (a certificate for 127.0.0.1) it is an https proxy."""

    def __init__(self, routes: Mapping[str, str] | None = None, pair: Pair | None = None) -> None:
        self.asked: list[str] = []
        self.port = 0
        self._routes = routes or {}
        self._context: ssl.SSLContext | None = None
        if pair is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(pair.cert, pair.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError), contextlib.closing(writer):
            method, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode().split()
            if method != "CONNECT":
                writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
                return
            self.asked.append(target)
            host, _, port = self._routes.get(target, target).rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(far_writer):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                ways = [asyncio.ensure_future(_pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
