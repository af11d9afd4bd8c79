"""A server in this process, on the memory store: behaviour without sockets, as simulated clusters use it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from muster.apiserver.client import DirectClient
from muster.apiserver.server import ApiServer
from tests.support.in_process import serving


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default", "other") as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> DirectClient:
    return server.client(server.clusters["default"])


async def eventually(probe: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """The first true answer of `probe`; asked on every turn of the loop until then."""
    async with asyncio.timeout(seconds):
        while True:
            found = probe()
            if found:
                return found
            await asyncio.sleep(0.005)
    raise AssertionError(what)
