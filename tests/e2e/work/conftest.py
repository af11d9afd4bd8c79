"""`place`: a hub with a managed cluster behind it, for works. `keeper`: who gives permissions on the managed cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.executing import Keeper
from tests.support.planes import ControlPlane
from tests.support.working import Workplace


@pytest.fixture
async def place(plane: ControlPlane) -> AsyncIterator[Workplace]:
    place = Workplace(plane.cluster)
    await place.prepare()
    yield place
    await place.close()


@pytest.fixture
async def keeper(place: Workplace) -> AsyncIterator[Keeper]:
    made = Keeper(place)
    yield made
    await made.close()
