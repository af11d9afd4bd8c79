"""`place`: a hub with a managed cluster behind it, for works."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.planes import ControlPlane
from tests.support.working import Workplace


@pytest.fixture
async def place(plane: ControlPlane) -> AsyncIterator[Workplace]:
    place = Workplace(plane.cluster)
    await place.prepare()
    yield place
    await place.close()
