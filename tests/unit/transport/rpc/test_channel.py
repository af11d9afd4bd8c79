"""Our client on our server, and on grpcio's: calls, how they end, and what becomes of connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from muster.http.http2.client import KeepAlive
from muster.http.tls import client_context, load_chain
from muster.http.tunnel import Proxy as Tunnel
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import Code, RpcError
from tests.support.proxy import Proxy
from tests.unit.http.pki import Authority

from .conftest import COUNT, ECHO, HANG, TOKEN, WAIT, Serve, Site, until

TALK = "/test.Service/Talk"


def context(site: Site, *, certificate: bool = True, authority: Authority | None = None) -> ssl.SSLContext:
    made = client_context((authority or site.server_ca).pem, alpn="h2")
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    if certificate:
        pem, key, _ = site.client_ca.issue("agent", client=True)
        load_chain(made, pem, key)
    return made


Open = Callable[..., RpcChannel]


@pytest.fixture
async def open_channel() -> AsyncIterator[Open]:
    channels: list[RpcChannel] = []

    def open_channel(site: Site, *, certificate: bool = True, **options: Any) -> RpcChannel:
        options.setdefault("tls", context(site, certificate=certificate))
        channels.append(RpcChannel(options.pop("host", "localhost"), options.pop("port", site.server.port), **options))
        return channels[-1]

    yield open_channel
    for channel in channels:
        await channel.close()
        assert channel.connections == 0


async def ended(call: Awaitable[Any]) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await call
    return caught.value


async def token() -> str:
    return TOKEN


async def test_a_unary_call_is_answered(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    assert await channel.unary(ECHO, b"hello", timeout=WAIT) == b"hello"
    assert await channel.unary(ECHO, b"", timeout=WAIT) == b""
    large = bytes(range(256)) * 12_000
    assert await channel.unary(ECHO, large, timeout=WAIT) == large
    assert channel.connections == site.server.connections == 1


async def test_calls_at_once_share_one_connection(serve: Serve, open_channel: Open) -> None:
    site = await serve({"max_streams": 7})
    channel = open_channel(site)
    messages = [b"%d" % number for number in range(200)]
    assert await asyncio.gather(*[channel.unary(ECHO, message, timeout=WAIT) for message in messages]) == messages
    assert site.server.connections == 1


async def test_nothing_is_connected_before_the_first_call(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    await asyncio.sleep(0)
    assert channel.connections == site.server.connections == 0


async def test_a_stream_gives_its_metadata_then_its_messages(serve: Serve, open_channel: Open) -> None:
    channel = open_channel(await serve())
    async with channel.stream(COUNT, b"30000", timeout=WAIT) as answers:
        assert answers.metadata["subscription-id"] == "s-1"
        assert [int(message) async for message in answers] == list(range(30000))


async def test_a_stream_that_is_left_is_cancelled_there(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    async with open_channel(site).stream(HANG, b"", timeout=WAIT):
        assert site.hanging == 1
    await until(lambda: site.cancelled == 1)


async def test_a_stream_that_is_refused_is_not_entered(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site, certificate=False)

    async def enter() -> None:
        async with channel.stream(COUNT, b"1", timeout=WAIT):
            pytest.fail("it was entered")

    assert (await ended(enter())).code is Code.UNAUTHENTICATED


@pytest.mark.parametrize("size", [0, 100_000])
async def test_a_stranger_is_refused_whatever_it_sends(serve: Serve, open_channel: Open, size: int) -> None:
    site = await serve()
    channel = open_channel(site, certificate=False)
    error = await ended(channel.unary(ECHO, b"x" * size, timeout=WAIT))
    assert error.code is Code.UNAUTHENTICATED
    assert not site.calls


async def test_a_token_is_sent_with_each_call(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site, certificate=False, token=token)
    assert await channel.unary(ECHO, b"hello", timeout=WAIT) == b"hello"
    assert site.calls[0][0].caller == "token"


def test_a_token_without_tls_is_refused() -> None:
    with pytest.raises(ValueError, match="over TLS only"):
        RpcChannel("localhost", 1, tls=None, token=token)


async def test_a_token_that_would_be_another_header_is_refused(serve: Serve, open_channel: Open) -> None:
    async def forged() -> str:
        return "x\r\nforged: 1"

    error = await ended(open_channel(await serve(), token=forged).unary(ECHO, b"", timeout=WAIT))
    assert error.code is Code.UNAUTHENTICATED
    assert "forged" not in str(error)


async def test_a_failed_call_has_its_code_and_message(serve: Serve, open_channel: Open) -> None:
    error = await ended(open_channel(await serve()).unary(ECHO, "fail 100 % schön".encode(), timeout=WAIT))
    assert (error.code, error.message) == (Code.FAILED_PRECONDITION, "100 % schön")


async def test_a_deadline_ends_the_call_on_both_sides(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    error = await ended(open_channel(site).unary(ECHO, b"wait", timeout=0.1))
    assert error.code is Code.DEADLINE_EXCEEDED
    await until(lambda: site.cancelled == 1)


async def test_a_cancelled_call_is_cancelled_there(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    call = asyncio.create_task(open_channel(site).unary(ECHO, b"wait", timeout=WAIT))
    await until(lambda: site.hanging == 1)
    call.cancel()
    await until(lambda: site.cancelled == 1)


async def test_nobody_at_the_address_is_unavailable(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    error = await ended(open_channel(site, port=1).unary(ECHO, b"", timeout=WAIT))
    assert error.code is Code.UNAVAILABLE
    assert "refused" in error.message


async def test_a_server_of_another_authority_is_unavailable(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site, tls=context(site, authority=site.client_ca))
    error = await ended(channel.unary(ECHO, b"", timeout=WAIT))
    assert error.code is Code.UNAVAILABLE
    assert "TLS" in error.message


async def test_a_certificate_of_another_authority_is_unavailable(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    tls = context(site, certificate=False)
    pem, key, _ = Authority("foreign").issue("agent", client=True)
    load_chain(tls, pem, key)
    error = await ended(open_channel(site, tls=tls).unary(ECHO, b"", timeout=WAIT))
    assert error.code is Code.UNAVAILABLE


async def test_a_lost_connection_ends_calls_and_the_next_one_connects_again(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    async with channel.stream(HANG, b"", timeout=WAIT) as answers:
        for connection in list(site.server._http._acceptor.connections):
            connection.abort()
        assert (await ended(anext(aiter(answers)))).code is Code.UNAVAILABLE
    assert await channel.unary(ECHO, b"again", timeout=WAIT) == b"again"


async def test_a_draining_server_lets_calls_end_and_new_ones_go_elsewhere(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    async with channel.stream(HANG, b"", timeout=WAIT) as answers:
        stopping = asyncio.create_task(site.server.stop(WAIT))
        await until(lambda: channel._connection is not None and not channel._connection.usable)
        site.streams[0].send(b"still here")
        assert await anext(aiter(answers)) == b"still here"
        assert (await ended(channel.unary(ECHO, b"", timeout=WAIT))).code is Code.UNAVAILABLE  # nobody listens any more
        assert not stopping.done()
    await asyncio.wait_for(stopping, WAIT)


async def test_calls_that_outlast_the_grace_are_unavailable(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    async with open_channel(site).stream(HANG, b"", timeout=WAIT) as answers:
        await site.server.stop(0.05)
        error = await ended(anext(aiter(answers)))
        assert (error.code, error.message) == (Code.UNAVAILABLE, "the server is shutting down")


async def test_another_certificate_takes_another_connection_and_old_calls_go_on(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    async with channel.stream(HANG, b"", timeout=WAIT) as answers:
        before = site.calls[-1][0].connection.peer_certificate
        channel.replace_tls(context(site))
        assert await channel.unary(ECHO, b"new", timeout=WAIT) == b"new"
        assert site.calls[-1][0].connection.peer_certificate not in (before, None)
        assert channel.connections == 2
        site.streams[0].send(b"old")
        assert await anext(aiter(answers)) == b"old"
    await until(lambda: channel.connections == 1)


async def test_a_certificate_replaced_while_dialing_counts(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site, certificate=False)
    call = asyncio.create_task(channel.unary(ECHO, b"x", timeout=WAIT))
    while channel._dialing is None:  # noqa: ASYNC110  # it is to be caught in the act
        await asyncio.sleep(0)
    channel.replace_tls(context(site))
    assert await call == b"x"
    await until(lambda: channel.connections == 1)


async def test_the_servers_certificate_and_client_authorities_are_replaced_while_serving(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    first = open_channel(site)
    assert await first.unary(ECHO, b"1", timeout=WAIT) == b"1"
    old_ca, site.client_ca = site.client_ca, Authority("another-client-ca")
    site.server.replace_tls(site.tls())
    assert await open_channel(site).unary(ECHO, b"2", timeout=WAIT) == b"2"
    site.client_ca = old_ca
    assert (await ended(open_channel(site).unary(ECHO, b"3", timeout=WAIT))).code is Code.UNAVAILABLE
    assert await first.unary(ECHO, b"4", timeout=WAIT) == b"4"


async def test_a_silent_server_is_given_up_by_keepalive(serve: Serve, open_channel: Open) -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speaks HTTP/2 once and never again."""
        writer.write(b"\0\0\0\4\0\0\0\0\0")
        await reader.read(1 << 20)
        await asyncio.Event().wait()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    channel = RpcChannel("127.0.0.1", server.sockets[0].getsockname()[1], tls=None, keepalive=KeepAlive(time=0.1, timeout=0.1))
    error = await ended(channel.unary(ECHO, b"", timeout=WAIT))
    assert error.code is Code.UNAVAILABLE
    await channel.close()
    server.close()


