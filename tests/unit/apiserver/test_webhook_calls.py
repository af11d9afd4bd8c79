"""One call of a webhook: what counts as an answer, and how each way to fail is told."""

import asyncio
import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.apiserver import webhooks
from muster.apiserver.webhooks import WebhookFailed, WebhookRoute, WebhookTarget
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.pki import Authority

both = threading.Barrier(2)


def behave(received: Received) -> Answer:
    match received.path.partition("?")[0]:
        case "/together":
            both.wait(20)
            return Answer({})
        case "/slow":
            time.sleep(1.2)
            return Answer({})
        case "/text":
            return Answer("not json")
        case "/forbidden":
            return Answer("go away", 403)
        case "/broken":
            return Answer("kaput", 500)
        case "/quiet":
            return Answer({"kind": "Status", "message": "kaput"}, 500)
        case "/busy":
            return Answer("later", 503)
        case "/teapot":
            return Answer("short and stout", 418)
    return Answer({"path": received.path, "asked": received.json, "type": received.headers["content-type"]})


@pytest.fixture(scope="module")
def server() -> Iterator[HttpsServer]:
    with HttpsServer(behave, hosts=("hook.ns.svc",)) as running:
        yield running


def target(server: HttpsServer, path: str = "") -> WebhookTarget:
    return WebhookTarget({"url": server.url + path, "caBundle": server.ca_bundle})


async def failure(server: HttpsServer, path: str, seconds: int = 5) -> str:
    with pytest.raises(WebhookFailed) as failed:
        await target(server, path).post({}, seconds)
    return str(failed.value)


async def test_json_goes_out_and_comes_back(server: HttpsServer) -> None:
    answer = await target(server, "/a/b").post({"x": 1}, 7)
    assert answer == {"path": "/a/b?timeout=7s", "asked": {"x": 1}, "type": "application/json"}


async def test_an_address_without_a_path_means_the_root(server: HttpsServer) -> None:
    assert (await target(server).post({}))["path"] == "/?timeout=30s"


async def test_an_address_of_ip_version_6_is_named_in_brackets(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("hook", hosts=("::1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    try:
        serving = await asyncio.start_server(answer, "::1", 0, ssl=context)
    except OSError:
        pytest.skip("this machine has no IPv6")
    place = f"[::1]:{serving.sockets[0].getsockname()[1]}"
    bundle = base64.b64encode(authority.pair.cert.read_bytes()).decode()
    async with serving:
        assert await WebhookTarget({"url": f"https://{place}/hook", "caBundle": bundle}).post({}) == {}
    assert f"Host: {place}\r\n".encode() in heads[0]


async def test_one_connection_serves_many_calls(server: HttpsServer) -> None:
    asked = target(server)
    for _ in range(3):
        await asked.post({})
    assert asked._pool is not None
    assert asked._pool.idle == 1


async def test_a_crowd_shares_a_few_connections(server: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PREFERRED_CALLS", 3)
    monkeypatch.setattr(webhooks, "SLOT_TIMEOUT", 30)
    asked = target(server)
    await asyncio.gather(*(asked.post({}) for _ in range(30)))
    assert asked._pool is not None
    assert 1 <= asked._pool.idle <= 3


async def test_a_call_that_waits_for_another_is_made_beside_it(server: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PREFERRED_CALLS", 1)
    asked = target(server, "/together")
    assert [*await asyncio.gather(asked.post({}), asked.post({}))] == [{}, {}]


async def test_a_service_without_a_resolver_cannot_be_reached() -> None:
    asked = WebhookTarget({"service": {"namespace": "ns", "name": "hook", "path": "x"}})
    with pytest.raises(WebhookFailed, match=r'^Post "https://hook.ns.svc:443/x\?timeout=5s": '):
        await asked.post({}, 5)


async def test_a_service_is_dialled_where_it_is_and_trusted_by_its_name(server: HttpsServer) -> None:
    config = {"service": {"namespace": "ns", "name": "hook"}, "caBundle": server.ca_bundle}
    asked = WebhookTarget(config, WebhookRoute(lambda namespace, name, port: ("127.0.0.1", server.port)))
    assert (await asked.post({}))["path"] == "/?timeout=30s"


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(WebhookFailed) as failed:
            await WebhookTarget({"url": f"https://127.0.0.1:{port}/x"}).post({}, 5)
    expected = f'Post "https://127.0.0.1:{port}/x?timeout=5s": dial tcp 127.0.0.1:{port}: connect: connection refused'
    assert str(failed.value) == expected


async def test_a_server_of_an_unknown_authority_is_not_trusted(server: HttpsServer) -> None:
    with pytest.raises(WebhookFailed, match=r"x509: certificate signed by unknown authority$"):
        await WebhookTarget({"url": server.url}).post({}, 5)


async def test_an_answer_that_takes_too_long(server: HttpsServer) -> None:
    assert (await failure(server, "/slow", 1)).endswith('/slow?timeout=1s": context deadline exceeded')


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/forbidden", "go away"),
        ("/broken", 'an error on the server ("kaput") has prevented the request from succeeding'),
        ("/quiet", 'an error on the server ("unknown") has prevented the request from succeeding'),
        ("/busy", "the server is currently unable to handle the request"),
        ("/teapot", "the server responded with the status code 418 but did not return more information"),
    ],
)
async def test_an_answer_that_is_an_error(server: HttpsServer, path: str, text: str) -> None:
    assert await failure(server, path) == text


async def test_an_answer_that_is_no_json(server: HttpsServer) -> None:
    assert (await failure(server, "/text")).startswith("couldn't get version/kind; json parse error: ")
