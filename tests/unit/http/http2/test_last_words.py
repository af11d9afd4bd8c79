"""A server that hangs up after its last word is heard to the end: the client never pauses a connection, whose streams have windows.

uvloop throws away what TLS has read ahead for a reader who has paused, when the end comes (`lose_nothing_unread`)."""

from __future__ import annotations

import asyncio
import random
import ssl
from functools import cache

import pytest

from muster.http.http2 import frames
from muster.http.http2.client import STREAM_WINDOW, connect
from muster.http.http2.fields import Fields, encode
from muster.http.http2.frames import ErrorCode
from muster.http.tls import HTTP_2
from tests.support.recording_cluster import RecordingCluster, Talk

REQUEST = encode([(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"x"), (b":path", b"/")])
HEAD = encode(((b":status", b"200"),))
STREAMS = 3


class Taking:
    """The handler of a stream that takes what comes, and gives none of it back: nobody reads it."""

    def __init__(self) -> None:
        self.received = b""
        self.over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        """0 at a stream's own end, else why it was lost."""

    def head_received(self, fields: Fields) -> None: ...

    def data_received(self, data: bytes) -> None:
        self.received += data

    def ended(self, trailers: Fields) -> None:
        self.over.set_result(0)

    def lost(self, code: int | None) -> None:
        self.over.set_result(code)


@cache
def words(stream: int, size: int) -> bytes:
    return random.Random(stream).randbytes(size)


def answers(size: int, *, ended: bool) -> bytes:
    """To the first streams, in turns, frame by frame."""
    numbers = range(1, 2 * STREAMS, 2)
    said = [frames.headers(number, HEAD, end=False) for number in numbers]
    for start in range(0, size, frames.FRAME_LIMIT):
        for number in numbers:
            piece = words(number, size)[start : start + frames.FRAME_LIMIT]
            last = ended and start + len(piece) == size
            said.append(frames.frame(frames.DATA, frames.END_STREAM if last else 0, number, piece))
    return b"".join([*said, frames.goaway(2 * STREAMS - 1, ErrorCode.NO_ERROR)])


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("size", [1_000, 300_000, STREAM_WINDOW])
async def test_a_server_that_hangs_up_after_its_last_word_is_heard_to_the_end(size: int, ended: bool) -> None:
    def say(talk: Talk, head: bytes) -> None:
        talk.say(frames.settings(()))
        while talk.data.count(REQUEST) < STREAMS and talk.read():
            pass
        talk.say(answers(size, ended=ended))
        talk.hang_up()

    with RecordingCluster(say, protocol=HTTP_2) as server:
        trust = ssl.create_default_context(cadata=server.ca.decode())
        trust.set_alpn_protocols([HTTP_2])
        connection = await connect(("127.0.0.1", server.port, trust, "localhost"), timeout=10)
        handlers = [Taking() for _ in range(STREAMS)]
        for handler in handlers:
            await connection.open(REQUEST, handler)
        async with asyncio.timeout(20):
            ends = [await handler.over for handler in handlers]
    assert ends == [0 if ended else None] * STREAMS
    for number, handler in enumerate(handlers):
        assert handler.received == words(2 * number + 1, size)
