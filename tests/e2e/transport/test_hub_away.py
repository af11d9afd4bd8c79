"""The hub's API server goes away for a while behind gRPC servers that stay: they say so, keep their agents, and lose nothing.

`MUSTER_AWAY` is for how many seconds: a few, unless told. An API server that takes connections and says nothing is tried on the
real plane, and when the outage is to last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.transport.conftest import GrpcAgent, GrpcServer, Site
from tests.e2e.transport.test_works import applied, config_map, greeting, make, works
from tests.support.link import Link
from tests.support.processes import complaints
from tests.support.sites import beside_kube

pytestmark = beside_kube

AWAY = float(os.environ.get("MUSTER_AWAY", "3"))
OUTAGES: dict[str, Callable[[Link], None]] = {"refused": Link.cut, "silent": Link.silence}
TRIED = list(OUTAGES) if "MUSTER_AWAY" in os.environ or os.environ.get("MUSTER_E2E") == "kube" else ["refused"]


@pytest.fixture
def link(site: Site) -> Iterator[Link]:
    """Between a gRPC server and the hub's API server; everybody else goes there directly."""
    link = Link(site.hub.cluster.url)
    yield link
    link.close()


@pytest.fixture
def server(site: Site, link: Link) -> Iterator[GrpcServer]:
    server = site.server("cut-off", link=link)
    yield server
    link.mend()
    site.stop_agents()
    site.end(server)
    assert complaints(server.process.log) == []


def drop(agent: GrpcAgent) -> None:
    """On the managed cluster: whoever keeps the work has something to do, and says nothing new of it."""
    agent.site.spoke.admin.delete(f"/api/v1/namespaces/default/configmaps/greeting-{agent.name}").expect(200)


@pytest.mark.timeout(180 + AWAY)
@pytest.mark.parametrize("outage", TRIED)
def test_an_api_server_that_was_away_costs_nothing(site: Site, link: Link, server: GrpcServer, outage: str) -> None:
    hub, agent = site.hub, site.joined(f"behind-{outage}", server)
    agent.start_work()
    hub.patch(agent.name, {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    make(agent, "stays", "first")
    hub.wait(lambda: applied(agent, "stays") or None, "the status on the hub")
    make(agent, "goes", "first")
    hub.wait(lambda: applied(agent, "goes") or None, "the other status")
    connections = agent.links[0].connections
    assert server.ready

    OUTAGES[outage](link)
    back = time.monotonic() + AWAY
    hub.wait(lambda: not server.ready or None, "the server to say that it is not ready", 60)
    hub.admin.patch(works(agent, "stays"), {"spec": {"workload": {"manifests": [config_map(agent, "second")]}}}).expect(200)
    hub.admin.delete(works(agent, "goes")).expect(200)
    drop(agent)
    hub.wait(lambda: greeting(agent) or None, "the agent to look after its cluster meanwhile")
    hub.wait(lambda: time.monotonic() > back or None, "the outage to have lasted", AWAY + 5)
    assert agent.links[0].connections == connections, "no agent is sent away for it"

    link.mend()
    hub.wait(lambda: server.ready or None, "the server to be ready again", 60)
    hub.wait(lambda: applied(agent, "stays") or None, "the status of what was changed meanwhile", 60)
    hub.wait(lambda: hub.admin.get(works(agent, "goes")).status == 404 or None, "the end of the deleted work", 60)
    hub.wait_renewed(agent.name, times=2, timeout=60)
    assert len(hub.requests(agent.name)) == 1
