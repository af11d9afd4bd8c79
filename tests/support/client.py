"""A raw Kubernetes client for tests: what is asked goes out as written, what comes back is kept whole.

No retries, no discovery, no content-type guessing beyond JSON: tests about a protocol must see the protocol. One
kept-alive connection per client and thread of use; watches get a connection of their own with a read timeout, so a
stream that stays silent ends the generator instead of hanging the test.
"""

import base64
import http.client
import select
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: list[tuple[str, str]] = field(repr=False)
    body: bytes

    def header(self, name: str) -> str | None:
        values = self.header_values(name)
        return values[0] if values else None

    def header_values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def expect(self, *statuses: int) -> Any:
        """The decoded body, after checking that the status is one of `statuses` (any 2xx when none are given)."""
        accepted = self.status in statuses if statuses else 200 <= self.status < 300
        assert accepted, f"expected {statuses or '2xx'}, got {self.status}: {self.text[:2000]}"
        return self.json if self.body else None


class Client:
    """Talks to one cluster at `url` (which may carry a path prefix) as the holder of `token` or `certificate`."""

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        token: str | None = None,
        certificate: tuple[Path, Path] | None = None,
        timeout: float = 30,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url = url.rstrip("/")
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 443
        self.prefix = parts.path.rstrip("/")
        self.token = token
        self.timeout = timeout
        self._tls = ssl.create_default_context(cafile=str(ca) if ca else None)
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if ca is None:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE
        if certificate:
            self._tls.load_cert_chain(*map(str, certificate))
        self._connection: http.client.HTTPSConnection | None = None

    @classmethod
    def of_kubeconfig(cls, kubeconfig: Path, directory: Path) -> "Client":
        """With the server and the certificate of a kubeconfig that has one of each inline; their files go into `directory`."""
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        data = (cluster["certificate-authority-data"], user["client-certificate-data"], user["client-key-data"])
        ca, cert, key = (directory / name for name in ("ca.crt", "client.crt", "client.key"))
        for path, encoded in zip((ca, cert, key), data, strict=True):
            path.write_bytes(base64.b64decode(encoded))
        return cls(cluster["server"], ca=ca, certificate=(cert, key))

    def connect(self, timeout: float | None = None) -> http.client.HTTPSConnection:
        """A fresh connection; small writes leave at once."""
        connection = http.client.HTTPSConnection(self.host, self.port, context=self._tls, timeout=timeout or self.timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def headers(
        self, *, accept: str | None, content_type: str | None, user: str | None, extra: Mapping[str, str] | None
    ) -> dict[str, str]:
        token = self.token if user is None else user
        headers = {"User-Agent": "muster-tests/1.0"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if accept is not None:
            headers["Accept"] = accept
        if content_type is not None:
            headers["Content-Type"] = content_type
        return {**headers, **(extra or {})}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        accept: str | None = JSON,
        user: str | None = None,
    ) -> Reply:
        """One exchange. `body` is sent as is when bytes or str, else as JSON. `user` is a token; "" means anonymous."""
        payload, content_type = encode(body, content_type)
        wire = self.headers(accept=accept, content_type=content_type, user=user, extra=headers)
        return self._exchange(method, target(self.prefix, path, query), payload, wire)

    def _exchange(self, method: str, path: str, payload: bytes | None, headers: dict[str, str]) -> Reply:
        # Something to read before anything was asked is the server's goodbye: find out before sending, never resend.
        if self._connection is not None and _has_input(self._connection.sock):
            self.close()
        if self._connection is None:
            self._connection = self.connect()
        try:
            self._connection.request(method, path, payload, headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if response.will_close:
            self.close()
        return Reply(response.status, response.getheaders(), body)

    def get(self, path: str, **options: Any) -> Reply:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **options: Any) -> Reply:
        return self.request("PATCH", path, body, content_type=content_type, **options)

    def apply(self, path: str, body: Any, manager: str, *, force: bool = False, **options: Any) -> Reply:
        query = {"fieldManager": manager, **({"force": "true"} if force else {}), **options.pop("query", {})}
        return self.request("PATCH", path, body, content_type=APPLY_PATCH, query=query, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.request("DELETE", path, body, **options)

    def watch(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float = 10,
        accept: str = JSON,
        user: str | None = None,
    ) -> "Watch":
        """Opens a watch and returns when its headers have arrived, so later writes are sure to be seen."""
        connection = self.connect(timeout)
        wire = self.headers(accept=accept, content_type=None, user=user, extra=None)
        query = {"watch": "true", **(params or {})}
        connection.request("GET", target(self.prefix, path, query), headers=wire)
        # http.client forgets the socket of a connection the server will close; the stream still reads from it.
        sock = connection.sock
        return Watch(sock, connection, connection.getresponse(), timeout)


class Watch:
    """An open watch: iterate for events until the server ends it or `timeout` seconds pass without an end."""

    def __init__(
        self,
        sock: socket.socket,
        connection: http.client.HTTPSConnection,
        response: http.client.HTTPResponse,
        timeout: float,
    ) -> None:
        self._sock = sock
        self._connection = connection
        self._response = response
        self._deadline = time.monotonic() + timeout
        self.status = response.status
        self.headers = response.getheaders()
        self.ended_by_server = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                return
            try:
                self._sock.settimeout(remaining)
                line = self._response.readline()
            except TimeoutError:
                return
            except (ConnectionError, http.client.HTTPException, ssl.SSLError):
                self.ended_by_server = True
                return
            if not line:
                self.ended_by_server = True
                return
            yield orjson.loads(line)

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next `count` events, fewer if the stream ends or its time is up first."""
        events: list[dict[str, Any]] = []
        if count:
            for event in self:
                events.append(event)
                if len(events) == count:
                    break
        return events

    def reply(self) -> Reply:
        """The whole answer, for a watch that was refused."""
        return Reply(self.status, self.headers, self._response.read())

    def close(self) -> None:
        self._response.close()
        self._connection.close()
        self._sock.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_input(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def encode(body: Any, content_type: str | None) -> tuple[bytes | None, str | None]:
    if body is None:
        return None, content_type
    if isinstance(body, bytes):
        return body, content_type
    if isinstance(body, str):
        return body.encode(), content_type
    return orjson.dumps(body), content_type or JSON


def target(prefix: str, path: str, query: Mapping[str, Any] | None) -> str:
    if not query:
        return prefix + path
    separator = "&" if "?" in path else "?"
    return f"{prefix}{path}{separator}{urllib.parse.urlencode(query, doseq=True)}"
