"""Client certificates, certificate changes while serving, and an orderly end."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from muster.http import Answer, HttpServer, Request, Response, StreamResponse, StreamWriter, server_context

from .conftest import Serve
from .pki import Authority, client_context
from .wire import Peer, request


async def identify(incoming: Request) -> Answer:
    connection = incoming.connection
    return Response(200, connection.peer_certificate or b"none", [("X-Chain", str(len(connection.peer_chain)))])


@pytest.fixture
def scheme() -> str:
    return "https"


async def test_a_client_certificate_is_seen_and_none_is_fine(serve: Serve, server_ca: Authority, client_ca: Authority) -> None:
    site = await serve(identify)
    cert, key, der = client_ca.issue("somebody", client=True)
    known = await site.peer(client_context(server_ca, cert, key))
    reply = await known.get("/")
    assert (reply.body, reply.headers["x-chain"]) == (der, "2")
    assert (await (await site.peer()).get("/")).body == b"none"


async def test_an_intermediate_authority_is_part_of_the_chain(serve: Serve, server_ca: Authority, client_ca: Authority) -> None:
    intermediate = Authority("intermediate", client_ca)
    cert, key, der = intermediate.issue("somebody", client=True)
    site = await serve(identify)
    reply = await (await site.peer(client_context(server_ca, cert + intermediate.pem, key))).get("/")
    assert (reply.body, reply.headers["x-chain"]) == (der, "3")


async def test_a_client_authority_need_not_be_a_root(serve: Serve, server_ca: Authority) -> None:
    above = Authority("above")
    intermediate = Authority("intermediate", above)
    cert, key, _ = server_ca.issue("server", client=False)
    site = await serve(identify)
    site.server.replace_tls(server_context(cert, key, intermediate.pem))
    cert, key, der = intermediate.issue("somebody", client=True)
    assert (await (await site.peer(client_context(server_ca, cert, key))).get("/")).body == der
    cert, key, _ = above.issue("somebody", client=True)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        await (await site.peer(client_context(server_ca, cert, key))).get("/")


async def test_an_expired_certificate_is_no_identity_but_is_served(
    serve: Serve, server_ca: Authority, client_ca: Authority
) -> None:
    cert, key, _ = client_ca.issue("somebody", client=True, days=-1)
    site = await serve(identify)
    assert (await (await site.peer(client_context(server_ca, cert, key))).get("/")).body == b"none"


async def test_alpn_selects_http_1_1(serve: Serve, server_ca: Authority) -> None:
    context = client_context(server_ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    peer = await (await serve(identify)).peer(context)
    assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_certificates_and_client_authorities_change_while_serving(
    serve: Serve, server_ca: Authority, client_ca: Authority
) -> None:
    site = await serve(identify)
    old_cert, old_key, _ = client_ca.issue("old", client=True)
    established = await site.peer(client_context(server_ca, old_cert, old_key))
    next_server_ca, next_client_ca = Authority("next-server-ca"), Authority("next-client-ca")
    cert, key, _ = next_server_ca.issue("server", client=False)
    site.server.replace_tls(server_context(cert, key, next_client_ca.pem))

    new_cert, new_key, der = next_client_ca.issue("new", client=True)
    assert (await (await site.peer(client_context(next_server_ca, new_cert, new_key))).get("/")).body == der
    stranger = client_context(next_server_ca, old_cert, old_key)
    assert await _identity_of(site.port, stranger) != old_cert
    assert (await established.get("/")).status == 200


async def _identity_of(port: int, context: ssl.SSLContext) -> bytes:
    """What the server takes a client for; a refused handshake is no identity either."""
    try:
        return (await (await Peer.connect(port, context)).get("/")).body
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return b"none"


async def test_a_foreign_certificate_is_never_an_identity(serve: Serve, server_ca: Authority) -> None:
    cert, key, _ = Authority("client-ca").issue("somebody", client=True)
    site = await serve(identify)
    assert await _identity_of(site.port, client_context(server_ca, cert, key)) == b"none"


async def test_stopping_lets_requests_finish_and_ends_streams_cleanly(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    release, streaming = asyncio.Event(), asyncio.Event()

    async def run(writer: StreamWriter) -> None:
        streaming.set()
        await writer.closed
        writer.write(b"the end")

    async def handle(incoming: Request) -> Answer:
        if incoming.path == "/stream":
            return StreamResponse(200, [], run)
        await release.wait()
        return Response(200, b"finished")

    server = HttpServer(handle, tls=server_tls)
    await server.start("127.0.0.1", 0)
    port = server.port
    idle, busy, stream = [await Peer.connect(port, client_tls) for _ in range(3)]
    busy.send(request("GET", "/busy"))
    stream.send(request("GET", "/stream"))
    await streaming.wait()
    stopping = asyncio.create_task(server.stop(5))
    assert await idle.ended()
    assert (await stream.reply()).body == b"the end"
    with pytest.raises(OSError):
        await Peer.connect(port, client_tls)
    release.set()
    reply = await busy.reply()
    assert (reply.body, reply.headers["connection"]) == (b"finished", "close")
    await asyncio.wait_for(stopping, 5)
    assert server.connections == 0


async def test_stopping_cancels_what_outlives_the_grace() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def forever(incoming: Request) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response(200)

    server = HttpServer(forever)
    await server.start("127.0.0.1", 0)
    peer = await Peer.connect(server.port)
    peer.send(request("GET", "/"))
    await started.wait()
    await asyncio.wait_for(server.stop(0.05), 5)
    assert cancelled.is_set()
    assert await peer.ended()
    assert server.connections == 0


async def test_connections_without_a_certificate_are_made_anew_when_others_would_count(
    serve: Serve, server_ca: Authority, client_ca: Authority
) -> None:
    going_on, answer = asyncio.Event(), asyncio.Event()

    async def handle(incoming: Request) -> Answer:
        if incoming.raw_path == "/slow":
            going_on.set()
            await answer.wait()
        return await identify(incoming)

    site = await serve(handle)
    cert, key, der = client_ca.issue("somebody", client=True)
    known, idle, busy = await site.peer(client_context(server_ca, cert, key)), await site.peer(), await site.peer()
    for peer in (known, idle):
        assert (await peer.get("/")).status == 200
    busy.send(request("GET", "/slow"))
    await going_on.wait()
    site.server.retire_unproven()
    assert await idle.ended()
    assert (await known.get("/")).body == der
    answer.set()
    reply = await busy.reply()
    assert (reply.body, reply.headers["connection"]) == (b"none", "close")
    assert await busy.ended()
