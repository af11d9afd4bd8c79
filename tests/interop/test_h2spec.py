"""The conformance tests of HTTP/2 on our servers: on the one for HTTP/2 in the clear (what they send is frames, to which TLS adds
nothing), and with TLS on gRPC's and on the one of both versions."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from muster.http import Answer, HttpServer, Request, Response, server_context
from muster.http.http2.server import Http2Server
from muster.http.tls import HTTP_2_OR_1
from tests.support import peers
from tests.support.attacked_server import attacked_server
from tests.unit.http.http2.conftest import Site
from tests.unit.http.pki import Authority

LEAST = 140
"""Tests that there are: a run of none proves nothing."""
WITHOUT_BODY = {
    "Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "Sends a PRIORITY frame on half-closed (remote) stream",
}
"""Those that wait for an answer with a body: errors of gRPC have none, whatever was sent before."""


async def test_a_server_of_http2_conforms() -> None:
    site = Site()
    site.server = Http2Server(site.request)
    await site.server.start("127.0.0.1", 0)
    failed = await judged(site.server.port)
    await site.server.stop()
    assert not failed, json.dumps(sorted(failed), indent=1)


async def test_a_server_of_grpc_conforms_as_far_as_its_answers_have_bodies(tmp_path: Path) -> None:
    """The judge speaks no gRPC: what it asks for is answered with an error of gRPC, which is an answer of HTTP."""
    with attacked_server(tmp_path) as site:
        assert await judged(site.port, "-t", "-k") == WITHOUT_BODY


async def test_a_server_of_both_versions_conforms() -> None:
    """The one that the gateway is, with a body in its answers and bodies read whole."""
    authority = Authority("server-ca")
    certificate, key, _ = authority.issue("server", client=False)

    async def handler(asked: Request) -> Answer:
        return Response(200, b"hello, world\n")

    server = HttpServer(handler, tls=server_context(certificate, key, alpn=HTTP_2_OR_1), http2=True)
    await server.start("127.0.0.1", 0)
    failed = await judged(server.port, "-t", "-k")
    await server.stop(0.1)
    assert not failed, json.dumps(sorted(failed), indent=1)


async def judged(port: int, *flags: str) -> set[str]:
    """The tests that failed."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        command = [str(peers.need("h2spec")), "-h", "127.0.0.1", "-p", str(port), "-o", "5", "-j", str(report), *flags]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        async with asyncio.timeout(110):
            await process.wait()
        cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) >= LEAST
    return {case.get("classname", "") for case in cases if case.find("failure") is not None or case.find("error") is not None}
