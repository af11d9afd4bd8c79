"""The door to whoever runs a cluster's pods: what a real server would ask a kubelet.

The server itself runs nothing. Somebody who does (the local fleet's node runtime) puts a `Node` into `Cluster.node`; from then on
logs of pods are read from it, and endpoints may lie on the loopback interface, because that is where its pods listen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from muster.apiserver.registry.resource import Object


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
