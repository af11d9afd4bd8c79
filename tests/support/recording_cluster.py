"""An API server, as far as a gateway can tell, that keeps every byte it is sent and answers what a test makes it say.

It speaks sockets, not HTTP: answers that no HTTP server would give, connections that break off and words nobody asked for are what
it is for. Each connection is served by a thread of its own.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.support.pki import Authority

HEALTH = b"GET /readyz ", b"GET /k8s/clusters/c-1/readyz "
"""How a gateway's own questions begin."""


def answer(status: str = "200 OK", body: bytes = b"ok", *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields, "Connection: close", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Talk:
    """One connection."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection
        self.data = b""
        """All that was received."""
        self.ended = threading.Event()
        """The other side has hung up."""

    def head(self) -> bytes:
        """The request up to its empty line, at least; empty where none comes."""
        while b"\r\n\r\n" not in self.data:
            if not self.read():
                return b""
        return self.data

    def read(self) -> bytes:
        try:
            piece = self.connection.recv(65536)
        except OSError:
            piece = b""
        self.data += piece
        if not piece:
            self.ended.set()
        return piece

    def listen(self) -> None:
        """Until the other side hangs up."""
        while self.read():
            pass

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def hang_up(self) -> None:
        """Say goodbye and go at once, as servers written in Go do, whatever the other side has read."""
        self.connection.setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.connection.unwrap()
        self.connection.close()


Behaviour = Callable[[Talk, bytes], None]
"""Given a connection and a request's head, answer; the connection is closed then."""


def agree(talk: Talk, head: bytes) -> None:
    talk.say(answer())


class RecordingCluster:
    """A context manager. `behaviour` may be changed at any time; a gateway's own questions about health are answered well."""

    def __init__(self, behaviour: Behaviour = agree, *, protocol: str = "") -> None:
        """`protocol`: what is spoken, where that is agreed upon by ALPN."""
        self.behaviour = behaviour
        self._talks: list[Talk] = []
        self._directory = tempfile.TemporaryDirectory(prefix="muster-recording-")
        authority = Authority(Path(self._directory.name), "ca")
        self.ca = authority.pair.cert.read_bytes()
        pair = authority.issue("server", hosts=("127.0.0.1", "localhost"))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        if protocol:
            self._context.set_alpn_protocols([protocol])
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def every_talk(self) -> list[Talk]:
        """Those about its health too."""
        return list(self._talks)

    @property
    def talks(self) -> list[Talk]:
        """Those in which more was asked than after the cluster's health."""
        return [talk for talk in self._talks if talk.data and not talk.data.startswith(HEALTH)]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as connection:
            talk = Talk(connection)
            self._talks.append(talk)
            # One request each, so that a connection never goes on into another test's record.
            head = talk.head()
            if head.startswith(HEALTH):
                talk.say(answer())
            elif head:
                self.behaviour(talk, head)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def die(self) -> None:
        """All connections break off, and nobody is there any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for talk in self._talks:
            with contextlib.suppress(OSError):
                talk.connection.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *_: object) -> None:
        self.die()
        self._directory.cleanup()
