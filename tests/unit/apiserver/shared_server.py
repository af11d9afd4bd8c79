"""Run as a program: an API server on a shared database, which tells on standard output when it leads and when it no longer does.

Lines: `ready PORT`, `leading`, `following`. It serves until it is killed.
"""

from __future__ import annotations

import asyncio
import sys

from muster.apiserver.server import ApiServer, ServerConfig


async def main(dsn: str) -> None:
    server = ApiServer(ServerConfig(store=dsn))
    await server.start()
    print("ready", server.port, flush=True)
    was = False
    while True:
        if server.controllers.leading is not was:
            was = not was
            print("leading" if was else "following", flush=True)
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
