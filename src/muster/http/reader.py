"""From bytes to requests: the parsing half of a server connection, with its limits.

llhttp (httptools) cannot pause, so bytes are fed in small slices until a request is complete: a client that pipelines thousands of
requests costs one slice per iteration of the event loop. An invalid request becomes a `Rejection` in the same queue, so responses
keep their order; after that nothing more is read. An Upgrade request with a body is treated as an ordinary request (a server may
ignore Upgrade), because llhttp would otherwise take the body for data of the new protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httptools

from muster.http.bodies import BodyRefused
from muster.http.message import Connection, Headers, Request

if TYPE_CHECKING:
    from muster.http.stream import BodyStream

HEAD_SLICE = 8 * 1024
BODY_SLICE = 64 * 1024
CHUNK_OVERHEAD = 8
"""Bytes of chunk framing that are permitted per byte of body (a one-byte chunk has five)."""

_METHODS: dict[bytes, str] = {}


class Rejection:
    """A message that cannot be served: the status of the response, and the request as far as it is known."""

    __slots__ = ("message", "request", "status")

    def __init__(self, status: int, message: str, request: Request | None = None) -> None:
        self.status = status
        self.message = message
        self.request = request


class _RejectedError(Exception):
    """Stops the parser from within a callback; the response is in `ready` already."""


OpenBody = Callable[[Request, int | None, bool, bool], "BodyStream | None"]
"""(request, announced length or None, whether the client waits for `100 Continue`, whether some of it is still missing) → the
stream for the body; None buffers it until it is complete. Called with the head, and again if the body did not come with it.
"""


def _no_body(request: Request, length: int | None, expects_continue: bool, late: bool) -> BodyStream | None:
    """For a reader whose connection is gone."""
    return None


class RequestReader:
    __slots__ = (
        "_carried",
        "_connection",
        "_expects_continue",
        "_fields",
        "_length",
        "_max_body",
        "_max_head",
        "_max_headers",
        "_open_body",
        "_parser",
        "_parts",
        "_raw_bytes",
        "_target",
        "body_bytes",
        "ended",
        "ready",
        "receiving",
        "rejected",
    )

    def __init__(
        self,
        connection: Connection,
        open_body: OpenBody,
        *,
        max_body: int,
        max_head: int,
        max_headers: int,
    ) -> None:
        self._connection = connection
        self._open_body = open_body
        self._max_body = max_body
        self._max_head = max_head
        self._max_headers = max_headers
        self._parser: Any = httptools.HttpRequestParser(self)
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] | None = None
        self._parts: list[bytes] | None = None
        """Parts of a head, and of a body; most connections are idle, and have none."""
        self._carried: Request | None = None
        self._raw_bytes = 0
        self.body_bytes = 0
        self.ready: list[Request | Rejection] = []
        self.receiving: Request | None = None
        """The request whose body is incomplete (already dispatched if its body is streamed)."""
        self._length: int | None = None
        self._expects_continue = False
        self.ended = False
        """Whether no further request is read from this connection."""
        self.rejected = False

    def feed(self, data: bytes) -> bytes:
        """Parse until a request is ready or the data are used up; returns the unused data."""
        position, size = 0, len(data)
        while position < size and not self.ready and not self.ended:
            end = min(size, position + (HEAD_SLICE if self.receiving is None else BODY_SLICE))
            piece = data if end - position == size else memoryview(data)[position:end]
            self._raw_bytes += end - position
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                end = position + upgrade.args[0]
                self._after_upgrade()
            except httptools.HttpParserError as error:
                self._failed(error)
            position = end
            if not self.ready and not self.ended:
                self._check_overhead()
        if self.receiving is not None and not self.ready and not self.ended:
            self._hand_over(self.receiving)
        return data[position:] if position else data

    def _hand_over(self, request: Request) -> None:
        """The head is complete and the body is not: the handler may start, and request the rest."""
        if request.body_stream is not None:
            return
        request.body_stream = self._open_body(request, self._length, self._expects_continue, True)
        if request.body_stream is not None:
            request.body_stream.feed(b"".join(self._parts or ()))
            self._parts = None
            self.ready.append(request)

    def _check_overhead(self) -> None:
        if self.receiving is None:
            if self._raw_bytes > self._max_head:
                self.reject(431, "the request head is too large")
            elif self._fields is not None and len(self._fields) > self._max_headers:
                # Checked while parsing and not at the end: small fields take many times their size.
                self.reject(431, "too many header fields")
        elif self._raw_bytes > self._max_head + CHUNK_OVERHEAD * self.body_bytes + BODY_SLICE:
            self.reject(400, "too much chunk framing for the amount of body", self.receiving)

    def reject(self, status: int, message: str, request: Request | None = None) -> None:
        """Stop reading, with the reason: as a response of its own, or for the reader of the body of a dispatched request."""
        self.ended = self.rejected = True
        receiving, self.receiving = self.receiving, None
        if receiving is not None and receiving.body_stream is not None:
            receiving.body_stream.feed_eof(BodyRefused(status, message))
        else:
            self.ready.append(Rejection(status, message, request))

    def _failed(self, error: Exception) -> None:
        # After a request with `Connection: close`, llhttp reports further data as an error; they are ignored.
        if not self.ended:
            status = 501 if isinstance(error, httptools.HttpParserInvalidMethodError) else 400
            self.reject(status, f"malformed request: {error}", self.receiving)

    def _after_upgrade(self) -> None:
        request = self._carried
        if request is None:
            return
        self._parser = httptools.HttpRequestParser(self)
        framing = (
            b"transfer-encoding: chunked"
            if "transfer-encoding" in request.headers
            else b"content-length: %b" % (request.headers.get("content-length") or "0").encode()
        )
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")

    # Callbacks of the parser

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if value[-1:] in (b" ", b"\t"):
            value = value.rstrip(b" \t")
        if self._fields is None:
            self._fields = []
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        fields, self._fields = self._fields or [], None
        target, self._target = self._target, b""
        self._raw_bytes = 0
        if self._carried is not None:
            self._carried = None
            return
        parser = self._parser
        raw_method = parser.get_method()
        method = _METHODS.get(raw_method)
        if method is None:
            method = _METHODS[raw_method] = raw_method.decode("ascii")
        headers = Headers(fields)
        version = parser.get_http_version()
        try:
            request = Request(
                method,
                target.decode("ascii"),
                headers,
                self._connection,
                received=time.monotonic(),
                version=version,
                keep_alive=parser.should_keep_alive(),
                upgrade=parser.should_upgrade(),
            )
        except ValueError as error:
            self.reject(400, f"malformed request target: {error}")
            raise _RejectedError from None
        self._admit(request)

    def _admit(self, request: Request) -> None:
        headers = request.headers
        if len(headers) > self._max_headers:
            self._refuse(431, "too many header fields", request)
        if request.version == "1.1":
            host = headers.get("host")
            if host is None or "," in host:
                self._refuse(400, "exactly one Host field is required", request)
        elif request.version != "1.0":
            self._refuse(505, "only HTTP/1.0 and HTTP/1.1 are served", request)
        if "#" in request.target:
            self._refuse(400, "malformed request target: it has a fragment", request)
        self.body_bytes = 0
        self.receiving = request
        coding = headers.get("transfer-encoding")
        announced = headers.get("content-length")
        if coding is None and (announced is None or announced == "0"):
            return
        if coding is not None and coding.lower() != "chunked":
            self._refuse(501, "only the chunked transfer coding is understood", request)
        if request.upgrade:
            request.upgrade = False
            self._carried = request
        expect = headers.get("expect") if request.version == "1.1" else None
        if expect is not None and expect.lower() != "100-continue":
            self._refuse(417, "the only expectation understood is 100-continue", request)
        self._length = length = None if coding is not None or announced is None else int(announced)
        self._expects_continue = expect is not None
        request.body_stream = self._open_body(request, length, expect is not None, False)
        if request.body_stream is not None:
            self.ready.append(request)

    def _refuse(self, status: int, message: str, request: Request) -> None:
        self.reject(status, message, request)
        raise _RejectedError

    def on_body(self, data: bytes) -> None:
        request = self.receiving
        if request is None:
            return
        self.body_bytes += len(data)
        if request.body_stream is not None:
            request.body_stream.feed(data)
            return
        if self.body_bytes > self._max_body:
            self._refuse(413, "the request body is too large", request)
        if self._parts is None:
            self._parts = [data]
        else:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        if self._carried is not None:
            return
        request, self.receiving = self.receiving, None
        self._raw_bytes = 0
        self._fields = None
        if request is None:
            return
        if not request.keep_alive:
            self.ended = True
        if request.body_stream is not None:
            request.body_stream.end()
            return
        parts = self._parts
        if parts is not None:
            request.body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._parts = None
        self.ready.append(request)

    def abandon(self) -> None:
        """The rest of the incomplete body is not needed."""
        self.ended = True
        self.receiving = None

    @property
    def head_bytes(self) -> int:
        """The size of the incomplete head, or of the framing of a body."""
        return self._raw_bytes

    def has_partial_head(self) -> bool:
        return self._raw_bytes > 0 and self.receiving is None

    def drop(self) -> None:
        """Break the cycles with the parser and the connection, so that a closed connection is freed at once."""
        self._parser = None
        self._open_body = _no_body
        self.ended = True
        self.ready.clear()
        self._parts = None
