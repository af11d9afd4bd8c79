"""A small HTTPS server inside the test process: webhooks, aggregated API servers, token reviewers.

The behaviour is one function from request to answer; every request is kept in `received`, so that a test can also judge
what an API server sends. Client certificates are asked for but not checked: `Received.peer` tells who came.
"""

import base64
import http.server
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.support.pki import Authority


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    peer: str | None = None

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True)
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def payload(self) -> tuple[bytes, str]:
        if isinstance(self.body, bytes):
            return self.body, "application/octet-stream"
        if isinstance(self.body, str):
            return self.body.encode(), "text/plain"
        return orjson.dumps(self.body), "application/json"


Behaviour = Callable[[Received], Answer]


class QuietServer(http.server.ThreadingHTTPServer):
    """A peer that refuses our certificate or hangs up is what some tests are about, not an error of the server."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class HttpsServer:
    """Serves `behaviour` on a loopback port from a thread of its own; use as a context manager."""

    def __init__(self, behaviour: Behaviour, client_ca: Path | None = None, hosts: tuple[str, ...] = ()) -> None:
        self.behaviour = behaviour
        self.received: list[Received] = []
        self._directory = tempfile.TemporaryDirectory(prefix="muster-https-")
        authority = Authority(Path(self._directory.name), "ca")
        self.ca = authority.pair.cert.read_bytes()
        pair = authority.issue("server", hosts=("127.0.0.1", "localhost", *hosts))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                owner._serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.ca).decode()

    def _serve(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        certificate = handler.connection.getpeercert() if isinstance(handler.connection, ssl.SSLSocket) else None
        request = Received(
            handler.command,
            handler.path,
            {key.lower(): value for key, value in handler.headers.items()},
            handler.rfile.read(length),
            _common_name(certificate),
        )
        self.received.append(request)
        answer = self.behaviour(request)
        payload, content_type = answer.payload()
        handler.send_response(answer.status)
        for key, value in {"Content-Type": content_type, **answer.headers}.items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(payload)

    def __enter__(self) -> "HttpsServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._directory.cleanup()


def _common_name(certificate: Any) -> str | None:
    for relative in (certificate or {}).get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                return str(value)
    return None
