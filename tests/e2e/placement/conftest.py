"""`corner`: a namespace and a cluster set of a test's own, on a hub where `muster placement` runs as a process."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from tests.support.choosing import BINDINGS, CLUSTERS, NS, PLACEMENTS, SETS, Chooser
from tests.support.hub_components import PlacementHub
from tests.support.planes import ControlPlane, lent
from tests.support.processes import complaints

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A plane of the module's own: placements of others would count for Balance."""
    yield from lent(tmp_path_factory.mktemp("placement"))


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> Iterator[PlacementHub]:
    hub = PlacementHub(ground.cluster, ground.directory / "placement-controller")
    hub.install()
    hub.start()
    yield hub
    hub.stop()
    assert hub.process is not None
    assert complaints(hub.process.log) == []


class Corner(Chooser):
    """Clusters and sets are called after it, so that tests do not meet."""

    def __init__(self, hub: PlacementHub, number: int) -> None:
        self.hub = hub
        self.admin: HttpClient = HttpClient(load_kubeconfig(hub.cluster.kubeconfig, environ={}))
        self.ns = f"{NS}-{number}"
        self.own_set = f"set-{number}"
        self.prefix = f"t{number}-"

    def named(self, *names: str) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{name}" for name in names)

    async def prepare(self) -> None:
        await self.namespace(self.ns)
        await self.cluster_set(self.own_set)
        await self.bind(self.own_set)

    async def clear(self) -> None:
        await self.admin.delete_collection(PLACEMENTS, self.ns)
        await self.admin.delete_collection(BINDINGS, self.ns)
        for one in (await self.admin.list(CLUSTERS)).items:
            if one["metadata"]["name"].startswith(self.prefix):
                await self.admin.delete(CLUSTERS, one["metadata"]["name"])
        for one in (await self.admin.list(SETS)).items:
            if one["metadata"]["name"].startswith(self.own_set):
                await self.admin.delete(SETS, one["metadata"]["name"])
        await self.admin.close()


@pytest.fixture
async def corner(hub: PlacementHub) -> AsyncIterator[Corner]:
    corner = Corner(hub, next(_numbers))
    await corner.prepare()
    yield corner
    await corner.clear()
