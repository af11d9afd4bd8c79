"""Bytes on the wire by way of a proxy: what it is told, what it is not, and what becomes of its refusals."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from muster.runtime.client.errors import Unreachable, Untrusted
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig
from tests.support.https_server import Answer, HttpsServer
from tests.support.pki import Authority
from tests.support.proxy import Proxy
from tests.unit.runtime.wire import Scripted, get, ok, serving, transport


async def test_a_proxy_is_given_whole_addresses_and_its_own_password() -> None:
    async with serving(ok) as (script, url):
        proxy = url.replace("http://", "http://user:p%40ss@")
        async with transport(ClientConfig("http://hub.example:8080/base", proxy_url=proxy)) as way:
            await get(way)
    lines = script.heads[0].split("\r\n")
    assert lines[0] == "GET http://hub.example:8080/base/version HTTP/1.1"
    assert "Host: hub.example:8080" in lines
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'user:p@ss').decode()}" in lines


async def test_a_proxy_by_tls_is_spoken_to_by_tls_even_about_servers_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "company")
    pair = authority.issue("proxy", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    config = ClientConfig("http://hub.example", identity=AuthInfo(token="sesame"))
    script = Scripted(ok)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=context)
    url = f"https://user:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        async with transport(replace(config, proxy_url=url)) as way:
            with pytest.raises(Untrusted):
                await get(way)
        assert script.heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.pair.cert))
        async with transport(replace(config, proxy_url=url)) as way:
            assert (await get(way)).content == b"{}"
    assert script.heads[0].startswith("GET http://hub.example/version HTTP/1.1\r\n")


async def test_the_environment_names_the_proxy_where_the_kubeconfig_does_not() -> None:
    async with serving(ok) as (script, url):
        environ = {"HTTP_PROXY": url}
        async with transport(ClientConfig("http://hub.example"), environ) as way:
            await get(way)
        async with transport(ClientConfig("http://other.example", proxy_url=url), {"http_proxy": "http://127.0.0.1:1"}) as way:
            await get(way)
        async with transport(ClientConfig(url), environ) as way:
            await get(way)
    assert [head.split()[1] for head in script.heads] == ["http://hub.example/version", "http://other.example/version", "/version"]


@pytest.mark.parametrize("rest", [b"Content-Length: 0\r\n\r\n", b"Content-Length: 4\r\n\r\nsorr", b"\r\nsorry", b"\r\n"])
async def test_a_proxy_that_refuses_is_named(rest: bytes) -> None:
    async def refuse(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n" + rest)
        return False

    async with serving(refuse) as (script, url):
        async with transport(ClientConfig("https://hub.example:6443", proxy_url=url)) as way:
            with pytest.raises(Unreachable, match=f"{url[7:]} does not lead there: it answered 407") as refused:
                await get(way)
        assert not refused.value.sent
    assert script.heads[0].startswith("CONNECT hub.example:6443 HTTP/1.1\r\n")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("secured", [False, True])
def test_tls_goes_through_a_proxy_on_either_loop(tmp_path: Any, run: Any, secured: bool) -> None:
    authority = Authority(tmp_path, "proxies")
    pair = authority.issue("proxy", hosts=("127.0.0.1",)) if secured else None

    async def play() -> None:
        client = HttpClient(ClientConfig(server.url, server.ca + authority.pair.cert.read_bytes(), proxy_url=proxy.url))
        answers = [await client.raw("GET", "/version") for _ in range(3)]
        await client.close()
        assert answers == [b"{}"] * 3

    with HttpsServer(lambda request: Answer({})) as server, Proxy(pair=pair) as proxy:
        run(play())
        assert len(proxy.asked) == 1
