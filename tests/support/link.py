"""A TCP link between a client and a server that a test can cut: connections break at once and new ones are refused.

TLS goes through untouched, so the client still checks the server's certificate and the server the client's. One link serves one
client under test; others reach the same server directly and notice nothing.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Link:
    """Listens on a loopback port of its own, also while it is cut (what comes then is closed unread)."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (str(parts.hostname), int(parts.port or 443))
        self._whole = True
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        """How many were let through so far."""
        threading.Thread(target=self._listen, daemon=True).start()

    def url(self, url: str) -> str:
        """The way to `url` through this link."""
        return f"https://127.0.0.1:{self.port}{urlsplit(url).path}"

    def cut(self) -> None:
        with self._lock:
            self._whole = False
            doomed, self._sockets = self._sockets, set()
        for each in doomed:
            _close(each)

    def mend(self) -> None:
        with self._lock:
            self._whole = True

    def close(self) -> None:
        _close(self._listener)
        self.cut()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self._target, timeout=10)
        except OSError:
            _close(near)
            return
        far.settimeout(None)
        with self._lock:
            whole = self._whole
            if whole:
                self._sockets |= {near, far}
                self.connections += 1
        if not whole:
            _close(near)
            _close(far)
            return
        threading.Thread(target=self._pump, args=(far, near), daemon=True).start()
        self._pump(near, far)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with self._lock:
            self._sockets -= {source, sink}
        _close(source)
        _close(sink)


def _close(sock: socket.socket) -> None:
    # Shut down first: closing alone does not wake a thread that waits on the socket.
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
