"""A server in this process and the runtime's client of it, and a client whose streams a test scripts itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from tests.support.fake_clock import FakeClock
from tests.support.in_process import serving


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default") as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["default"]))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def eventually(probe: Callable[[], Any], what: str = "", seconds: float = 30.0) -> Any:
    """The first true answer of `probe`; asked on every turn of the loop until then."""
    async with asyncio.timeout(seconds):
        while True:
            found = probe()
            if found:
                return found
            await asyncio.sleep(0.005)
    raise AssertionError(what)


def config_map(name: str, namespace: str = "default", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
