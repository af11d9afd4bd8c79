"""`python -m bench.http_servers ours|aiohttp DIRECTORY`: a server that answers every GET with one object, over TLS.

DIRECTORY has `tls.crt`, `tls.key` and `ca.crt`; the port is written to `<name>.port` there once the server listens.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import uvloop

from muster.http import Answer, HttpServer, Request, Response, server_context

BODY = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"filler":"%s"}}' % (b"x" * 1_000)
FIELDS = [("Cache-Control", "no-cache, private"), ("Audit-Id", "5e6f3c86-8e1e-4d8a-9c55-2f5d9d2c5d6b")]
MEDIA = "application/json"


async def serve_ours(directory: Path, *, waits: bool) -> int:
    async def handle(request: Request) -> Answer:
        if waits:
            await asyncio.sleep(0)
        return Response(200, BODY, FIELDS, MEDIA)

    certificate, key, authority = ((directory / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
    server = HttpServer(handle, tls=server_context(certificate, key, authority))
    await server.start("127.0.0.1", 0)
    return server.port


async def serve_aiohttp(directory: Path) -> int:
    from aiohttp import web

    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(body=BODY, headers=dict(FIELDS), content_type=MEDIA)

    certificate, key, authority = ((directory / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(certificate, key, authority))
    await site.start()
    port: int = runner.addresses[0][1]
    return port


async def main(name: str, directory: Path) -> None:
    match name:
        case "aiohttp":
            port = await serve_aiohttp(directory)
        case "ours" | "ours-waiting":
            port = await serve_ours(directory, waits=name == "ours-waiting")
        case _:
            raise SystemExit(f"{name}: ours, ours-waiting or aiohttp")
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    (directory / f"{name}.port").write_text(str(port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2])))
