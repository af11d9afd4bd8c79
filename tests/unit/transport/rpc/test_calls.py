"""What the server does with calls that another client would not send, and who is charged for what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.http.http2 import frames
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.server import ServerConnection
from muster.transport.rpc.messages import prefixed
from muster.transport.rpc.server import RpcServer
from muster.transport.rpc.status import Code
from tests.unit.http.http2.conftest import Peer, Wire, check_frames

from .conftest import ECHO, HANG, TOKEN, Serve, Site, until

GRPC = (b"content-type", b"application/grpc")
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())
Connect = Callable[[Site], Awaitable[Peer]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    peers: list[Peer] = []

    async def open_peer(site: Site) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", site.server.port))
        peers.append(peer)
        peer.send(frames.PREFACE, frames.settings(()), frames.SETTINGS_ACK)
        return peer

    yield open_peer
    for peer in peers:
        peer.close()


def call(peer: Peer, stream: int, *data: bytes, end: bool = True, method: str = ECHO, fields: Fields | None = None) -> None:
    peer.request(stream, method.encode(), end=end and not data, fields=[GRPC, BEARER] if fields is None else fields)
    for number, piece in enumerate(data):
        peer.send(frames.frame(frames.DATA, int(end and number == len(data) - 1), stream, piece))


async def status(peer: Peer, stream: int) -> tuple[Code, dict[bytes, bytes]]:
    head, _, trailers = await peer.answer(stream)
    return Code(int(trailers[b"grpc-status"])), head


@pytest.fixture
async def site(serve: Serve) -> Site:
    return await serve(tls=False)


@pytest.fixture
async def peer(site: Site, connect: Connect) -> Peer:
    return await connect(site)


async def test_an_answer_has_head_message_and_trailers(peer: Peer) -> None:
    call(peer, 1, prefixed(b"hello"))
    head, data, trailers = await peer.answer(1)
    assert head == {b":status": b"200", b"content-type": b"application/grpc"}
    assert data == prefixed(b"hello")
    assert trailers == {b"grpc-status": b"0"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ((), Code.INTERNAL),
        ((prefixed(b"one"), prefixed(b"two")), Code.INTERNAL),
        ((prefixed(b"cut")[:6],), Code.INTERNAL),
        ((b"\1\0\0\0\1x",), Code.INTERNAL),
        ((b"\0\xff\xff\xff\xff",), Code.RESOURCE_EXHAUSTED),
    ],
    ids=["none", "two", "cut", "compressed", "too large"],
)
async def test_anything_but_one_message_is_refused(peer: Peer, site: Site, data: tuple[bytes, ...], code: Code) -> None:
    call(peer, 1, *data)
    assert (await status(peer, 1))[0] is code
    assert not site.calls


@pytest.mark.parametrize(
    ("fields", "http", "code"),
    [
        ([BEARER], b"415", Code.INVALID_ARGUMENT),
        ([BEARER, (b"content-type", b"text/html")], b"415", Code.INVALID_ARGUMENT),
        ([BEARER, GRPC, (b"grpc-encoding", b"gzip")], b"200", Code.UNIMPLEMENTED),
        ([BEARER, GRPC, (b"grpc-timeout", b"soon")], b"200", Code.INTERNAL),
    ],
)
async def test_heads_that_are_no_calls_are_refused(peer: Peer, site: Site, fields: Fields, http: bytes, code: Code) -> None:
    call(peer, 1, prefixed(b"x"), fields=fields)
    found, head = await status(peer, 1)
    assert (found, head[b":status"]) == (code, http)
    assert not site.heads


async def test_an_unknown_method_is_refused_before_anybody_is_asked_who_it_is(peer: Peer, site: Site) -> None:
    call(peer, 1, prefixed(b"x"), method="/test.Service/None")
    assert (await status(peer, 1))[0] is Code.UNIMPLEMENTED
    assert not site.heads
    assert not site.observed


async def test_what_is_no_post_is_refused(peer: Peer, site: Site) -> None:
    get = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", ECHO.encode()), GRPC, BEARER]
    peer.send(frames.headers(1, peer.encoder.encode(get), end=True))
    assert (await status(peer, 1))[1][b":status"] == b"405"
    peer.send(frames.headers(3, peer.encoder.encode([(b":method", b"CONNECT"), (b":authority", b"x:1")]), end=True))
    assert (await status(peer, 3))[1][b":status"] == b"405"
    assert not site.heads


_names = st.sampled_from(
    [b"grpc-timeout", b"grpc-encoding", b"content-type", b"authorization", b"te", b"content-length", b"x-bin", b"host"]
)
_values = st.sampled_from([b"", b"1S", b"gzip", b"application/grpc", b"trailers", b"3", BEARER[1]]) | st.binary(max_size=20)
_calls = st.tuples(
    st.lists(st.tuples(_names, _values), max_size=5), st.binary(max_size=40) | st.binary().map(prefixed), st.booleans()
)


@given(st.lists(_calls, max_size=8))
@settings(deadline=None)
def test_any_call_is_answered_or_ended(calls: list[tuple[Fields, bytes, bool]]) -> None:
    """Whatever its head and data: nothing is raised but what gRPC has codes for, and nothing is left running."""
    failures: list[dict[str, Any]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        site = Site(None, None)  # type: ignore[arg-type]
        server = RpcServer(site.methods, site.authenticate)
        connection = ServerConnection(server._http, loop)
        wire = Wire([])
        connection.connection_made(wire)
        encoder = Encoder()
        said = frames.PREFACE + frames.settings(())
        for number, (fields, data, end) in enumerate(calls):
            head = [(b":method", b"POST"), (b":scheme", b"https"), (b":path", ECHO.encode()), *fields]
            said += frames.headers(2 * number + 1, encoder.encode(head), end=False)
            said += frames.frame(frames.DATA, int(end), 2 * number + 1, data)
        server._http.read_buffer[: len(said)] = said
        loop.call_soon(connection.buffer_updated, len(said))
        for _ in range(5):
            await asyncio.sleep(0)
        loop.call_soon(connection.connection_lost, None)
        for _ in range(5):
            await asyncio.sleep(0)
        check_frames(b"".join(wire.written))
        assert not connection.streams
        assert not server.calls

    asyncio.run(run())
    assert not failures


# Strangers


async def test_a_strangers_message_is_not_waited_for(peer: Peer, site: Site) -> None:
    call(peer, 1, end=False, fields=[GRPC])
    assert (await status(peer, 1))[0] is Code.UNAUTHENTICATED
    assert await peer.reset(1) == 0
    peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 10_000))  # on its way already
    call(peer, 3, prefixed(b"x"))
    assert (await status(peer, 3))[0] is Code.OK
    assert ("handled", ECHO, "UNAUTHENTICATED") in site.observed


async def test_a_strangers_window_stays_closed_until_it_is_known(peer: Peer, site: Site) -> None:
    site.knowing.clear()
    message = b"x" * 200_000
    call(peer, 1, prefixed(message)[:16_000], end=False)
    await site.asked.wait()
    assert site.server._http._acceptor.connections
    (connection,) = site.server._http._acceptor.connections
    assert connection._allowance == frames.DEFAULT_WINDOW - 16_000
    site.knowing.set()
    *_, increment = await peer.until(frames.WINDOW_UPDATE, 1)
    assert 16_000 + int.from_bytes(increment, "big") <= len(message)
    assert connection.info.owner is not None


async def test_a_stranger_cannot_ask_again_and_again(peer: Peer, site: Site) -> None:
    for number in range(1, 1001, 2):
        call(peer, number, prefixed(b"x"), fields=[GRPC])
    code, _ = await peer.goaway()
    assert code == ErrorCode.ENHANCE_YOUR_CALM
    assert len(site.heads) < 200


async def test_strangers_share_a_budget_for_what_they_send_unasked(serve: Serve, connect: Connect) -> None:
    site = await serve({"strangers": 0.5}, tls=False, max_bodies=1 << 20, max_receive=1 << 16)
    site.knowing.clear()
    peers = [await connect(site) for _ in range(12)]
    for peer in peers:
        call(peer, 1, *[b"x" * 16_000] * 3, end=False)
    refused = [asyncio.create_task(status(peer, 1)) for peer in peers]
    done, _ = await asyncio.wait(refused, return_when=asyncio.FIRST_COMPLETED, timeout=10)
    assert done
    assert all(task.result()[0] is Code.RESOURCE_EXHAUSTED for task in done)
    for task in refused:
        task.cancel()


async def test_large_messages_wait_for_room(serve: Serve, connect: Connect) -> None:
    """Half a message holds all the room there is; another waits, and gets it when the first is gone."""
    site = await serve(tls=False, max_bodies=100_000, max_receive=100_000)
    first, second = await connect(site), await connect(site)
    call(first, 1, prefixed(b"x" * 90_000)[:16_000], end=False)
    await first.until(frames.WINDOW_UPDATE, 1)
    data = prefixed(b"y" * 60_000)
    call(second, 1, *[data[start : start + 16_000] for start in range(0, len(data), 16_000)])
    first.send(frames.reset(1, 8))
    assert (await status(second, 1))[0] is Code.OK


async def test_a_message_that_does_not_come_ends_its_call(serve: Serve, connect: Connect) -> None:
    site = await serve(tls=False, message_timeout=0.1)
    peer = await connect(site)
    call(peer, 1, prefixed(b"abc")[:6], end=False)
    assert (await status(peer, 1))[0] is Code.CANCELLED
    assert not site.calls


# Deadlines and cancellation


async def test_a_call_whose_client_is_gone_is_not_begun(peer: Peer, site: Site) -> None:
    site.knowing.clear()
    call(peer, 1, prefixed(b"x"))
    await site.asked.wait()
    peer.send(frames.reset(1, 8))
    await until(lambda: not site.server.calls)
    site.knowing.set()
    call(peer, 3, prefixed(b"y"))
    await status(peer, 3)
    assert [message for _, message in site.calls] == [b"y"]


async def test_a_call_whose_deadline_passed_is_not_begun(peer: Peer, site: Site) -> None:
    site.knowing.clear()
    call(peer, 1, prefixed(b"x"), fields=[GRPC, BEARER, (b"grpc-timeout", b"50m")])
    assert (await status(peer, 1))[0] is Code.DEADLINE_EXCEEDED
    site.knowing.set()
    await until(lambda: not site.server.calls)
    assert not site.calls


async def test_a_deadline_of_nothing_has_passed(peer: Peer, site: Site) -> None:
    call(peer, 1, prefixed(b"x"), fields=[GRPC, BEARER, (b"grpc-timeout", b"0n")])
    assert (await status(peer, 1))[0] is Code.DEADLINE_EXCEEDED
    assert not site.heads


async def test_calls_are_observed(peer: Peer, site: Site) -> None:
    call(peer, 1, prefixed(b"hello"))
    await status(peer, 1)
    assert site.observed == [("started", ECHO), ("received", ECHO, "5"), ("sent", ECHO, "5"), ("handled", ECHO, "OK")]
    call(peer, 3, prefixed(b""), method=HANG)
    await peer.until(frames.HEADERS, 3)
    peer.send(frames.reset(3, 8))
    await until(lambda: ("handled", HANG, "CANCELLED") in site.observed)
    assert sum(kind == "handled" for kind, *_ in site.observed) == 2


async def test_a_reader_that_never_opens_its_window_keeps_the_rest_unsent(serve: Serve) -> None:
    site = await serve(tls=False)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", site.server.port))
    peer.send(frames.PREFACE, frames.settings(((frames.INITIAL_WINDOW_SIZE, 100),)))
    call(peer, 1, prefixed(b""), method=HANG)
    await until(lambda: site.streams)
    stream: Any = site.streams[0]
    for _ in range(10):
        stream.send(b"x" * 95)
    assert stream.unsent == 900
    waiting = asyncio.create_task(stream.writable())
    peer.send(frames.window_update(1, 899))
    await until(lambda: stream.unsent == 1)
    assert not waiting.done()
    peer.send(frames.window_update(1, 1))
    await asyncio.wait_for(waiting, 10)
    peer.close()


async def test_whoever_waits_for_a_reader_that_left_is_told(serve: Serve) -> None:
    site = await serve(tls=False)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", site.server.port))
    peer.send(frames.PREFACE, frames.settings(((frames.INITIAL_WINDOW_SIZE, 0),)))
    call(peer, 1, prefixed(b""), method=HANG)
    await until(lambda: site.streams)
    site.streams[0].send(b"x")
    waiting = asyncio.create_task(site.streams[0].writable())
    await asyncio.sleep(0)
    peer.close()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(waiting, 10)
