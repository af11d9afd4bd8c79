"""Servers that go, refuse, break the protocol or are none: what a caller hears, and which calls are sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from muster.http.http2 import frames
from muster.http.http2.fields import encode
from muster.http.http2.frames import ErrorCode
from muster.transport.rpc import headers
from muster.transport.rpc.channel import MOST_ATTEMPTS, RpcChannel
from muster.transport.rpc.interfaces import Channel
from muster.transport.rpc.messages import prefixed
from muster.transport.rpc.status import Code, RpcError

from .conftest import COUNT, ECHO, WAIT

Script = Callable[[int, int], bytes]
"""What is said to a request, by the number of the connection and of the stream."""

GOOD = encode(((b":status", b"200"), (b"content-type", b"application/grpc")))


def answer(stream: int, message: bytes = b"yes") -> bytes:
    return (
        frames.headers(stream, GOOD, end=False)
        + frames.frame(frames.DATA, 0, stream, prefixed(message))
        + frames.headers(stream, headers.OK_TRAILERS, end=True)
    )


class Scripted:
    """Says its part whenever a request has come in full."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[tuple[int, int]] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            await reader.readexactly(len(frames.PREFACE))
            writer.write(frames.settings(()))
            while True:
                high, low, kind, flags, stream = frames.unpack_header(await reader.readexactly(frames.HEADER_SIZE))
                await reader.readexactly(high << 16 | low)
                if kind == frames.DATA and flags & frames.END_STREAM:
                    self.requests.append((connection, stream))
                    writer.write(self._script(connection, stream))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


Say = Callable[[Script], Awaitable[tuple[Scripted, RpcChannel]]]


@pytest.fixture
async def say() -> AsyncIterator[Say]:
    servers: list[asyncio.Server] = []
    channels: list[RpcChannel] = []

    async def start(script: Script) -> tuple[Scripted, RpcChannel]:
        scripted = Scripted(script)
        servers.append(await asyncio.start_server(scripted.serve, "127.0.0.1", 0))
        channels.append(RpcChannel("127.0.0.1", servers[-1].sockets[0].getsockname()[1], tls=None))
        return scripted, channels[-1]

    yield start
    for channel in channels:
        await channel.close()
    for server in servers:
        server.close()


async def outcome(channel: Channel) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await channel.unary(ECHO, b"x", timeout=WAIT)
    return caught.value


async def test_a_call_that_a_going_server_has_not_begun_with_is_sent_to_another(say: Say) -> None:
    server, channel = await say(lambda connection, stream: frames.goaway(0, 0) if connection == 1 else answer(stream))
    assert await channel.unary(ECHO, b"x", timeout=WAIT) == b"yes"
    assert server.requests == [(1, 1), (2, 1)]


async def test_a_call_that_a_going_server_has_begun_with_ends_there(say: Say) -> None:
    server, channel = await say(lambda connection, stream: frames.goaway(1, 0) + answer(stream))
    assert await channel.unary(ECHO, b"x", timeout=WAIT) == b"yes"
    assert await channel.unary(ECHO, b"x", timeout=WAIT) == b"yes"
    assert server.requests == [(1, 1), (2, 1)]


async def test_a_refused_call_is_sent_again_a_few_times(say: Say) -> None:
    server, channel = await say(lambda connection, stream: frames.reset(stream, ErrorCode.REFUSED_STREAM))
    assert (await outcome(channel)).code is Code.UNAVAILABLE
    assert len(server.requests) == MOST_ATTEMPTS


async def test_a_refused_stream_is_sent_again(say: Say) -> None:
    def script(connection: int, stream: int) -> bytes:
        return frames.reset(stream, ErrorCode.REFUSED_STREAM) if stream == 1 else answer(stream)

    _, channel = await say(script)
    async with channel.stream(COUNT, b"", timeout=WAIT) as answers:
        assert [message async for message in answers] == [b"yes"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (lambda stream: frames.reset(stream, ErrorCode.CANCEL), Code.CANCELLED),
        (lambda stream: frames.reset(stream, ErrorCode.ENHANCE_YOUR_CALM), Code.RESOURCE_EXHAUSTED),
        (lambda stream: frames.reset(stream, 99), Code.INTERNAL),
        (lambda stream: frames.frame(frames.PUSH_PROMISE, 0, stream, bytes(4)), Code.UNAVAILABLE),
        (lambda stream: frames.headers(stream + 2, GOOD, end=False), Code.UNAVAILABLE),
        (lambda stream: frames.goaway(stream, ErrorCode.ENHANCE_YOUR_CALM, b"too_many_pings") + b"garbage" * 9, Code.UNAVAILABLE),
        (lambda stream: frames.headers(stream, GOOD, end=True), Code.INTERNAL),
        (lambda stream: frames.headers(stream, encode(((b":status", b"502"),)), end=True), Code.UNAVAILABLE),
        (lambda stream: frames.headers(stream, encode(((b":status", b"404"),)), end=True), Code.UNIMPLEMENTED),
        (lambda stream: frames.headers(stream, encode(((b"no-status", b"1"),)), end=True), Code.INTERNAL),
        (lambda stream: answer(stream).replace(prefixed(b"yes"), b"\1\0\0\0\3yes"), Code.INTERNAL),
        (lambda stream: answer(stream).replace(prefixed(b"yes"), b"\0\xff\0\0\0yes"), Code.RESOURCE_EXHAUSTED),
        (lambda stream: answer(stream).replace(prefixed(b"yes"), b"\0\0\0\0\x09yes"), Code.INTERNAL),
        (
            lambda stream: frames.headers(stream, GOOD, end=False) + frames.headers(stream, headers.OK_TRAILERS, end=True),
            Code.INTERNAL,
        ),
    ],
)
async def test_what_goes_wrong_has_a_code(say: Say, said: Callable[[int], bytes], code: Code) -> None:
    _, channel = await say(lambda connection, stream: said(stream))
    assert (await outcome(channel)).code is code


async def test_several_messages_are_not_one_answer(say: Say) -> None:
    twice = prefixed(b"1") + prefixed(b"2")
    _, channel = await say(lambda connection, stream: frames.headers(stream, GOOD, end=False) + frames.frame(0, 0, stream, twice))
    assert (await outcome(channel)).code is Code.INTERNAL


async def test_an_interim_answer_is_passed_over(say: Say) -> None:
    early = encode(((b":status", b"103"),))
    _, channel = await say(lambda connection, stream: frames.headers(stream, early, end=False) + answer(stream))
    assert await channel.unary(ECHO, b"x", timeout=WAIT) == b"yes"


async def test_the_words_of_a_servers_farewell_are_told(say: Say) -> None:
    _, channel = await say(lambda connection, stream: frames.goaway(stream, 11, b"too_many_pings") + bytes(9))
    assert "too_many_pings" in (await outcome(channel)).message
