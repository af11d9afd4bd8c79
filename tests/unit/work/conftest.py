"""A server in this process, and its administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.runtime.direct import InProcessClient


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    running = ApiServer(ServerConfig(store="memory", clusters=("default",)))
    await running.start()
    yield running
    await running.stop(grace=0.1)


@pytest.fixture
def admin(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["default"]))
