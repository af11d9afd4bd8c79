"""Servers that keep their connections and say nothing: stopped processes, and ways on which packets get lost.

Agents and servers look for each other at intervals that are short here. With `MUSTER_SILENCE=full` they are the ones of a file that
says nothing of them, which takes a minute and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, WORKS
from tests.e2e.transport.conftest import GrpcAgent, GrpcServer, Site
from tests.e2e.transport.test_works import applied, config_map, greeting, make, works
from tests.support.processes import complaints
from tests.support.sites import beside_kube

pytestmark = beside_kube

FULL = os.environ.get("MUSTER_SILENCE") == "full"
SERVER: dict[str, Any] = (
    {} if FULL else {"client_min_ping_interval": "500ms", "server_ping_interval": "1s", "server_ping_timeout": "1s"}
)
AGENT: dict[str, Any] = {} if FULL else {"keepAliveConfig": {"enable": True, "time": "1s", "timeout": "1s"}}
NOTICED_WITHIN = 90.0 if FULL else 30.0
FREED_WITHIN = 60.0 if FULL else 30.0
NOTE = "note"


@pytest.fixture(scope="module")
def pair(whole_site: Site) -> Iterator[tuple[GrpcServer, GrpcServer]]:
    first, second = (whole_site.server(name, SERVER) for name in ("silent-one", "silent-two"))
    yield first, second
    for server in (first, second):
        server.thaw()
        whole_site.end(server)
        assert complaints(server.process.log) == []


def serving(site: Site, name: str, *servers: GrpcServer) -> GrpcAgent:
    """An agent that has applied a work and tells the hub the note that people put on its ConfigMap."""
    agent = site.joined(name, *servers, **AGENT)
    agent.start_work()
    make(agent, "w", "first")
    config = {
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": f"greeting-{name}", "namespace": "default"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "note", "path": ".metadata.annotations.note"}]}],
    }
    site.hub.admin.patch(works(agent, "w"), {"spec": {"manifestConfigs": [config]}}).expect(200)
    site.hub.wait(lambda: applied(agent, "w") or None, "the status on the hub")
    return agent


def change(agent: GrpcAgent, text: str) -> None:
    patch = {"spec": {"workload": {"manifests": [config_map(agent, text)]}}}
    agent.site.hub.admin.patch(works(agent, "w"), patch).expect(200)


def annotate(agent: GrpcAgent, note: str) -> None:
    """On the managed cluster, so that the agent has news for the hub."""
    place = f"/api/v1/namespaces/default/configmaps/greeting-{agent.name}"
    agent.site.spoke.admin.patch(place, {"metadata": {"annotations": {NOTE: note}}}).expect(200)


def note(agent: GrpcAgent) -> str:
    """As the hub was told."""
    status = agent.site.hub.admin.get(works(agent, "w")).json["status"]
    (manifest,) = status["resourceStatus"]["manifests"]
    return "".join(value["fieldValue"]["string"] for value in (manifest.get("statusFeedback") or {}).get("values") or ())


def subscribers(server: GrpcServer) -> float:
    return server.metric("grpc_server_ce_subscribers")


def serves(server: GrpcServer) -> bool:
    """Whether it has all streams that an agent needs all the time."""
    return all(server.metric("grpc_server_ce_subscribers", data_type=str(row.data_type)) for row in (CLUSTERS, LEASE_ROW, WORKS))


@pytest.mark.timeout(300)
def test_a_stopped_server_is_left_and_writes_nothing_old_when_it_goes_on(site: Site, pair: tuple[GrpcServer, GrpcServer]) -> None:
    first, second = pair
    agent = serving(site, "leaver", first, second)
    assert subscribers(first) > 0

    first.freeze()
    annotate(agent, "while nobody listens")
    site.hub.wait(lambda: note(agent) == "while nobody listens" or None, "what was told in vain to be told again", NOTICED_WITHIN)
    change(agent, "second")
    site.hub.wait(lambda: applied(agent, "w") or None, "the status of the change, by the other server", NOTICED_WITHIN)
    annotate(agent, "by the other server")
    site.hub.wait(lambda: note(agent) == "by the other server" or None, "the last note")
    assert greeting(agent) == "second"
    site.hub.wait(lambda: serves(second) or None, "all streams to have moved", NOTICED_WITHIN)
    before = site.hub.admin.get(works(agent, "w")).json

    first.thaw()
    site.hub.wait(lambda: first.ready or None, "the server to go on")
    site.hub.wait(lambda: subscribers(first) == 0 or None, "it to have read what was left for it", FREED_WITHIN)
    after = site.hub.admin.get(works(agent, "w")).json
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.mark.timeout(300)
def test_a_way_that_drops_everything_is_left_by_both_ends(site: Site, pair: tuple[GrpcServer, GrpcServer]) -> None:
    """Who knows another server goes there; who does not dials again until somebody answers."""
    first, second = pair
    agent, patient = serving(site, "half-open", first, second), serving(site, "patient", first)
    assert subscribers(first) > 0

    for one in (agent, patient):
        one.links[0].silence()
        change(one, "second")
    site.hub.wait(lambda: applied(agent, "w") or None, "the status of the change, by the other server", NOTICED_WITHIN)
    site.hub.wait(lambda: serves(second) or None, "all streams to have moved", NOTICED_WITHIN)
    site.hub.wait(lambda: subscribers(first) == 0 or None, "the server to have freed what nobody reads", FREED_WITHIN)
    assert not applied(patient, "w")

    for one in (agent, patient):
        one.links[0].mend()
    site.hub.wait(lambda: applied(patient, "w") or None, "the status of the change, by the way that is mended", NOTICED_WITHIN)
    change(agent, "third")
    site.hub.wait(lambda: applied(agent, "w") or None, "the status of another change")
    assert (greeting(agent), greeting(patient)) == ("third", "second")
