"""The interface to the node runtime of a cluster: what kube-apiserver requests from a kubelet.

The server itself runs no pods. A node runtime, such as that of the local fleet, sets `Cluster.node`; then logs of pods are read
from it, and endpoints may have loopback addresses, because its pods listen there.
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
    """There are no logs yet or any longer; the text is the reason, as the kubelet words it."""


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
        """Yields the log of a container of `pod`; with `follow`, until the container stops. The caller applies `limit_bytes`.
        Raises `NoLogs` before the first piece."""


def terminal_unsupported(subresource: str, pod: Object) -> str:
    """The message for exec, attach and port-forward."""
    address = (pod.get("status") or {}).get("podIP", "")
    text = (
        f"{subresource} is not supported: pods of this cluster run as tasks of the Muster process and have no terminal or network "
    )
    text += f"of their own; `kubectl logs` works, and a pod's ports are open on its address {address}"
    return text.rstrip()


async def send_log(pieces: AsyncGenerator[bytes, None], writer: StreamWriter) -> None:
    """Send all pieces, or until the client disconnects."""

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
