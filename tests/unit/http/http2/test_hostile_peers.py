"""Floods, bombs and clients that neither speak nor read: each costs a bounded part, then its connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.http.http2 import frames
from muster.http.http2.frames import ErrorCode
from muster.http.http2.server import STRANGER_STREAMS, Http2Server, ServerConnection
from muster.http.tls import server_context
from tests.unit.http.pki import Authority, client_context

from .conftest import ANSWER, Connect, Peer, Serve, Site, Wire, check_frames, until

CALM = ErrorCode.ENHANCE_YOUR_CALM
FLOOD = 20_000


async def refused(peer: Peer) -> int:
    """The code that the connection ends with; it may end before the word arrives."""
    try:
        return (await peer.goaway())[0]
    except (asyncio.IncompleteReadError, ConnectionError):
        return CALM


async def flood(peer: Peer, make: Callable[[int], bytes]) -> int:
    """Send until the server has had enough; the code that it gives."""
    answer = asyncio.create_task(refused(peer))
    try:
        for number in range(FLOOD):
            peer.send(make(number))
            if number % 50 == 0:
                await peer.writer.drain()
                if answer.done():
                    break
    except ConnectionError:
        pass
    return await answer


async def known(site: Site, connect: Connect) -> Peer:
    """A peer whose connection is somebody's: it has the larger allowance."""
    peer = await connect(site)
    peer.request(1, b"/known")
    await peer.answer(1)
    return peer


FLOODS: dict[str, Callable[[Peer], Callable[[int], bytes]]] = {
    "streams that are opened and reset": lambda peer: (
        lambda number: frames.headers(2 * number + 3, peer.block(b"/hold"), end=False) + frames.reset(2 * number + 3, 8)
    ),
    "streams that break the protocol": lambda peer: (
        lambda number: frames.headers(2 * number + 3, peer.block(b"/hold"), end=False) + frames.window_update(2 * number + 3, 0)
    ),
    "streams that depend on themselves": lambda peer: (
        lambda number: frames.frame(frames.PRIORITY, 0, 2 * number + 3, frames.pack_number(2 * number + 3) + b"\0")
    ),
    "settings": lambda peer: lambda number: frames.settings(()),
    "acknowledgements of settings": lambda peer: lambda number: frames.SETTINGS_ACK,
    "priorities": lambda peer: lambda number: frames.frame(frames.PRIORITY, 0, 1, b"\0\0\0\0\0"),
    "unknown frames": lambda peer: lambda number: frames.frame(0xBE, 0, 0, b""),
    "windows opened by a byte": lambda peer: lambda number: frames.window_update(0, 1),
    "farewells": lambda peer: lambda number: frames.goaway(0, 0),
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_ends_the_connection(serve: Serve, connect: Connect, kind: str) -> None:
    site = await serve()
    peer = await known(site, connect)
    assert await flood(peer, FLOODS[kind](peer)) == CALM
    await until(lambda: site.server.connections == 0)
    assert len(site.exchanges) < 3000


async def test_a_stranger_has_a_tenth_of_the_allowance(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    make = FLOODS["streams that are opened and reset"](peer)
    assert await flood(peer, make) == CALM
    assert len(site.exchanges) < 300


async def test_data_without_bytes_end_the_connection(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await known(site, connect)
    peer.request(3, b"/hold", end=False)
    assert await flood(peer, lambda number: frames.frame(frames.DATA, 0, 3, b"")) == CALM


async def test_others_are_served_during_a_flood(serve: Serve, connect: Connect) -> None:
    site = await serve()
    bad, good = await known(site, connect), await connect(site)
    flooding = asyncio.create_task(flood(bad, FLOODS["settings"](bad)))
    for number in range(1, 41, 2):
        good.request(number)
        assert (await good.answer(number))[1] == ANSWER
    await flooding


async def test_a_head_without_end_is_not_kept(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.send(frames.frame(frames.HEADERS, 0, 1, peer.block()))
    code = await flood(peer, lambda number: frames.frame(frames.CONTINUATION, 0, 1, b"\0\1x" + b"\x7f\x81\x7e" + b"v" * 16_000))
    assert code == CALM
    assert not site.exchanges


async def test_a_head_in_empty_pieces_is_not_waited_for(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.send(frames.frame(frames.HEADERS, 0, 1, peer.block()))
    assert await flood(peer, lambda number: frames.frame(frames.CONTINUATION, 0, 1, b"")) == CALM


async def test_a_small_block_with_large_fields_is_refused(serve: Serve, connect: Connect) -> None:
    """One entry of the table named thousands of times: 4,000 bytes on the wire would be 16 MB of fields."""
    site = await serve()
    peer = await connect(site)
    entry = peer.encoder.encode([(b"big", b"v" * 4000)], huffman=False)
    peer.send(frames.headers(1, peer.block() + entry + b"\xbe" * 4000, end=True))
    assert await refused(peer) == CALM
    assert not site.exchanges


async def test_bytes_that_are_no_hpack_end_the_connection(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve())
    peer.send(frames.headers(1, b"\xff\xff\xff\xff\xff\xff\xff", end=True))
    assert (await peer.goaway())[0] == ErrorCode.COMPRESSION_ERROR


async def test_a_stranger_has_few_streams_at_once(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    for number in range(STRANGER_STREAMS + 1):
        peer.request(2 * number + 1, b"/hold")
    assert await peer.reset(2 * STRANGER_STREAMS + 1) == ErrorCode.REFUSED_STREAM
    assert len(site.exchanges) == STRANGER_STREAMS


async def test_strangers_have_a_part_of_the_connections(serve: Serve, connect: Connect) -> None:
    site = await serve(max_connections=8, strangers=0.25)
    peer = await known(site, connect)
    strangers = [await connect(site) for _ in range(6)]
    await strangers[0].closed()
    await until(lambda: site.server.connections <= 3)
    for one, number in ((peer, 3), (strangers[-1], 1)):
        one.request(number)
        assert (await one.answer(number))[1] == ANSWER


async def test_streams_beyond_the_limit_are_refused(serve: Serve, connect: Connect) -> None:
    site = await serve(max_streams=3)
    peer = await known(site, connect)
    for number in (3, 5, 7, 9):
        peer.request(number, b"/hold")
    assert await peer.reset(9) == ErrorCode.REFUSED_STREAM


async def test_a_window_that_never_opens_keeps_what_was_given_and_no_more(serve: Serve, connect: Connect) -> None:
    site = await serve(max_unsent=100_000)
    site.answer = b"x" * 30_000
    peer = await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, 0),))
    for number in (1, 3, 5):
        peer.request(number)
    await until(lambda: len(site.exchanges) == 3)
    connection = next(iter(site.server._acceptor.connections))
    assert connection.unsent == 90_000
    peer.request(7)
    assert (await peer.goaway())[0] == CALM
    assert connection.unsent == 0


async def test_what_windows_hold_back_counts_against_the_owner(serve: Serve, connect: Connect) -> None:
    """Each connection keeps less than it may, all of them together more."""
    site = await serve(max_owner_backlog=500_000)
    site.answer = b"x" * 200_000
    peers = [await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, 0),)) for _ in range(4)]
    for peer in peers:
        peer.request(1, b"/known")
    await until(lambda: len(site.exchanges) == 4)
    assert site.server.connections == 4
    await until(lambda: site.server.connections == 2)


