"""Servers of a test that nobody should reach: each has an address and a port of its own, and remembers what it heard."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Trap:
    """Answers everything as an HTTP server that is content."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.port = int(self._socket.getsockname()[1])
        self.heard: list[bytes] = []
        """One entry for each connection."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(0.5)
                self.heard.append(b"")
                self.heard[-1] = connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def open_trap(address: str = "127.0.0.1") -> Iterator[Trap]:
    trap = Trap(address)
    try:
        yield trap
    finally:
        trap.close()


def bindable(address: str) -> str:
    """The address, or where this machine has no such thing (IPv6, say) one that it has."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return "127.0.0.1"
    return address


def own_address() -> str:
    """An address of this machine that others can reach; loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
