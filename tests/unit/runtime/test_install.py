"""Waiting until definitions are served."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from muster.api.crds import HUB, definitions
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.runtime.client import JSON, Query
from muster.runtime.client.builtin import CRDS
from muster.runtime.install import ESTABLISH_TIMEOUT, InstallError, apply_all, await_definitions
from tests.support.fake_clock import FakeClock

NAMES = [kind.name for kind in HUB[:2]]


class Unserved(InProcessClient):
    """Of a server that takes its time to serve what is defined."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if method != "GET":
            return answer
        found = orjson.loads(answer)
        return orjson.dumps({**found, "items": [{**one, "status": {}} for one in found["items"]]})


@pytest.fixture
async def unserved(server: ApiServer) -> Unserved:
    """With two definitions."""
    client = Unserved(server.client(server.clusters["default"]))
    await apply_all(client, [(CRDS, document) for document in definitions(HUB[:2])], "test")
    return client


async def test_definitions_that_somebody_deletes_are_not_waited_for(unserved: Unserved, clock: FakeClock) -> None:
    waiting = asyncio.create_task(await_definitions(unserved, NAMES, clock))
    await unserved.delete(CRDS, NAMES[0])
    async with asyncio.timeout(30):
        while not waiting.done():
            await clock.advance(0.1)
            await asyncio.sleep(0.005)
    assert clock.monotonic() < ESTABLISH_TIMEOUT
    with pytest.raises(InstallError, match=NAMES[0]):
        waiting.result()


async def test_definitions_that_are_not_served_in_time_are_named(unserved: Unserved, clock: FakeClock) -> None:
    waiting = asyncio.create_task(await_definitions(unserved, NAMES, clock))
    async with asyncio.timeout(30):
        while not waiting.done():
            await clock.advance(5.0)
            await asyncio.sleep(0.005)
    with pytest.raises(InstallError, match=f"not served .*{NAMES[0]}, {NAMES[1]}"):
        waiting.result()
