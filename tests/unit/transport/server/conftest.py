from collections.abc import AsyncIterator

import pytest

from tests.support.fake_clock import FakeClock
from tests.support.in_process import serving
from tests.unit.transport.server.hub import Recording, TestHub


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hub(clock: FakeClock) -> AsyncIterator[TestHub]:
    """Its services are fakes, its rules are real. `clock` is that of certificates."""
    async with serving("default") as server:
        made = TestHub(Recording(server.client(server.clusters["default"])), clock)
        await made.start()
        yield made
        await made.stop()
