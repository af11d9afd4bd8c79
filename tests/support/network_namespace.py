"""A network of its own for processes of a test: they reach each other, and of the world outside nothing but what is relayed.

`NetworkNamespace` holds one, on Linux where that is permitted: a process in it that ends with the test, and sockets in the file
system, which do not belong to a network, as the only ways through. `let_out` makes a port of the outside reachable inside, under
the same number; `let_in` a port of the inside reachable outside, until `shut`; `renumbered` are ports of the outside by those under
which they are reachable inside. Run as a program this module is the process in the namespace.
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
from collections.abc import Awaitable, Callable, Mapping
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

    def __init__(self, directory: Path, *, let_out: int, let_in: int, renumbered: Mapping[int, int] | None = None) -> None:
        self._directory = directory
        self._ways_out = {let_out: let_out, **(renumbered or {})}
        self._let_in = let_in
        self._ready = directory / "ready"
        ports = [str(let_in), *map(str, self._ways_out)]
        command = ["unshare", "--net", sys.executable, "-m", __name__, str(directory), *ports]
        self._holder = Server("network namespace", command, directory / "namespace.log", python_path(peers.ROOT))
        self._loop = asyncio.new_event_loop()
        self._way_in: asyncio.Server | None = None

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

    def shut(self) -> None:
        """From now on nobody outside can connect to anything inside."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)

    async def _shut(self) -> None:
        assert self._way_in is not None, "entered"
        self._way_in.close()

    async def _relay(self) -> None:
        for inside, outside in self._ways_out.items():
            await relay_file(self._directory / f"out-{inside}", functools.partial(asyncio.open_connection, "127.0.0.1", outside))
        self._way_in = await relay_port(self._let_in, functools.partial(asyncio.open_unix_connection, self._directory / "in"))


async def relay_file(path: Path, dial: Dial) -> None:
    await asyncio.start_unix_server(functools.partial(_join, dial), path)


async def relay_port(port: int, dial: Dial) -> asyncio.Server:
    return await asyncio.start_server(functools.partial(_join, dial), "127.0.0.1", port)


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


async def _hold(directory: Path, let_in: int, *ways_out: int) -> None:
    _loopback_up()
    for port in ways_out:
        await relay_port(port, functools.partial(asyncio.open_unix_connection, directory / f"out-{port}"))
    await relay_file(directory / "in", functools.partial(asyncio.open_connection, "127.0.0.1", let_in))
    (directory / "ready").write_text(_READY)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_hold(Path(sys.argv[1]), *map(int, sys.argv[2:])))
