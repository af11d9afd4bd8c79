"""An in-process client: uses the same pipeline, identity and rules as a remote one, without socket, TLS and a second JSON encoding.

Built-in controllers and simulated clusters use it. A stream is delivered through a bounded queue: if the consumer falls behind, the
stream waits, and a watch continues from history, as over the network.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import cast
from urllib.parse import quote, urlencode

import orjson

from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import ApiError
from muster.apiserver.pipeline import Pipeline
from muster.http import Headers, Request, Response, StreamResponse, StreamWriter
from muster.http.message import Connection, decode_chunks
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object

_MAX_QUEUED = 10_000
_MAX_UNREAD_BYTES = 64 * 1024
"""Bytes that may be queued before a stream waits for the consumer."""


class DirectClient:
    def __init__(self, pipeline: Pipeline, cluster: Cluster, user: UserInfo, agent: str = "muster") -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._user = user
        self._headers: tuple[tuple[bytes, bytes], ...] = ((b"user-agent", agent.encode()), (b"accept", b"application/json"))
        self._connection = Connection(("127.0.0.1", 0), "https")

    def as_user(self, name: str) -> DirectClient:
        """A client that impersonates a user; needs the permission to."""
        other = copy.copy(self)
        other._headers = (*self._headers, (b"impersonate-user", name.encode()))
        return other

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        media: str = "application/json",
        creating: str = "",
    ) -> Response | StreamResponse:
        """`creating` is the name of the object to create, for users who may create only this name."""
        target = path + ("?" + urlencode(query) if query else "")
        headers = list(self._headers)
        if body is not None:
            headers.append((b"content-type", media.encode()))
        payload = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        request = Request(method, target, Headers(headers), self._connection, received=time.monotonic(), body=payload)
        answer = await self._pipeline.serve(self._cluster, request, request.raw_path, self._user, creating)
        if not isinstance(answer, Response | StreamResponse):
            raise TypeError("an in-process client cannot take a connection over")
        return answer

    async def call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None, media: str = "application/json"
    ) -> Object:
        """The decoded answer. Raises ApiError for a failure."""
        answer = await self.send(method, path, query, body, media)
        assert isinstance(answer, Response)
        raw = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        if answer.status >= 400:
            raise _error(answer.status, raw)
        return cast(Object, orjson.loads(raw))

    async def get(self, path: str) -> Object:
        return await self.call("GET", path)

    async def create(self, path: str, obj: Object) -> Object:
        return await self.call("POST", path, body=obj)

    async def update(self, path: str, obj: Object) -> Object:
        return await self.call("PUT", path, body=obj)

    async def merge(self, path: str, patch: Object) -> Object:
        return await self.call("PATCH", path, body=patch, media="application/merge-patch+json")

    async def apply(self, path: str, obj: Object, manager: str, force: bool = True) -> Object:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self.call("PATCH", path, query, obj, "application/apply-patch+yaml")

    async def delete(self, path: str, options: Object | None = None) -> Object:
        return await self.call("DELETE", path, body=options)

    async def watch(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[tuple[str, Object], None]:
        """Yields (event type, object) until the server ends the watch."""
        lines = self.lines(path, {**(query or {}), "watch": "true"})
        try:
            async for line in lines:
                event = orjson.loads(line)
                yield event["type"], event["object"]
        finally:
            await lines.aclose()

    async def lines(
        self, path: str, query: Mapping[str, str], opened: Callable[[], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a streamed answer; `opened` is called when it begins."""
        answer = await self.send("GET", path, query)
        if isinstance(answer, Response):
            raise _error(answer.status, answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
        if opened is not None:
            opened()
        sink = _StreamSink()
        task = asyncio.ensure_future(_run(answer, sink))
        try:
            while True:
                line = await sink.next_line()
                if line is None:
                    return
                yield line
        finally:
            sink.end()
            task.cancel()


async def _run(answer: StreamResponse, sink: _StreamSink) -> None:
    try:
        await answer.run(cast(StreamWriter, sink))
    finally:
        sink.finish()


class _StreamSink:
    """Replaces the StreamWriter of a connection."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._taken = asyncio.Event()
        self.buffered = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    @property
    def is_behind(self) -> bool:
        return self.buffered > _MAX_UNREAD_BYTES

    def write(self, payload: bytes) -> None:
        for line in payload.splitlines():
            if self._queue.qsize() >= _MAX_QUEUED:
                self.abort()
                return
            self._queue.put_nowait(line)
            self.buffered += len(line)

    def write_framed(self, framed: bytes) -> None:
        self.write(decode_chunks(framed))

    async def next_line(self) -> bytes | None:
        """The next line; None at the end."""
        line = await self._queue.get()
        if line is not None:
            self.buffered -= len(line)
            self._taken.set()
        return line

    async def drain(self) -> None:
        while self.buffered > _MAX_UNREAD_BYTES and not self.is_closed:
            self._taken.clear()
            await self._taken.wait()

    def abort(self) -> None:
        self.end()
        self.finish()

    def announce_end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def end(self) -> None:
        self.is_closed = True
        self._taken.set()
        self.announce_end()

    def finish(self) -> None:
        self._queue.put_nowait(None)


def _error(code: int, raw: bytes) -> ApiError:
    try:
        status = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ApiError(code, "", raw.decode(errors="replace").strip())
    return ApiError(code, status.get("reason", ""), status.get("message", ""), status.get("details"))


def object_path(api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of an object or collection."""
    parts = ["api" if "/" not in api_version else "apis", api_version]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(subresource)
    return "/" + "/".join(parts)
