"""The conformance tests of HTTP/2 on our server, in the clear: what they send is frames, and TLS adds nothing to those."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree

from muster.http.http2.server import Http2Server
from tests.support import peers
from tests.unit.http.http2.conftest import Site

LEAST = 140
"""Tests that there are: a run of none proves nothing."""


async def test_a_server_conforms(tmp_path: Path) -> None:
    site = Site()
    site.server = Http2Server(site.request)
    await site.server.start("127.0.0.1", 0)
    report = tmp_path / "report.xml"
    command = [str(peers.need("h2spec")), "-h", "127.0.0.1", "-p", str(site.server.port), "-o", "5", "-j", str(report)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(110):
        await process.wait()
    await site.server.stop()
    cases = list(ElementTree.fromstring(report.read_bytes()).iter("testcase"))
    failed = [case.attrib for case in cases if list(case)]
    assert len(cases) >= LEAST
    assert not failed, json.dumps(failed, indent=1)
