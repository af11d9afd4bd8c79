"""A network of its own for processes of a test: they reach each other, and of the world outside nothing but what is relayed.

`NetworkNamespace` holds one, on Linux where that is permitted: a process in it that ends with the test, and sockets in the file
system, which do not belong to a network, as the only ways through. `let_out` makes a port of the outside reachable inside, under
the same number; `let_in` a port of the inside reachable outside. Run as a program this module is the process in the namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support import peers
from tests.support.processes import Server, python_path

_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_READY = "ready\n"
Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def unavailable() -> str:
    """Why there can be none on this machine; empty if there can."""
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("nsenter")):
        return "network namespaces are Linux's, and take util-linux"
    if os.geteuid() != 0:
        return "a network namespace takes root"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, timeout=30)
    return tried.stderr.strip() if tried.returncode else ""


class NetworkNamespace:
    """Use as a context manager."""

    def __init__(self, directory: Path, *, let_out: int, let_in: int) -> None:
        self._directory = directory
        self._let_out = let_out
        self._let_in = let_in
        self._ready = directory / "ready"
        command = ["unshare", "--net", sys.executable, "-m", __name__, str(directory), str(let_out), str(let_in)]
        self._holder = Server("network namespace", command, directory / "namespace.log", python_path(peers.ROOT))
        self._loop = asyncio.new_event_loop()

    @property
    def within(self) -> list[str]:
        """A command that runs the one it is given in the namespace."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def __enter__(self) -> NetworkNamespace:
        self._holder.start()
        self._holder.wait_until(self._ready.exists, 30)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._relay(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.stop(kill=True)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _relay(self) -> None:
        await relay_file(self._directory / "out", functools.partial(asyncio.open_connection, "127.0.0.1", self._let_out))
        await relay_port(self._let_in, functools.partial(asyncio.open_unix_connection, self._directory / "in"))


async def relay_file(path: Path, dial: Dial) -> None:
    await asyncio.start_unix_server(functools.partial(_join, dial), path)


async def relay_port(port: int, dial: Dial) -> None:
    await asyncio.start_server(functools.partial(_join, dial), "127.0.0.1", port)


async def _join(dial: Dial, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError), contextlib.closing(writer):
        far_reader, far_writer = await dial()
        with contextlib.closing(far_writer):
            ways = [asyncio.ensure_future(_pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))


async def _hold(directory: Path, let_out: int, let_in: int) -> None:
    _loopback_up()
    await relay_port(let_out, functools.partial(asyncio.open_unix_connection, directory / "out"))
    await relay_file(directory / "in", functools.partial(asyncio.open_connection, "127.0.0.1", let_in))
    (directory / "ready").write_text(_READY)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_hold(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
