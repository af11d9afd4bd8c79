"""The ingress of a local fleet's gRPC server: one fixed port of this machine in front of pods with changing addresses.

Agents remember the hub's address, and certificates contain it, so it has to stay the same after a restart. Connections are
forwarded unchanged to the ready pods in turn; TLS is between the agent and the pod. While no pod is ready, a connection is closed
at once, and the agent retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from muster.fleet.workloads import podstate
from muster.machinery.logs import get_logger
from muster.operator.cluster_manager.exposure import PORT
from muster.operator.names import CLUSTER_MANAGER
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import PODS

log = get_logger("muster.fleet.local")

CHUNK: Final = 64 * 1024
CONNECT_TIMEOUT: Final = 5.0

Targets = Callable[[], Awaitable[Sequence[tuple[str, int]]]]
"""The present targets of connections."""


def ready_servers(hub: KubeClient) -> Targets:
    """The ready pods of the hub's gRPC server."""

    async def remaining() -> list[tuple[str, int]]:
        found = (await hub.list(PODS, HUB_NAMESPACE, label_selector=f"app={CLUSTER_MANAGER}-grpc-server")).items
        return [(str(pod["status"]["podIP"]), PORT) for pod in found if podstate.is_active(pod) and podstate.is_ready(pod)]

    return remaining


@asynccontextmanager
async def ingress(host: str, port: int, targets: Targets) -> AsyncIterator[None]:
    """Forward connections within the context. Raises OSError if the port is in use."""
    turn = itertools.count()
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        try:
            found = await targets()
            if found:
                await _pass_on(reader, writer, *found[next(turn) % len(found)])
        except (OSError, TimeoutError, KubeError) as error:
            log.info("connection to the gRPC server failed", error=str(error))
        finally:
            writer.close()

    server = await asyncio.start_server(accept, host, port, limit=CHUNK)
    try:
        yield
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    async with asyncio.timeout(CONNECT_TIMEOUT):
        inner_reader, inner_writer = await asyncio.open_connection(host, port, limit=CHUNK)
    try:
        both = [asyncio.create_task(_copy(reader, inner_writer)), asyncio.create_task(_copy(inner_reader, writer))]
        try:
            # Each direction ends by itself: TLS signals the end.
            await asyncio.gather(*both)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
    finally:
        inner_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()
