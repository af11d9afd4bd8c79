"""Two hubs for addons, each with a registration controller of ours.

`theirs`: upstream's addon manager and replica sets on our placements, with our agents. `ours`: our addon manager and replica sets
on upstream's placements, with upstream's agents on cluster `gopher` and ours on `python`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.addon.conftest import work_agent
from tests.interop.addon.addon_site import AddonSite
from tests.interop.addon.programs import REPLICA_SETS, upstreams_agents, upstreams_managers, upstreams_placement
from tests.support.administrator import AVAILABLE, TRUSTED
from tests.support.hub_components import AddonHub, PlacementHub
from tests.support.planes import Cluster, ControlPlane, lent
from tests.support.processes import complaints
from tests.support.registration import Agent, Hub, Spoke
from tests.support.work_hub import WorkHub

AUTO = ("--feature-gates=ManagedClusterAutoApproval=true", f"--auto-approved-csr-users={TRUSTED}")


@dataclass
class OurHub:
    go: AddonSite
    """A cluster with upstream's agents."""
    python: AddonSite
    """One with ours."""


def started(hub: Hub) -> Hub:
    hub.install()
    hub.start()
    return hub


@contextlib.contextmanager
def our_agents(hub: Hub, cluster: Cluster, directory: Path, name: str, *flags: str) -> Iterator[AddonSite]:
    spoke = Spoke(cluster, directory)
    agent = Agent(spoke, hub, name, hub.trusted_kubeconfig(), flags).start()
    hub.wait_condition(name, AVAILABLE, timeout=60)
    works = work_agent(agent)
    hub.servers.append(works)
    works.start()
    try:
        yield AddonSite(hub, spoke, name)
    finally:
        works.stop(timeout=10)
        agent.stop()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("addons"), "gopher", "python")


@pytest.fixture(scope="module")
def theirs(ground: ControlPlane) -> Iterator[AddonSite]:
    hub = started(Hub(ground.cluster, ground.directory / "hub", AUTO))
    placement = PlacementHub(ground.cluster, ground.directory / "placement")
    placement.install()
    placement.start()
    hub.servers += placement.servers
    with (
        upstreams_managers(hub, ground.directory / "upstream"),
        our_agents(hub, ground.extra("python"), ground.directory / "python", "python") as site,
    ):
        yield site
    placement.stop()
    hub.stop()


@pytest.fixture(scope="module")
def ours(ground: ControlPlane) -> Iterator[OurHub]:
    hub = started(Hub(ground.cluster, ground.directory / "hub", AUTO))
    addons = AddonHub(ground.cluster, ground.directory / "addon-manager")
    addons.install()
    addons.start()
    works = WorkHub(ground.cluster, ground.directory / "work-hub")
    works.install(REPLICA_SETS)
    works.start(REPLICA_SETS)
    hub.servers += [*addons.servers, *works.servers]
    with (
        upstreams_placement(hub, ground.directory / "placement"),
        upstreams_agents(hub, ground.extra("gopher"), ground.directory / "gopher", "gopher") as go,
        our_agents(hub, ground.extra("python"), ground.directory / "python", "python") as python,
    ):
        yield OurHub(go, python)
    works.stop()
    addons.stop()
    hub.stop()
    assert addons.process is not None
    assert complaints(addons.process.log) == []
