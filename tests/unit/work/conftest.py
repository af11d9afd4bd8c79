"""A server in this process, and its administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from tests.support.in_process import serving


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default") as running:
        yield running


@pytest.fixture
def admin(server: ApiServer) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["default"]))