async def test_who_sends_and_does_not_read_is_cut_off(serve: Serve, connect: Connect) -> None:
    """Its answers fill its socket, then the server's memory up to the limit."""
    site = await serve(max_unsent=200_000, send_timeout=0.5)
    site.answer = b"x" * 60_000
    peer = await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, frames.LARGEST_WINDOW),), limit=1)
    peer.send(frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW))
    number = 1
    held = 0
    while site.server.connections and number < 20_000:
        try:
            peer.request(number)
            await peer.writer.drain()
        except ConnectionError:
            break
        for connection in site.server._acceptor.connections:
            held = max(held, connection.held())
        number += 2
        await asyncio.sleep(0)
    await until(lambda: site.server.connections == 0)
    assert held < 2_000_000


async def test_a_window_beyond_all_bounds_is_an_error(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, b"/hold")
    peer.send(frames.window_update(1, frames.LARGEST_WINDOW))
    assert await peer.reset(1) == ErrorCode.FLOW_CONTROL_ERROR
    peer.send(frames.window_update(0, frames.LARGEST_WINDOW))
    assert (await peer.goaway())[0] == ErrorCode.FLOW_CONTROL_ERROR


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frames.frame(frames.DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.DATA, 0, 9, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.HEADERS, frames.END_HEADERS, 2, b""), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.PUSH_PROMISE, 0, 1, b"\0\0\0\2"), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.CONTINUATION, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.PING, 0, 0, b"short"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.RST_STREAM, 0, 9, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frames.frame_header(1 << 20, frames.DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
        (frames.settings(((frames.INITIAL_WINDOW_SIZE, 1 << 31),)), ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
async def test_a_breach_of_the_protocol_ends_the_connection(serve: Serve, connect: Connect, said: bytes, code: ErrorCode) -> None:
    peer = await connect(await serve())
    peer.send(said)
    assert (await peer.goaway())[0] == code
    await peer.closed()


async def test_what_is_no_http2_is_told_and_closed(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve(), greet=False)
    peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await peer.goaway())[0] == ErrorCode.PROTOCOL_ERROR
    await peer.closed()


async def test_a_client_that_says_nothing_is_closed(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve(connection_timeout=0.2), greet=False)
    await peer.closed()


async def test_a_client_that_stops_within_its_greeting_is_closed(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve(connection_timeout=0.2), greet=False)
    peer.send(frames.PREFACE[:10])
    await peer.closed()


async def test_a_stranger_that_asks_for_nothing_is_closed(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve(connection_timeout=0.3))
    assert (await peer.goaway())[0] == ErrorCode.NO_ERROR
    await peer.closed()


# Pings


async def test_pings_without_a_stream_are_too_many(serve: Serve, connect: Connect) -> None:
    peer = await connect(await serve())
    for _ in range(5):
        peer.send(frames.ping(b"12345678"))
    assert await peer.goaway() == (CALM, b"too_many_pings")


async def test_pings_sooner_than_agreed_upon_are_too_many(serve: Serve, connect: Connect) -> None:
    site = await serve(min_ping_interval=60.0)
    peer = await connect(site)
    peer.request(1, b"/hold")
    await until(lambda: site.exchanges)
    for _ in range(5):
        peer.send(frames.ping(b"12345678"))
    assert await peer.goaway() == (CALM, b"too_many_pings")


async def test_pings_as_often_as_agreed_upon_are_answered(serve: Serve, connect: Connect) -> None:
    site = await serve(min_ping_interval=0.01)
    peer = await connect(site)
    peer.request(1, b"/hold")
    for number in range(6):
        peer.send(frames.ping(b"%08d" % number))
        assert await peer.until_ack(frames.PING) == b"%08d" % number
        await asyncio.sleep(0.02)


async def test_a_ping_after_data_is_no_offence(serve: Serve, connect: Connect) -> None:
    """Clients measure by it how much is on its way."""
    site = await serve(min_ping_interval=60.0)
    peer = await connect(site)
    for number in range(1, 601, 2):
        peer.request(number)
        await peer.answer(number)
        peer.send(frames.ping(b"12345678"))
        await peer.until_ack(frames.PING)


async def test_a_silent_client_is_asked_and_given_up(serve: Serve, connect: Connect) -> None:
    site = await serve(ping_interval=0.2, ping_timeout=0.2)
    peer = await known(site, connect)
    ping = (await peer.until(frames.PING))[3]
    peer.send(frames.ping(ping, ack=True))
    await peer.until(frames.PING)
    await peer.closed()
    assert site.server.connections == 0


# TLS


async def test_who_does_not_choose_http2_by_alpn_is_closed(serve: Serve) -> None:
    authority = Authority("ca")
    certificate, key, _ = authority.issue("server", client=False)
    site = await serve(tls=server_context(certificate, key, authority.pem, alpn="h2"))
    context = client_context(authority)
    try:
        reader, _ = await asyncio.open_connection("localhost", site.server.port, ssl=context)
        heard = await reader.read(9)
    except (ConnectionError, ssl.SSLError):
        heard = b""
    assert heard == b""
    assert site.server.connections == 0


async def test_a_handshake_that_never_ends_is_closed(serve: Serve) -> None:
    authority = Authority("ca")
    certificate, key, _ = authority.issue("server", client=False)
    site = await serve(tls=server_context(certificate, key, authority.pem, alpn="h2"), connection_timeout=0.2)
    reader, writer = await asyncio.open_connection("localhost", site.server.port)
    writer.write(b"\x16\x03\x01")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


# Anything at all


@given(
    st.lists(st.binary(max_size=64) | st.tuples(st.integers(0, 12), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40)))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
def test_whatever_comes_ends_in_frames_or_in_an_orderly_end(said: list[bytes | tuple[int, int, int, bytes]]) -> None:
    """No bytes make anything but frames, resets and one GOAWAY of a connection; nothing else is raised."""

    async def run() -> None:
        site = Site()
        site.server = Http2Server(site.request)
        connection = ServerConnection(site.server, asyncio.get_running_loop())
        written: list[bytes] = []
        transport = Wire(written)
        connection.connection_made(transport)
        for part in [frames.PREFACE, frames.settings(()), *said]:
            data = part if isinstance(part, bytes) else frames.frame(*part)
            site.server.read_buffer[: len(data)] = data
            if not transport.closed:
                connection.buffer_updated(len(data))
        await asyncio.sleep(0)
        connection.connection_lost(None)
        check_frames(b"".join(written))
        assert not connection.streams
        assert connection.unsent == 0

    asyncio.run(run())
