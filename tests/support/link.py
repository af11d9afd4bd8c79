"""A TCP link between a client and a server that a test can cut: connections break at once and new ones are refused.

It can be closed for a while, so that nobody listens, and lead elsewhere. It can also fall silent: connections stay open, new ones
are taken, and nothing gets through either way, as behind a router that drops packets. With several servers it is a load balancer:
connections go to them in turn, and past those that refuse.

TLS goes through untouched, so the client still checks the server's certificate and the server the client's. One link serves one
client under test; others reach the same server directly and notice nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from urllib.parse import urlsplit


class Link:
    """Listens on a loopback port of its own, also while it is cut (what comes then is closed unread)."""

    def __init__(self, *urls: str) -> None:
        self._targets = [(str(parts.hostname), int(parts.port or 443)) for parts in map(urlsplit, urls)]
        self._turn = itertools.count()
        self._whole = True
        self._audible = threading.Event()
        self._audible.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._refuses = False
        self.attempts = 0
        """How many connections have come so far."""
        self.connections = 0
        """How many were let through so far."""
        self.attempts = 0
        """How many came so far, while it was cut too."""
        self.fewest = 0
        """How many were open at least, at any moment since `count_fewest`."""
        threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()

    def url(self, url: str) -> str:
        """The way to `url` through this link."""
        return f"https://127.0.0.1:{self.port}{urlsplit(url).path}"

    @property
    def open(self) -> int:
        """How many are."""
        return len(self._sockets) // 2

    def count_fewest(self) -> None:
        with self._lock:
            self.fewest = self.open

    def cut(self) -> None:
        with self._lock:
            self._whole = False
            doomed, self._sockets = self._sockets, set()
            self.fewest = 0
        for each in doomed:
            _close(each)

    def mend(self) -> None:
        if self._refuses:
            self._refuses = False
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()
        with self._lock:
            self._whole = True
        self._audible.set()

    def refuse(self) -> None:
        """Until it is mended nobody listens, and what was open breaks."""
        self._refuses = True
        _close(self._listener)
        self.cut()

    def lead_to(self, *urls: str) -> None:
        """From now on to other servers; what was open breaks."""
        self.cut()
        self._targets = [(str(parts.hostname), int(parts.port or 443)) for parts in map(urlsplit, urls)]
        self.mend()

    def silence(self) -> None:
        """Until it is mended. What was on its way arrives then, if its connection still is."""
        self._audible.clear()

    def close(self) -> None:
        _close(self._listener)
        self.cut()
        self._audible.set()

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self.attempts += 1
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        far = self._dialed()
        if far is None:
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

    def _dialed(self) -> socket.socket | None:
        """The next server that takes the connection."""
        self._audible.wait()
        first = next(self._turn)
        for step in range(len(self._targets)):
            with contextlib.suppress(OSError):
                return socket.create_connection(self._targets[(first + step) % len(self._targets)], timeout=10)
        return None

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._audible.wait()
                sink.sendall(data)
        self._audible.wait()
        with self._lock:
            self._sockets -= {source, sink}
            self.fewest = min(self.fewest, self.open)
        _close(source)
        _close(sink)


def _close(sock: socket.socket) -> None:
    # Shut down first: closing alone does not wake a thread that waits on the socket.
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
