"""The ManagedCluster that an agent makes, and what it adds to one that exists."""

from dataclasses import replace

import pytest

from muster.machinery.authentication import UserInfo
from muster.registration.agent.introduction import ReservedName, introduce, kept_right, new_cluster
from muster.registration.agent.options import AgentOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AgentIdentity
from muster.runtime.client.builtin import CLUSTER_ROLES
from tests.unit.registration.agent.conftest import Fleet, Link
from tests.unit.registration.agent.contexts import IdleDriver, context_of

BOOTSTRAP = UserInfo("bootstrap", groups=("system:authenticated",))


def test_a_new_cluster_has_annotations_addresses_and_the_drivers_marks() -> None:
    driver = IdleDriver()
    driver.annotations = {"agent.open-cluster-management.io/arn": "arn"}
    options = AgentOptions(
        cluster_annotations={"agent.open-cluster-management.io/a": "b", "foreign": "x"},
        external_server_urls=("https://c1",),
        external_ca=b"ca",
    )
    made = new_cluster("c1", options, driver)
    assert made["metadata"]["annotations"] == {
        "agent.open-cluster-management.io/a": "b",
        "agent.open-cluster-management.io/arn": "arn",
    }
    assert made["spec"] == {
        "hubAcceptsClient": False,
        "managedClusterClientConfigs": [{"url": "https://c1", "caBundle": "Y2E="}],
    }


def test_addresses_are_added_and_those_of_others_stay() -> None:
    theirs = {"url": "https://theirs", "caBundle": "eA=="}
    existing = {"metadata": {"name": "c1"}, "spec": {"managedClusterClientConfigs": [theirs]}}
    right = kept_right(existing, AgentOptions(external_server_urls=("https://theirs", "https://ours")), IdleDriver())
    assert [config["url"] for config in right["spec"]["managedClusterClientConfigs"]] == ["https://theirs", "https://ours"]
    assert right["spec"]["managedClusterClientConfigs"][0] == theirs


def test_a_cluster_that_lacks_nothing_stays_as_it_is() -> None:
    existing = {"metadata": {"name": "c1", "annotations": {"a": "b"}}, "spec": {"hubAcceptsClient": True}}
    annotated = AgentOptions(cluster_annotations={"agent.open-cluster-management.io/a": "b"})
    assert kept_right(existing, annotated, IdleDriver()) == existing


async def test_introducing_is_one_request_and_may_be_repeated(fleet: Fleet) -> None:
    hub = Link(fleet.hub, BOOTSTRAP)
    await introduce(hub, context_of(fleet))
    await introduce(hub, context_of(fleet))
    assert fleet.hub.requests == [("POST", "/apis/cluster.open-cluster-management.io/v1/managedclusters")] * 2
    assert await fleet.hub.cluster() is not None


async def test_an_identity_that_may_not_create_clusters_goes_on_all_the_same(fleet: Fleet) -> None:
    await fleet.hub.admin.patch(CLUSTER_ROLES, "bootstrap", {"rules": []})
    await introduce(Link(fleet.hub, BOOTSTRAP), context_of(fleet))
    assert await fleet.hub.cluster() is None


async def test_nobody_is_introduced_under_a_name_that_is_reserved_and_who_is_known_stays(fleet: Fleet) -> None:
    hub = Link(fleet.hub, BOOTSTRAP)
    context = replace(context_of(fleet), identity=AgentIdentity("default", "a"))
    with pytest.raises(ReservedName, match="'default' cannot name a cluster"):
        await introduce(hub, context)
    await fleet.hub.admin.create(MANAGED_CLUSTERS, {**new_cluster("default", AgentOptions(), IdleDriver())})
    await introduce(hub, context)
