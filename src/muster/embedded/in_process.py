"""A client without network: requests are passed directly to the embedded server's pipeline in this process.

Authentication, admission and storage are the same as for other requests; only sockets and TLS are skipped. A slow watcher is cut
off by the server's bounded queue, as over a socket.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable

import msgspec

from muster.apiserver.client import DirectClient
from muster.apiserver.errors import ApiError
from muster.http import Response
from muster.runtime.client import JSON, Query, RestClient, Unreachable, status_error
from muster.store.api import StoreError


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_named = msgspec.json.Decoder(_Named).decode


def _name_in(body: bytes) -> str:
    return _decode_named(body).metadata.name


class InProcessClient(RestClient):
    def __init__(self, client: DirectClient, name: str = "in-process", *, names_creations: bool = False) -> None:
        """With `names_creations`, create requests are authorized with the object's name too, so that a permission may be limited to
        one name; over a network authorizers do not get it."""
        self._client = client
        self._name = name
        self._names_creations = names_creations

    @property
    def server(self) -> str:
        return self._name

    def as_user(self, name: str) -> InProcessClient:
        other = copy.copy(self)
        other._client = self._client.as_user(name)
        return other

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        creating = _name_in(body) if self._names_creations and method == "POST" and body is not None else ""
        try:
            answer = await self._client.send(method, path, query, body, media, creating)
        except StoreError as error:
            raise Unreachable(self._name, str(error)) from error
        if not isinstance(answer, Response):
            raise Unreachable(self._name, f"{method} {path} is answered by a stream")
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        if answer.status >= 400:
            raise status_error(answer.status, content)
        return content

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        lines = self._client.lines(path, query, opened)
        try:
            async for line in lines:
                yield line
        except ApiError as error:
            raise status_error(error.code, error.status()) from error
        finally:
            await lines.aclose()

    async def close(self) -> None:
        return None
