"""Calls and connections leave nothing behind, not even for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from muster.http.http2.client import ClientConnection
from muster.http.http2.server import ServerConnection
from muster.http.http2.stream import Stream
from muster.transport.rpc import channel, server
from muster.transport.rpc.channel import RpcChannel

from .conftest import COUNT, ECHO, HANG, WAIT, Serve, until
from .test_channel import context

KINDS = (Stream, server._Call, channel._Call)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive(*kinds: type) -> int:
    return sum(isinstance(one, kinds) for one in gc.get_objects())


async def test_calls_leave_nothing_behind(serve: Serve, no_collection: None) -> None:
    site = await serve()
    site.heads = site.calls = _Forgetful()
    site.streams = _Forgetful()
    made = RpcChannel("localhost", site.server.port, tls=context(site))
    before = alive(*KINDS)
    for number in range(50):
        await made.unary(ECHO, b"%d" % number, timeout=WAIT)
        async with made.stream(COUNT, b"10", timeout=WAIT) as answers:
            assert [message async for message in answers]
        async with made.stream(HANG, b"", timeout=WAIT):
            pass
    await until(lambda: not site.server.calls)
    await asyncio.sleep(0)
    assert alive(*KINDS) <= before + 3
    await made.close()


async def test_connections_leave_nothing_behind(serve: Serve, no_collection: None) -> None:
    site = await serve(tls=False)
    site.heads = _Forgetful()
    before = alive(ServerConnection, ClientConnection, *KINDS)
    for _ in range(50):
        made = RpcChannel("127.0.0.1", site.server.port, tls=None)
        with pytest.raises(Exception, match="UNAUTHENTICATED"):
            await made.unary(ECHO, b"", timeout=WAIT)
        await made.close()
    await until(lambda: site.server.connections == 0)
    gc.collect()  # errors hold their frames
    assert alive(ServerConnection, ClientConnection, *KINDS) <= before + 3


class _Forgetful(list):
    def append(self, one: object) -> None: ...
