"""What a client of HTTP/2 can make a server keep or do, who pays for it, and how connections end."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.http import Answer, Request, Response, StreamResponse, StreamWriter, backlogs
from muster.http.http2 import frames
from tests.support import http2_attacks
from tests.support.h2_client import H2Client
from tests.support.http2_client import Credentials
from tests.unit.http.conftest import Serve
from tests.unit.http.http2.conftest import Peer
from tests.unit.http.multiplexing.conftest import Connect
from tests.unit.http.pki import Authority, client_context

REFUSED_STREAM = 7
LARGE = 16 * 1024 * 1024


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the server has no event for what only tests wait for
            await asyncio.sleep(0.01)


async def frames_by_hand(port: int, tls: ssl.SSLContext) -> Peer:
    """`h2` says and hears nothing more once a GOAWAY has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    peer = Peer(reader, writer)
    peer.send(frames.PREFACE, frames.settings(()))
    return peer


async def last_stream(peer: Peer) -> int:
    """That the next GOAWAY names."""
    return int.from_bytes((await peer.until(frames.GOAWAY))[3][:4], "big")


async def ping_of(peer: Peer) -> bytes:
    return (await peer.until(frames.PING))[3]


class Slow:
    """A handler whose `/watch` writes for as long as its client keeps up; `/hold` is answered when `gate` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.written = 0
        self.cancelled = 0
        self.held = 0

    async def handle(self, asked: Request) -> Answer:
        if asked.path == "/hold":
            self.held += 1
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return Response(200, b"held")
        if asked.path == "/large":
            return Response(200, b"x" * LARGE)
        if asked.path == "/watch":
            return StreamResponse(200, (), self._write)
        return Response(200, b"other")

    async def _write(self, writer: StreamWriter) -> None:
        while not writer.is_closed:
            writer.write(b"x" * 10_000)
            self.written += 10_000
            if writer.is_behind:
                await writer.drain()
            await asyncio.sleep(0)


async def test_a_stream_that_nobody_reads_holds_up_itself_alone(serve: Serve, connect: Connect) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True)
    client = await connect(site)
    client.stalled.add(stalled := client.ask("/watch"))
    await client.until(lambda: len(client.streams[stalled].body) == 65_535)
    for _ in range(20):
        assert (await client.get("/")).body == b"other"
    assert slow.written < 1_000_000
    before = len(client.streams[stalled].body)
    client.read(stalled)
    await client.until(lambda: len(client.streams[stalled].body) > before)


async def test_of_one_connection_only_the_streams_that_hold_too_much_are_cut(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlogs, "STALLED_SECONDS", 600.0)
    slow = Slow()
    site = await serve(slow.handle, http2=True, max_owner_backlog=LARGE + LARGE // 2)
    client = await connect(site)
    numbers = [client.h2.get_next_available_stream_id() + 2 * offset for offset in range(2)]
    client.stalled.update(numbers)
    for number in numbers:
        assert client.ask("/large") == number
        await client.until(lambda number=number: len(client.streams[number].body) == 65_535)
    watch = client.ask("/watch")
    server = site.server
    server.backlogs.sweep(time.monotonic())
    server.backlogs.sweep(time.monotonic() + backlogs.STALLED_SECONDS)
    assert server.backlogs.cut == 1
    await client.until(lambda: [client.streams[number].reset for number in numbers].count(None) == 1)
    assert (await client.get("/")).body == b"other"
    assert client.streams[watch].reset is None
    for number in (watch, *numbers):
        if client.streams[number].reset is None:
            client.reset(number)
    await eventually(lambda: not server.backlogs._behind)


async def test_an_answer_that_nobody_takes_is_given_up_in_time(serve: Serve, connect: Connect) -> None:
    site = await serve(Slow().handle, http2=True, send_timeout=0.4)
    client = await connect(site)
    client.stalled.add(number := client.h2.get_next_available_stream_id())
    assert client.ask("/large") == number
    with pytest.raises(ConnectionResetError):
        await client.answer(number)
    assert (await client.get("/")).body == b"other"


async def test_a_request_that_is_taken_back_is_not_worked_for(serve: Serve, connect: Connect) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True)
    client = await connect(site)
    for _ in range(500):
        client.reset(client.ask("/hold"))
    assert (await client.get("/")).body == b"other"  # a crowd that changes its mind is no attack
    await eventually(lambda: slow.cancelled == slow.held)
    assert client.goaways == []


async def test_strangers_have_few_streams_at_once(serve: Serve, connect: Connect, server_ca: Authority) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True)
    tls = client_context(server_ca)
    tls.set_alpn_protocols(["h2"])
    client = await connect(site, tls=tls)
    numbers = [client.ask("/hold") for _ in range(40)]
    await client.until(lambda: [client.streams[number].reset for number in numbers].count(REFUSED_STREAM) == 8)
    slow.gate.set()
    assert (await client.answer(numbers[0])).body == b"held"


async def test_a_body_that_strangers_send_unasked_is_bounded_by_the_connection(
    serve: Serve, connect: Connect, server_ca: Authority
) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True, reads_bodies=True)
    tls = client_context(server_ca)
    tls.set_alpn_protocols(["h2"])
    client = await connect(site, tls=tls)
    numbers = [client.ask("/hold", "POST", end=False) for _ in range(5)]
    sending = [asyncio.create_task(client.send(number, b"x" * 60_000)) for number in numbers]
    await client.until(lambda: client.h2.outbound_flow_control_window == 0)
    slow.gate.set()
    for number in numbers:
        assert (await client.answer(number)).body == b"held"
    await asyncio.gather(*sending, return_exceptions=True)


@pytest.mark.parametrize(
    "attack",
    ["rapid_reset", "provoked_reset", "continuation_flood", "empty_continuations", "ping_flood", "settings_flood", "empty_data"],
)
async def test_attacks_end_their_own_connection(
    serve: Serve, connect: Connect, server_ca: Authority, client_ca: Authority, tmp_path: Path, attack: str
) -> None:
    site = await serve(Slow().handle, http2=True)
    certificate, key, _ = client_ca.issue("attacker", client=True)
    files = {"ca": server_ca.pem, "crt": certificate, "key": key}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    client = await connect(site)
    credentials = Credentials(tmp_path / "ca", tmp_path / "crt", tmp_path / "key")
    observed = await http2_attacks.run(attack, "localhost", site.port, credentials, 0.5)
    assert observed.goaway != "NO_ERROR", observed
    assert observed.closed or observed.stalled, observed
    assert (await client.get("/")).body == b"other"


async def test_a_server_that_stops_answers_what_it_has_and_ends_streams(serve: Serve, choosing_tls: ssl.SSLContext) -> None:
    slow = Slow()

    async def handle(asked: Request) -> Answer:
        if asked.path != "/watch":
            return await slow.handle(asked)

        async def run(writer: StreamWriter) -> None:
            writer.write(b"begun")
            await writer.closed
            writer.write(b" ended")

        return StreamResponse(200, (), run)

    site = await serve(handle, http2=True)
    peer = await frames_by_hand(site.port, choosing_tls)
    peer.request(1, b"/hold")
    peer.request(3, b"/watch")
    assert (await peer.until(frames.DATA, 3))[3] == b"begun"
    stopping = asyncio.create_task(site.server.stop(20))
    assert await last_stream(peer) == frames.LARGEST_STREAM
    ping = await ping_of(peer)
    assert (await peer.until(frames.DATA, 3))[3] == b" ended"
    peer.send(frames.ping(ping, ack=True))
    assert await last_stream(peer) == 3
    slow.gate.set()
    assert (await peer.until(frames.DATA, 1))[3] == b"held"
    await stopping


async def test_what_does_not_end_within_the_grace_is_cut(serve: Serve, choosing_tls: ssl.SSLContext) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True)
    peer = await frames_by_hand(site.port, choosing_tls)
    peer.request(1, b"/hold")
    await eventually(lambda: slow.held == 1)
    await site.server.stop(0.1)
    assert await peer.reset(1)
    await peer.closed()
    assert slow.cancelled == 1


async def test_an_idle_connection_is_closed_in_peace(serve: Serve, choosing_tls: ssl.SSLContext) -> None:
    site = await serve(Slow().handle, http2=True, idle_timeout=0.4)
    peer = await frames_by_hand(site.port, choosing_tls)
    peer.request(1)
    assert (await peer.until(frames.DATA, 1))[3] == b"other"
    assert await last_stream(peer) == frames.LARGEST_STREAM
    peer.send(frames.ping(await ping_of(peer), ack=True))
    assert await last_stream(peer) == 1
    await site.emptied()


async def test_connections_without_a_certificate_are_made_anew(serve: Serve, connect: Connect, server_ca: Authority) -> None:
    slow = Slow()
    site = await serve(slow.handle, http2=True)
    tls = client_context(server_ca)
    tls.set_alpn_protocols(["h2"])
    stranger, known = await frames_by_hand(site.port, tls), await connect(site)
    stranger.request(1, b"/hold")
    assert (await known.get("/")).body == b"other"
    await eventually(lambda: slow.held == 1)
    site.server.retire_unproven()
    assert await last_stream(stranger) == frames.LARGEST_STREAM
    stranger.send(frames.ping(await ping_of(stranger), ack=True))
    slow.gate.set()
    assert (await stranger.until(frames.DATA, 1))[3] == b"held"
    await eventually(lambda: site.server.connections == 1)
    assert (await known.get("/")).body == b"other"


async def test_go_s_pings_on_a_silent_connection_are_no_offence(serve: Serve, connect: Connect) -> None:
    site = await serve(Slow().handle, http2=True)
    client: H2Client = await connect(site)
    for number in range(20):
        client.h2.ping(number.to_bytes(8, "big"))
        client.flush()
    assert (await client.get("/")).body == b"other"
    assert client.goaways == []
