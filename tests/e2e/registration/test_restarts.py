"""Agents and hubs that are killed at the worst moment go on where they were: one identity, one request, nothing lost."""

from __future__ import annotations

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import RBAC, certificate_of
from tests.support.crowd import Crowd
from tests.support.registration import Agent
from tests.support.sites import beside_kube

pytestmark = beside_kube

CLUSTERS = {
    "apiGroups": ["cluster.open-cluster-management.io"],
    "resources": ["managedclusters", "managedclustersets/join"],
    "verbs": ["get", "list", "watch", "create"],
}
REQUESTS = {
    "apiGroups": ["certificates.k8s.io"],
    "resources": ["certificatesigningrequests"],
    "verbs": ["get", "list", "watch", "create"],
}


def again(agent: Agent) -> None:
    agent.kill()
    agent.start()


def test_an_agent_killed_after_every_step_joins_with_one_key_and_one_request(fleet: Fleet) -> None:
    hub = fleet.hub
    # Somebody who may not ask yet can only get as far as choosing a key.
    hesitant = hub.account("hesitant", [CLUSTERS, {**REQUESTS, "verbs": ["get", "list", "watch"]}])
    agent = fleet.agent("cat", hesitant)
    hub.wait(lambda: "key" in agent.pending, "a key to be stored before it is used")
    chosen = agent.pending
    assert agent.secret == {}
    agent.kill()
    assert hub.requests("cat") == []
    hub.account("hesitant", [CLUSTERS, REQUESTS])

    agent.start()
    hub.wait(lambda: hub.find("cat"), "the ManagedCluster")
    again(agent)
    (request,) = hub.wait(lambda: hub.requests("cat"), "the request")
    assert request["metadata"]["name"] == chosen["name"].decode()
    again(agent)
    agent.kill()
    assert agent.secret == {}, "there is none before there is a credential"
    hub.decide(request)
    hub.wait(lambda: certificate_of(hub.requests("cat")[0]), "the certificate to be signed while the agent is dead")
    agent.start()
    hub.wait(lambda: "tls.crt" in agent.secret, "the certificate to be stored")
    again(agent)
    hub.accept("cat", lease=1)
    hub.wait_available("cat")
    hub.wait_renewed("cat")
    again(agent)
    hub.wait_renewed("cat", times=2)

    kept = agent.secret
    assert agent.pending == {}
    assert kept["tls.key"] == chosen["key"]
    assert kept["agent-name"] == chosen["agent-name"]
    assert [each["metadata"]["name"] for each in hub.requests("cat")] == [chosen["name"].decode()]


def test_a_hub_killed_again_and_again_while_clusters_join_forgets_none(fleet: Fleet) -> None:
    hub = fleet.hub
    with Crowd(fleet.spoke, hub, "herd", 20) as crowd:
        for joined in (1, 8, 15):
            crowd.wait_available(joined, 60)
            hub.restart(kill=True)
        crowd.wait_available(20, 60)
        assert {name: len(hub.requests(name)) for name in crowd.names} == dict.fromkeys(crowd.names, 1)


def test_permissions_of_a_cluster_that_vanished_while_the_hub_was_down_are_taken_away(fleet: Fleet) -> None:
    hub = fleet.hub
    fleet.joined("vanished")
    role = f"{RBAC}/clusterroles/open-cluster-management:managedcluster:vanished"
    hub.stop(kill=True)
    try:
        # A cluster under finalizers whose keeper is down goes only by force, which its webhooks must not hinder.
        with hub.without_webhooks():
            hub.delete("vanished")
            hub.wait(lambda: hub.patch("vanished", {"metadata": {"finalizers": None}}).status in (200, 404), "force to help")
            hub.wait_gone("vanished")
        hub.admin.get(role).expect(200)
    finally:
        hub.start()
    hub.wait(lambda: hub.admin.get(role).status == 404, "the cluster's role to be removed")
