"""One cluster's trouble is no other's, and a reader who stalls holds little."""

from __future__ import annotations

import asyncio
import statistics
import time
import tracemalloc

from muster.http import Answer, Request, Response, StreamWriter
from tests.unit.http.wire import request

from .conftest import StartCluster, StartGateway
from .harness import PREFIX, Behaviour, Gateway, arrived, ok, streaming


async def _latencies(gateway: Gateway, count: int) -> list[float]:
    peer = await gateway.peer()
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        peer.send(request("GET", f"{PREFIX}/healthy/proxy/api"))
        assert (await peer.reply()).status == 200
        taken.append(time.perf_counter() - began)
    return taken


async def test_clusters_that_hang_reset_and_trickle_do_not_hold_up_a_healthy_one(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    async def hang(incoming: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async def reset(incoming: Request) -> Answer:
        raise asyncio.CancelledError

    async def trickle(incoming: Request) -> Answer:
        async def run(writer: StreamWriter) -> None:
            while not writer.is_closed:
                writer.write(b".")
                await asyncio.sleep(0.02)

        return streaming(then=run)

    troubled = [
        await start_cluster(name, behaviour)
        for name, behaviour in (("hanging", hang), ("resetting", reset), ("trickling", trickle))
    ]
    gateway = await start_gateway(*troubled, await start_cluster("healthy"))
    sick = [cluster.behaviour for cluster in troubled]

    async def bother(name: str) -> None:
        while True:
            await gateway.get(name, "/api")
            await asyncio.sleep(0.02)

    async def p99(*behaviours: Behaviour) -> float:
        """Of the healthy one, beside others who behave like this."""
        for cluster, behaviour in zip(troubled, behaviours, strict=True):
            cluster.behaviour = behaviour
        counts = [len(cluster.received) for cluster in troubled]
        bothering = [asyncio.create_task(bother(cluster.name)) for cluster in troubled for _ in range(7)]
        try:
            for cluster, count in zip(troubled, counts, strict=True):
                await arrived(cluster, count + 7)
            return statistics.quantiles(await _latencies(gateway, 100), n=100)[98]
        finally:
            for task in bothering:
                task.cancel()
            await asyncio.gather(*bothering, return_exceptions=True)

    # In turns, so that a busy machine is as busy for either. What must not be there is the half minute of a cluster that hangs.
    rounds = [(await p99(ok, ok, ok), await p99(*sick)) for _ in range(3)]
    assert (await gateway.get("resetting", "/api")).status == 502
    assert min(beside for _, beside in rounds) < 5 * min(well for well, _ in rounds) + 0.1, rounds


async def test_a_reader_who_stalls_holds_little_and_stops_the_cluster(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    written = 0

    async def flood(incoming: Request) -> Answer:
        async def run(writer: StreamWriter) -> None:
            nonlocal written
            while written < 400 * 2**20:
                writer.write(bytes(65536))
                written += 65536
                await writer.drain()

        return streaming(then=run) if incoming.target.startswith("/logs") else Response(200, b"ok")

    gateway = await start_gateway(await start_cluster(behaviour=flood))
    peer = await gateway.peer()
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    tracemalloc.start()
    try:
        peer.send(request("GET", f"{PREFIX}/foo/proxy/logs"))
        before = -1
        async with asyncio.timeout(20):
            while before != written or not written:
                before = written
                await asyncio.sleep(0.3)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert written < 40 * 2**20
    assert held < 8 * 2**20
    assert (await gateway.get("foo", "/api")).body == b"ok"


async def test_a_large_body_passes_both_ways_in_little_memory(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    size = 48 * 2**20

    async def both(incoming: Request) -> Answer:
        total = 0
        assert incoming.body_stream is not None
        async for piece in incoming.body_stream:
            total += len(piece)

        async def run(writer: StreamWriter) -> None:
            for _ in range(total // 65536):
                writer.write(bytes(65536))
                await writer.drain()

        return streaming(then=run)

    gateway = await start_gateway(await start_cluster(behaviour=both))
    peer = await gateway.peer()
    peer.send(request("POST", f"{PREFIX}/foo/proxy/api", f"Content-Length: {size}"))
    tracemalloc.start()
    try:
        piece = bytes(65536)
        for _ in range(size // 65536):
            peer.send(piece)
            await peer.writer.drain()
        await peer.head()
        received = 0
        while chunk := await peer.chunk():
            received += len(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert received == size
    assert peak < 12 * 2**20
    assert (gateway.traffic.bytes_sent, gateway.traffic.bytes_received) == (size, size)
