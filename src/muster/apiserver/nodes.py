"""The door to whoever runs a cluster's pods: what a real server would ask a kubelet.

The server itself runs nothing. Somebody who does (the local fleet's node runtime) puts a `Node` into `Cluster.node`; from then on
logs of pods are read from it, and endpoints may lie on the loopback interface, because that is where its pods listen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from muster.http import StreamWriter
from muster.machinery.objects import Object


class NoLogs(Exception):
    """There is nothing to read yet or any more; the text says why, in a kubelet's words."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class Node(Protocol):
    async def logs(self, pod: Object, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """What a container of `pod` wrote, in pieces; with `follow`, until it ends. `limit_bytes` is the caller's business.
        Raises `NoLogs` before the first piece."""


def terminal_unsupported(asked: str, pod: Object) -> str:
    """Why there is no exec, attach or port-forward."""
    text = f"{asked} is not supported: pods of this cluster run as tasks of the Muster process and have no terminal or network of "
    text += (
        f"their own; `kubectl logs` works, and a pod's ports are open on its address {(pod.get('status') or {}).get('podIP', '')}"
    )
    return text.rstrip()


async def send_log(pieces: AsyncGenerator[bytes, None], writer: StreamWriter) -> None:
    """All of it, or until the client has gone."""

    async def pump() -> None:
        async for piece in pieces:
            writer.write(piece)
            await writer.drain()

    pumping = asyncio.ensure_future(pump())
    try:
        await asyncio.wait({pumping, writer.closed}, return_when=asyncio.FIRST_COMPLETED)
        if pumping.done():
            pumping.result()
    finally:
        pumping.cancel()
        await asyncio.wait({pumping})
        await pieces.aclose()


async def limited(pieces: AsyncGenerator[bytes, None], limit: int | None) -> AsyncGenerator[bytes, None]:
    try:
        async for piece in pieces:
            if limit is not None and len(piece) >= limit:
                yield piece[:limit]
                return
            yield piece
            if limit is not None:
                limit -= len(piece)
    finally:
        await pieces.aclose()