async def test_a_slow_reader_keeps_a_bounded_part_here(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    async with open_channel(site).stream(HANG, b"", timeout=WAIT) as answers:
        stream = site.streams[0]
        for _ in range(80):
            stream.send(b"x" * 65536)
        await until(lambda: stream.unsent <= 80 * 65541 - (1 << 20) + 65541)
        kept = stream.unsent
        assert kept > 3 * 1024 * 1024
        for _ in range(80):
            assert len(await anext(aiter(answers))) == 65536
        assert stream.unsent == 0


async def test_a_message_larger_than_the_window_arrives(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    async with open_channel(site).stream(HANG, b"", timeout=WAIT) as answers:
        site.streams[0].send(b"y" * (4 * 1024 * 1024))
        site.streams[0].send(b"small")
        assert len(await anext(aiter(answers))) == 4 * 1024 * 1024
        assert await anext(aiter(answers)) == b"small"


async def test_a_message_over_the_clients_limit_ends_its_call_alone(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site, max_receive=1000)
    async with channel.stream(HANG, b"", timeout=WAIT) as answers:
        site.streams[0].send(b"y" * 1001)
        assert (await ended(anext(aiter(answers)))).code is Code.RESOURCE_EXHAUSTED
    assert await channel.unary(ECHO, b"z", timeout=WAIT) == b"z"


async def test_a_closed_channel_takes_no_calls(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    channel = open_channel(site)
    waiting = asyncio.create_task(channel.unary(ECHO, b"wait", timeout=WAIT))
    await until(lambda: site.hanging == 1)
    await channel.close()
    assert (await ended(waiting)).code is Code.UNAVAILABLE
    assert (await ended(channel.unary(ECHO, b"", timeout=WAIT))).code is Code.CANCELLED


async def test_a_proxy_leads_to_the_server(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    with Proxy({"hub.example:8090": f"127.0.0.1:{site.server.port}"}) as proxy:
        channel = open_channel(site, host="hub.example", port=8090, server_name="localhost", proxy=Tunnel(proxy.url))
        assert await channel.unary(ECHO, b"hello", timeout=WAIT) == b"hello"
        assert site.calls[0][0].caller == "certificate"
        assert proxy.asked == ["hub.example:8090"]


async def test_a_proxy_that_refuses_is_unavailable_and_named(serve: Serve, open_channel: Open) -> None:
    site = await serve()
    with Proxy() as proxy:
        channel = open_channel(site, host="127.0.0.1", port=1, proxy=Tunnel(proxy.url))
        error = await ended(channel.unary(ECHO, b"", timeout=WAIT))
        assert error.code is Code.UNAVAILABLE
        assert str(proxy.port) in error.message


def test_a_proxy_without_tls_is_refused() -> None:
    with pytest.raises(ValueError, match="TLS only"):
        RpcChannel("localhost", 1, tls=None, proxy=Tunnel("http://proxy.example"))


# grpcio's server


@pytest.fixture
async def other_server(server_ca: Authority, client_ca: Authority) -> AsyncIterator[int]:
    async def echo(request: bytes, context: Any) -> bytes:
        if request == b"fail":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "50 % größer")
        return request

    async def count(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata((("subscription-id", "other"),))
        for number in range(int(request)):
            yield b"%d" % number

    async def talk(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            if request == b"fail":
                await context.abort(grpc.StatusCode.ABORTED, "as asked")
            if request.startswith(b"many "):
                for _ in range(int(request[5:])):
                    yield bytes(65536)
            else:
                yield request + b" 0"

    certificate, key, _ = server_ca.issue("server", client=False)
    server = grpc.aio.server()
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Talk": grpc.stream_stream_rpc_method_handler(talk),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_secure_port(
        "localhost:0", grpc.ssl_server_credentials([(key, certificate)], client_ca.pem, require_client_auth=True)
    )
    await server.start()
    yield port
    await server.stop(None)


async def test_messages_both_ways(serve: Serve, open_channel: Open, other_server: int) -> None:
    channel = open_channel(await serve(), port=other_server)
    async with channel.bidirectional(TALK, b"one", timeout=WAIT) as call:
        assert await anext(call) == b"one 0"
        large = b"x" * 3_000_000
        call.send(large)
        assert call.unsent > 0
        await call.writable()
        assert await anext(call) == large + b" 0"
        call.send(b"last")
        call.finish()
        assert [message async for message in call] == [b"last 0"]
    async with channel.bidirectional(TALK, b"one", timeout=WAIT) as call:
        call.send(b"fail")
        assert (await ended(_all(call))).message == "as asked"
    assert channel.connections == 1


async def test_a_call_that_nobody_reads_holds_up_no_other(serve: Serve, open_channel: Open, other_server: int) -> None:
    channel = open_channel(await serve(), port=other_server)
    async with channel.bidirectional(TALK, b"many 200", timeout=WAIT) as stalled:
        await until(lambda: stalled.is_full)
        async with channel.bidirectional(TALK, b"many 50", timeout=WAIT) as other:
            other.finish()
            assert len(await _all(other)) == 50
        assert stalled.is_full
        await anext(stalled)


async def _all(call: AsyncIterator[bytes]) -> list[bytes]:
    return [message async for message in call]


async def test_calls_to_another_implementation(serve: Serve, open_channel: Open, other_server: int) -> None:
    channel = open_channel(await serve(), port=other_server)
    large = b"x" * 3_000_000
    assert await channel.unary(ECHO, large, timeout=WAIT) == large
    error = await ended(channel.unary(ECHO, b"fail", timeout=WAIT))
    assert (error.code, error.message) == (Code.FAILED_PRECONDITION, "50 % größer")
    assert (await ended(channel.unary("/test.Service/None", b"", timeout=WAIT))).code is Code.UNIMPLEMENTED
    async with channel.stream(COUNT, b"5000", timeout=WAIT) as answers:
        assert answers.metadata["subscription-id"] == "other"
        assert [int(message) async for message in answers] == list(range(5000))
