"""An AWS that answers what a test says, and keeps what it was asked: for what a client does, not for what AWS would."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


Answer = tuple[int, str]


@dataclass
class Played:
    url: str
    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-west-2"}


@contextmanager
def played_aws(answer: Callable[[Asked], Answer]):
    """`answer` may block: every request has a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            played.asked.append(asked)
            status, text = played.answer(asked)
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = serve

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    played = Played(f"http://127.0.0.1:{server.server_port}", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def identity(arn: str = "arn:aws:iam::1:role/r") -> str:
    inner = f"<Account>1</Account><Arn>{arn}</Arn><UserId>AROA:s</UserId>"
    return result("GetCallerIdentity", inner)


def session(expires: str = "2026-01-01T01:00:00Z", key: str = "ASIA1") -> str:
    return (
        f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>"
        f"<SessionToken>token</SessionToken><Expiration>{expires}</Expiration></Credentials>"
    )


def result(operation: str, inner: str) -> str:
    return f"<{operation}Response><{operation}Result>{inner}</{operation}Result></{operation}Response>"


def refusal(code: str, message: str = "no") -> str:
    return f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
