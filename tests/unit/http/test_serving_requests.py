"""Requests and complete answers: order, framing, bodies, errors, fairness."""

from __future__ import annotations

import asyncio
import contextvars
import logging

import pytest

from muster.http import Answer, Request, Response

from .conftest import Serve
from .wire import request


async def echo(incoming: Request) -> Answer:
    body = f"{incoming.method} {incoming.path}?{incoming.query} ".encode() + incoming.body
    return Response(200, body, content_type="text/plain")


async def test_a_request_is_answered_and_the_connection_kept(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    first = await peer.get("/a%20b/%C3%BC?x=%20y")
    second = await peer.get("/c")
    assert (first.status, first.body) == (200, "GET /a b/ü?x=%20y ".encode())
    assert first.headers["content-type"] == "text/plain"
    assert "date" in first.headers
    assert second.body == b"GET /c? "


async def test_what_a_handler_sees_of_a_request(serve: Serve) -> None:
    seen: list[Request] = []

    async def keep(incoming: Request) -> Answer:
        seen.append(incoming)
        return Response(204)

    peer = await (await serve(keep)).peer()
    peer.send(request("PUT", "/x%2Fy/..//z?q=1&q=2", "X-Twice: one", "x-twice: two", "Accept:  a/b  ", body=b"data"))
    await peer.reply(bodiless=True)
    (incoming,) = seen
    assert (incoming.method, incoming.target) == ("PUT", "/x%2Fy/..//z?q=1&q=2")
    assert (incoming.path, incoming.raw_path, incoming.query) == ("/x/y/..//z", "/x%2Fy/..//z", "q=1&q=2")
    assert incoming.headers.get("x-twice") == "one, two"
    assert incoming.headers.getall("x-twice") == ["one", "two"]
    assert incoming.headers.get("accept") == "a/b"
    assert incoming.headers.get("absent", "default") == "default"
    assert ("host", "test") in list(incoming.headers.items())
    assert incoming.body == b"data"
    assert incoming.connection.remote[0] == "127.0.0.1"


async def test_requests_on_one_connection_share_its_memo(serve: Serve) -> None:
    async def count(incoming: Request) -> Answer:
        memo = incoming.connection.memo
        memo["n"] = memo.get("n", 0) + 1
        return Response(200, str(memo["n"]).encode())

    site = await serve(count)
    one, other = await site.peer(), await site.peer()
    assert [(await one.get("/")).body, (await one.get("/")).body, (await other.get("/")).body] == [b"1", b"2", b"1"]


async def test_pipelined_requests_are_answered_in_order_even_if_early_ones_are_slow(serve: Serve) -> None:
    async def slow_first(incoming: Request) -> Answer:
        if incoming.path == "/0":
            await asyncio.sleep(0.05)
        return Response(200, incoming.path.encode())

    peer = await (await serve(slow_first)).peer()
    peer.send(b"".join(request("GET", f"/{n}") for n in range(3000)))
    assert [(await peer.reply()).body for _ in range(3000)] == [b"/%d" % n for n in range(3000)]


async def test_a_request_may_arrive_byte_by_byte(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    for byte in request("POST", "/slow", "X: y", body=b"0123456789"):
        peer.send(bytes([byte]))
        await peer.writer.drain()
        await asyncio.sleep(0)
    assert (await peer.reply()).body == b"POST /slow? 0123456789"


async def test_chunked_request_bodies_are_joined(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    head = request("POST", "/c", "Transfer-Encoding: chunked")
    peer.send(head + b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Trailer: ignored\r\n\r\n" + request("GET", "/next"))
    assert (await peer.reply()).body == b"POST /c? abcdefg"
    assert (await peer.reply()).body == b"GET /next? "


async def test_the_client_is_told_to_continue_before_it_sends_its_body(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    peer.send(request("GET", "/before") + request("POST", "/x", "Expect: 100-continue", "Content-Length: 4"))
    assert (await peer.reply()).body == b"GET /before? "
    assert (await peer.head())[0] == 100
    peer.send(b"body")
    assert (await peer.reply()).body == b"POST /x? body"


async def test_a_body_announced_too_large_is_refused_without_being_asked_for(serve: Serve) -> None:
    peer = await (await serve(echo, max_body=10)).peer()
    peer.send(request("POST", "/big", "Expect: 100-continue", "Content-Length: 11"))
    reply = await peer.reply()
    assert (reply.status, reply.headers["connection"]) == (413, "close")


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_the_refusal_of_a_large_body_reaches_a_client_that_is_still_sending(serve: Serve, framing: str) -> None:
    peer = await (await serve(echo, max_body=1000)).peer()
    size = 300_000
    field = "Transfer-Encoding: chunked" if framing == "chunked" else f"Content-Length: {size}"
    body = b"x" * size if framing == "length" else b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"
    peer.send(request("POST", "/big", field) + body)
    reply = await peer.reply()
    assert (reply.status, reply.headers["connection"]) == (413, "close")
    assert await peer.ended()


async def test_head_has_the_length_but_not_the_body(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    peer.send(request("HEAD", "/h") + request("GET", "/g"))
    head = await peer.reply(bodiless=True)
    assert (head.status, head.headers["content-length"]) == (200, str(len(b"HEAD /h? ")))
    assert (await peer.reply()).body == b"GET /g? "


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_have_no_length(serve: Serve, status: int) -> None:
    async def empty(incoming: Request) -> Answer:
        return Response(status)

    peer = await (await serve(empty)).peer()
    peer.send(request("GET", "/"))
    reply = await peer.reply(bodiless=True)
    assert reply.status == status
    assert "content-length" not in reply.headers


async def test_a_client_that_wants_to_close_gets_its_answer_and_the_end(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    reply = await peer.get("/", "Connection: close")
    assert reply.headers["connection"] == "close"
    assert await peer.ended()


async def test_http_1_0_clients_are_served_with_and_without_keep_alive(serve: Serve) -> None:
    site = await serve(echo)
    kept, closed = await site.peer(), await site.peer()
    kept.send(b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")
    assert (await kept.reply()).headers["connection"] == "keep-alive"
    assert (await kept.reply()).body == b"GET /2? "
    closed.send(b"GET /3 HTTP/1.0\r\n\r\n")
    assert (await closed.reply()).headers["connection"] == "close"
    assert await closed.ended()


async def test_absolute_targets_are_understood(serve: Serve) -> None:
    peer = await (await serve(echo)).peer()
    assert (await peer.get("http://other/p?q")).body == b"GET /p?q "
    assert (await peer.get("http://other?q")).body == b"GET /?q "


async def test_a_large_body_in_pieces_arrives_whole(serve: Serve) -> None:
    pieces = [bytes([n % 251]) * 1300 for n in range(5000)]

    async def listing(incoming: Request) -> Answer:
        return Response(200, pieces)

    peer = await (await serve(listing)).peer()
    peer.send(request("GET", "/1") + request("GET", "/2"))
    for _ in range(2):
        reply = await peer.reply()
        assert reply.body == b"".join(pieces)


async def test_a_slow_reader_of_a_large_body_does_not_hold_up_others(serve: Serve) -> None:
    large = b"x" * (32 * 1024 * 1024)

    async def either(incoming: Request) -> Answer:
        return Response(200, large if incoming.path == "/large" else b"small")

    site = await serve(either)
    slow, quick = await site.peer(), await site.peer()
    slow.send(request("GET", "/large"))
    await slow.head()
    for _ in range(20):
        assert (await quick.get("/small")).body == b"small"
    assert len(await slow.reader.readexactly(len(large))) == len(large)


async def test_one_pipelining_client_gets_one_request_per_loop_turn(serve: Serve) -> None:
    served: list[str] = []
    begun = asyncio.Event()

    async def note(incoming: Request) -> Answer:
        served.append(incoming.path)
        begun.set()
        return Response(200)

    site = await serve(note)
    greedy, modest = await site.peer(), await site.peer()
    greedy.send(b"".join(request("GET", "/greedy") for _ in range(5000)))
    await begun.wait()
    modest.send(request("GET", "/modest"))
    await modest.reply()
    assert served.index("/modest") < 2500


async def test_a_failing_handler_costs_one_500_and_nothing_else(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(incoming: Request) -> Answer:
        if incoming.path == "/later":
            await asyncio.sleep(0)
        if incoming.path != "/fine":
            raise KeyError(incoming.path)
        return Response(200)

    peer = await (await serve(fail)).peer()
    with caplog.at_level(logging.CRITICAL, "muster.http"):
        assert [(await peer.get(path)).status for path in ("/now", "/later", "/fine")] == [500, 500, 200]


async def test_the_error_hook_shapes_the_answer(serve: Serve) -> None:
    async def fail(incoming: Request) -> Answer:
        raise ValueError("boom")

    def shape(incoming: Request | None, error: Exception) -> Response:
        assert incoming is not None
        return Response(503, f"{incoming.path}: {error}".encode())

    peer = await (await serve(fail, on_error=shape)).peer()
    assert (await peer.get("/p"))[::2] == (503, b"/p: boom")


async def test_a_header_with_a_line_break_never_reaches_the_wire(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def inject(incoming: Request) -> Answer:
        return Response(200, b"", [("X-Name", "a\r\nSet-Cookie: b")])

    peer = await (await serve(inject)).peer()
    with caplog.at_level(logging.CRITICAL, "muster.http"):
        reply = await peer.get("/")
    assert reply.status == 500
    assert "set-cookie" not in reply.headers


async def test_the_first_step_of_a_handler_may_use_timeouts_and_task_groups(serve: Serve) -> None:
    async def child() -> bytes:
        return b"child"

    async def structured(incoming: Request) -> Answer:
        if incoming.path == "/late":
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                return Response(200, b"timed out")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(child())
        return Response(200, task.result())

    peer = await (await serve(structured)).peer()
    assert (await peer.get("/late")).body == b"timed out"
    assert (await peer.get("/")).body == b"child"


async def test_context_variables_do_not_leak_from_request_to_request(serve: Serve) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def remember(incoming: Request) -> Answer:
        before = variable.get()
        variable.set(incoming.path)
        if incoming.path == "/wait":
            await asyncio.sleep(0)
        return Response(200, f"{before} {variable.get()}".encode())

    peer = await (await serve(remember)).peer()
    assert [(await peer.get(path)).body for path in ("/a", "/wait", "/b")] == [b"none /a", b"none /wait", b"none /b"]
