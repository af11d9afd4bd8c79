"""`place`: a hub with a managed cluster behind it, for works. `keeper`: who gives permissions on the managed cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.executing import Keeper
from tests.support.planes import ControlPlane, lent
from tests.support.working import Workplace


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A plane of the module's own, where a hub's side of works would meddle with the works of other tests."""
    yield from lent(tmp_path_factory.mktemp("work-hub"))


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
