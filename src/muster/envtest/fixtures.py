"""Fixtures that pytest finds if Muster is installed. They need pytest-asyncio, or another plugin that runs async fixtures.

`muster_cluster` is an in-memory control plane with OCM's kinds, started in a fraction of a second; `muster_fleet` a hub with two
managed clusters, or as many as a marker has: `@pytest.mark.muster_fleet(clusters=3, gateway=True)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from muster.envtest.fleet import Fleet
    from muster.runtime.client import KubeClient


F = TypeVar("F", bound=Callable[..., Any])


def _async_fixture() -> Callable[[F], F]:
    """With another plugin than pytest-asyncio, that runs these fixtures too."""
    try:
        import pytest_asyncio
    except ImportError:
        return cast(Callable[[F], F], pytest.fixture)
    return cast(Callable[[F], F], pytest_asyncio.fixture)


async_fixture = _async_fixture()
MARKER = "muster_fleet(clusters=2, gateway=False): what the fixture `muster_fleet` of this test has"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@async_fixture
async def muster_cluster() -> AsyncIterator[KubeClient]:
    """The administrator's client of a cluster that serves what a hub serves; it is removed after the test."""
    from muster.api.crds import HUB
    from muster.fleet.in_process import embedded_cluster

    async with embedded_cluster(HUB) as client:
        yield client


@async_fixture
async def muster_fleet(request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    """A fleet that is ready when the test begins; it is removed after the test."""
    from muster.envtest.fleet import Fleet

    marker = request.node.get_closest_marker("muster_fleet")
    async with Fleet(**(marker.kwargs if marker is not None else {})) as fleet:
        yield fleet
