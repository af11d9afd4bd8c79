"""grpcio's client on our server: another implementation reads what we write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from .conftest import COUNT, ECHO, HANG, TOKEN, WAIT, Serve, Site, until

BEARER = (("authorization", f"Bearer {TOKEN}"),)


def credentials(site: Site, *, certificate: bool) -> grpc.ChannelCredentials:
    pem, key, _ = site.client_ca.issue("agent", client=True)
    return grpc.ssl_channel_credentials(site.server_ca.pem, *((key, pem) if certificate else ()))


@pytest.fixture
async def site(serve: Serve) -> Site:
    return await serve()


@pytest.fixture
async def channel(site: Site) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.secure_channel(f"localhost:{site.server.port}", credentials(site, certificate=True)) as made:
        yield made


async def failure(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_a_unary_call_is_answered(channel: grpc.aio.Channel, site: Site) -> None:
    assert await channel.unary_unary(ECHO)(b"hello", timeout=WAIT) == b"hello"
    call, _ = site.calls[0]
    assert call.caller == "certificate"
    assert call.deadline is not None


async def test_an_empty_and_a_large_message_are_answered(channel: grpc.aio.Channel) -> None:
    echo = channel.unary_unary(ECHO)
    assert await echo(b"", timeout=WAIT) == b""
    large = b"x" * (3 * 1024 * 1024)
    assert await echo(large, timeout=WAIT) == large


async def test_many_calls_at_once_on_one_connection(channel: grpc.aio.Channel, site: Site) -> None:
    echo = channel.unary_unary(ECHO)
    messages = [b"%d" % number * 100 for number in range(300)]
    assert await asyncio.gather(*[echo(message, timeout=WAIT) for message in messages]) == messages
    assert site.server.connections == 1


async def test_a_stream_is_read_to_its_end(channel: grpc.aio.Channel) -> None:
    call = channel.unary_stream(COUNT)(b"20000", timeout=WAIT)
    assert dict(await call.initial_metadata())["subscription-id"] == "s-1"
    assert [int(message) async for message in call] == list(range(20000))
    assert await call.code() == grpc.StatusCode.OK


async def test_a_status_and_its_message_arrive(channel: grpc.aio.Channel) -> None:
    code, details = await failure(channel.unary_unary(ECHO)('fail {"ErrStatus": "50 % größer\n"}'.encode(), timeout=WAIT))
    assert (code, details) == (grpc.StatusCode.FAILED_PRECONDITION, '{"ErrStatus": "50 % größer\n"}')


async def test_an_unknown_method_is_unimplemented(channel: grpc.aio.Channel) -> None:
    code, _ = await failure(channel.unary_unary("/test.Service/Other")(b"", timeout=WAIT))
    assert code == grpc.StatusCode.UNIMPLEMENTED


async def test_a_message_over_the_limit_is_resource_exhausted(channel: grpc.aio.Channel, site: Site) -> None:
    code, details = await failure(channel.unary_unary(ECHO)(b"x" * (4 * 1024 * 1024 + 1), timeout=WAIT))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "4194304" in details
    assert not site.calls
    assert await channel.unary_unary(ECHO)(b"the next", timeout=WAIT) == b"the next"


async def test_what_fails_by_a_defect_is_internal_and_says_nothing_of_it(channel: grpc.aio.Channel) -> None:
    code, details = await failure(channel.unary_unary(ECHO)(b"break", timeout=WAIT))
    assert (code, details) == (grpc.StatusCode.INTERNAL, "internal error")


async def test_compressed_calls_are_unimplemented(channel: grpc.aio.Channel, site: Site) -> None:
    call = channel.unary_unary(ECHO)(b"x" * 1000, timeout=WAIT, compression=grpc.Compression.Gzip)
    code, _ = await failure(call)
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert not site.calls


async def test_a_token_serves_as_well_as_a_certificate(site: Site) -> None:
    async with grpc.aio.secure_channel(f"localhost:{site.server.port}", credentials(site, certificate=False)) as channel:
        code, _ = await failure(channel.unary_unary(ECHO)(b"x" * 100_000, timeout=WAIT))
        assert code == grpc.StatusCode.UNAUTHENTICATED
        assert not site.calls
        assert await channel.unary_unary(ECHO)(b"hello", timeout=WAIT, metadata=BEARER) == b"hello"
        assert site.calls[0][0].caller == "token"


async def test_a_cancelled_call_is_cancelled_here(channel: grpc.aio.Channel, site: Site) -> None:
    call = channel.unary_stream(HANG)(b"", timeout=WAIT)
    await call.initial_metadata()
    assert site.hanging == 1
    call.cancel()
    await until(lambda: site.cancelled == 1)


async def test_a_call_whose_deadline_passes_is_cancelled_here(channel: grpc.aio.Channel, site: Site) -> None:
    code, _ = await failure(channel.unary_unary(ECHO)(b"wait", timeout=0.2))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: site.cancelled == 1)


async def test_a_lost_connection_cancels_its_calls(site: Site) -> None:
    channel = grpc.aio.secure_channel(f"localhost:{site.server.port}", credentials(site, certificate=True))
    await channel.unary_stream(HANG)(b"").initial_metadata()
    await channel.close()
    await until(lambda: site.cancelled == 1)
