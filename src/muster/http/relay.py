"""Forwards a request to another server: bodies are streamed in both directions, upgrades are spliced.

The caller decides which headers are sent: it starts from `end_to_end_fields(request.headers)` (without the fields that the client's
Connection field names), removes and adds, and passes the result; `relay` itself only adds framing, Host if missing, and the Upgrade
fields. A response that is complete at once is passed on in one piece; any other at the speed of the slower side. An incomplete
response also ends the client's connection with an error. A request is repeated only if an idle connection turned out to be closed
before the upstream answered, and only if it is idempotent.

`review` may inspect and change the head of a response before it is passed on, and `meter` counts the bytes.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from muster.http.message import (
    Answer,
    HeaderFields,
    Headers,
    Request,
    Response,
    StreamResponse,
    Takeover,
    encode_chunk,
    encode_head,
)
from muster.http.pool import UpstreamKey, UpstreamPool
from muster.http.stream import BodyStream, RawConnection, StreamWriter
from muster.http.upstream import (
    AnswerHead,
    UpstreamConnection,
    UpstreamUnavailable,
    host_port,
)

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OWN_REQUEST_FIELDS = HOP_BY_HOP | {"content-length", "expect"}
_OWN_ANSWER_FIELDS = HOP_BY_HOP | {"content-length", "date"}
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_RAW_TARGET = re.compile(r"/[!-~]*").fullmatch
HALF_CLOSE_GRACE = 5.0


class Meter(Protocol):
    """Counts the bytes of bodies and of upgraded connections."""

    def sent(self, size: int) -> None: ...

    def received(self, size: int) -> None: ...


class RequestBodyTooLarge(Exception):
    """More than `max_body` bytes were to be relayed."""


def end_to_end_fields(headers: Headers) -> list[tuple[str, str]]:
    """The end-to-end fields of a received head: all but hop-by-hop fields and those its Connection field names."""
    named = {name.strip().lower() for name in (headers.get("connection") or "").split(",")}
    dropped = HOP_BY_HOP | named
    return [(name, value) for name, value in headers.items() if name not in dropped]


async def relay(
    request: Request,
    *,
    pool: UpstreamPool,
    host: str,
    port: int,
    path: str,
    headers: HeaderFields,
    tls: ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    connect_timeout: float = 10.0,
    head_timeout: float | None = 60.0,
    max_body: int | None = None,
    review: Callable[[AnswerHead], None] | None = None,
    meter: Meter | None = None,
) -> Answer:
    """Send `request` to an upstream as `path` (a raw request target) with `headers`, and return its response.

    Raises UpstreamUnavailable, UpstreamTimeout, UpstreamUntrusted or UpstreamBroken (all UpstreamError) before anything of the
    response was passed on, and RequestBodyTooLarge. `head_timeout` counts from the end of the request's body. `review` may change
    the fields of the response's head, also for a switch of protocols, and its exceptions are raised here.
    """
    key: UpstreamKey = (host, port, tls, server_hostname)
    if request.method == "CONNECT":
        return Response(405, b"CONNECT is not relayed\n", content_type="text/plain")
    protocol = request.headers.get("upgrade") if request.upgrade else None
    head = _request_head(request, path, headers, host_port(host, port), protocol)
    repeatable = request.method in _REPEATABLE and request.body_stream is None
    for fresh in (protocol is not None, True):
        connection = await pool.connect(key, connect_timeout, fresh=fresh, sure=not repeatable)
        exchange = _Exchange(pool, key, connection, meter)
        try:
            answer = await exchange.perform(request, head, head_timeout, max_body, upgrade=protocol is not None)
            if review is not None:
                review(answer)
        except UpstreamUnavailable:
            exchange.abandon()
            if connection.used and repeatable and not connection.received and not fresh:
                continue
            raise
        except BaseException:
            exchange.abandon()
            raise
        return exchange.switch(answer) if connection.switched else exchange.pass_on(request, answer)
    raise AssertionError("the second attempt is always fresh and ends above")


def _request_head(request: Request, path: str, headers: HeaderFields, host: str, protocol: str | None) -> bytes:
    fields, has_host = [], False
    for name, value in headers:
        lowered = name.lower()
        if lowered not in _OWN_REQUEST_FIELDS:
            fields.append(f"{name}: {value}\r\n")
            has_host = has_host or lowered == "host"
    if not has_host:
        fields.insert(0, f"Host: {host}\r\n")
    body = request.body_stream
    if body is not None and body.length is None:
        fields.append("Transfer-Encoding: chunked\r\n")
    elif body is not None or request.body or request.method in _WITH_BODY:
        fields.append(f"Content-Length: {len(request.body) if body is None else body.length}\r\n")
    if protocol is not None:
        fields += ["Connection: Upgrade\r\n", f"Upgrade: {protocol}\r\n"]
    lines = "".join(fields)
    if lines.count("\n") != len(fields) or lines.count("\r") != len(fields) or "\0" in lines:
        raise ValueError("a header field to be relayed contains a line break or NUL")
    if _RAW_TARGET(path) is None:
        raise ValueError("the path to be relayed is not a raw request target")
    return f"{request.method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


class _Exchange:
    """One request on one upstream connection, until the connection is released."""

    __slots__ = ("_connection", "_key", "_meter", "_pool", "_upload")

    def __init__(self, pool: UpstreamPool, key: UpstreamKey, connection: UpstreamConnection, meter: Meter | None) -> None:
        self._pool = pool
        self._key = key
        self._connection = connection
        self._meter = meter
        self._upload: asyncio.Task[None] | None = None

    async def perform(
        self, request: Request, head: bytes, head_timeout: float | None, max_body: int | None, *, upgrade: bool
    ) -> AnswerHead:
        connection = self._connection
        body = request.body_stream
        if body is None:
            if max_body is not None and len(request.body) > max_body:
                raise RequestBodyTooLarge
            connection.exchange(head + request.body, bodiless=request.method == "HEAD", upgrade=upgrade)
            if request.body and self._meter is not None:
                self._meter.sent(len(request.body))
        else:
            if max_body is not None and body.length is not None and body.length > max_body:
                raise RequestBodyTooLarge
            connection.exchange(head, bodiless=request.method == "HEAD", upgrade=upgrade)
            self._upload = asyncio.create_task(_send_body(body, connection, max_body, self._meter))
            self._upload.add_done_callback(_retrieve_exception)
            await self._until_sent_or_answered(self._upload)
        return await (connection.answer() if head_timeout is None else connection.answer_within(head_timeout))

    async def _until_sent_or_answered(self, upload: asyncio.Task[None]) -> None:
        answered = asyncio.ensure_future(self._connection.answer())
        try:
            await asyncio.wait([upload, answered], return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
        if upload.done():
            error = upload.exception()
            # An upstream that closes while we send may still have answered (e.g. 413): then that response counts.
            if error is not None and not (isinstance(error, ConnectionError) and self._connection.lost):
                raise error

    def pass_on(self, request: Request, answer: AnswerHead) -> Answer:
        connection = self._connection
        fields, named = [], set[str]()
        for field in answer.fields:
            name = field[0].lower()
            if name not in _OWN_ANSWER_FIELDS:
                fields.append(field)
            elif name == "connection":
                named.update(part.strip().lower() for part in field[1].split(","))
        if named:
            fields = [field for field in fields if field[0].lower() not in named]
        if connection.complete:
            if answer.length is not None and (request.method == "HEAD" or answer.status == 304):
                fields.append(("Content-Length", str(answer.length)))
            body = connection.body_at_hand()
            if body and self._meter is not None:
                self._meter.received(len(body))
            self._give_back()
            return Response(answer.status, body, fields)
        return StreamResponse(answer.status, fields, self._stream, length=answer.length, discard=self.abandon)

    async def _stream(self, writer: StreamWriter) -> None:
        meter = self._meter

        def pass_along(data: bytes) -> bool:
            if meter is not None:
                meter.received(len(data))
            writer.write(data)
            return not writer.is_behind

        try:
            while await self._connection.body_into(pass_along):
                await writer.drain()
        except BaseException:
            self.abandon()
            raise
        self._give_back()

    def switch(self, answer: AnswerHead) -> Takeover:
        protocol = [value for name, value in answer.fields if name.lower() == "upgrade"]
        fields = [(name, value) for name, value in answer.fields if name.lower() not in HOP_BY_HOP]
        tail = f"Connection: Upgrade\r\nUpgrade: {', '.join(protocol)}\r\n\r\n"
        head = encode_head(101, fields, None, tail)

        async def run(client: RawConnection) -> None:
            try:
                client.write(head)
                self._connection.write(client.initial)
                await _splice(client, self._connection, self._meter)
            finally:
                self._connection.close()

        return Takeover(run, discard=self.abandon)

    def _give_back(self) -> None:
        if self._upload is not None and not self._upload.done():
            self.abandon()
        else:
            self._pool.release(self._key, self._connection)

    def abandon(self) -> None:
        if self._upload is not None:
            self._upload.cancel()
        self._connection.abort()


def _retrieve_exception(upload: asyncio.Task[None]) -> None:
    """An upload that fails after the response began needs no report: the end of the response has it."""
    if not upload.cancelled():
        upload.exception()


async def _send_body(body: BodyStream, connection: UpstreamConnection, max_body: int | None, meter: Meter | None) -> None:
    sent = 0
    async for data in body:
        sent += len(data)
        if max_body is not None and sent > max_body:
            raise RequestBodyTooLarge
        if meter is not None:
            meter.sent(len(data))
        connection.write(encode_chunk(data) if body.length is None else data)
        await connection.drain()
    if body.length is None:
        connection.write(b"0\r\n\r\n")


async def _copy(
    read: Callable[[], Awaitable[bytes]],
    write: Callable[[bytes], None],
    drain: Callable[[], Awaitable[None]],
    count: Callable[[int], None] | None,
) -> None:
    while data := await read():
        if count is not None:
            count(len(data))
        write(data)
        await drain()


async def _splice(client: RawConnection, upstream: UpstreamConnection, meter: Meter | None) -> None:
    """Copy in both directions. When one side ends its direction, the other may finish; when one is gone, its data are delivered."""
    up = asyncio.create_task(_copy(client.read, upstream.write, upstream.drain, meter.sent if meter else None))
    down = asyncio.create_task(_copy(upstream.body, client.write, client.drain, meter.received if meter else None))
    directions: Sequence[asyncio.Task[None]] = (up, down)
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        if up.done() and up.exception() is not None:
            # The upstream is gone, not the client: its data are still to be delivered.
            source_gone, half_closed = False, True
        elif up.done():
            source_gone, half_closed = client.is_closed or client.secure, upstream.write_eof()
        else:
            source_gone, half_closed = upstream.lost or upstream.secure, client.write_eof()
        if not source_gone:
            await asyncio.wait(directions, timeout=None if half_closed else HALF_CLOSE_GRACE)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
