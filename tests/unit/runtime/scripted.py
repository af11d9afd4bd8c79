"""A client whose lists and watches are written by the test: what a server may do that ours does not do on request."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Self

import orjson

from muster.runtime.client.rest import JSON, Query, RestClient


class ScriptedClient(RestClient):
    """Each stream takes the next of `streams`, a list of lines and errors; `"opened"` is the moment
    the server accepts the watch, and `...` keeps the stream open."""

    def __init__(self) -> None:
        self.streams: list[list[Any]] = []
        self.answers: list[Any] = []
        self.asked: list[Query] = []

    @property
    def server(self) -> str:
        return "scripted"

    def as_user(self, name: str) -> Self:
        return self

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.asked.append(query)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return orjson.dumps(answer)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.asked.append(query)
        if not self.streams:
            await asyncio.Event().wait()
        for line in self.streams.pop(0):
            if line == "opened":
                if opened is not None:
                    opened()
                continue
            if line is ...:
                await asyncio.Event().wait()
            if isinstance(line, Exception):
                raise line
            yield orjson.dumps(line)

    async def close(self) -> None:
        return None


def event(kind: str, name: str, version: int, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version), "uid": f"uid-{name}"}
    return {"type": kind, "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}}


def bookmark(version: int, *, end: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
