"""Who may read what of the hub: each cluster's own user, what administrators grant it, and nobody else's rights."""

from __future__ import annotations

import pytest

from muster.policy.names import STANDALONE_ADDON
from tests.support.administrator import MANAGED_CLUSTERS
from tests.support.policies import ManagedCluster, PolicyHub, config_map, identity, path, refused


def color(shop: str, name: str = "settings") -> str:
    return f'{{{{hub fromConfigMap "{shop}" "{name}" "color" hub}}}}'


@pytest.fixture
def closed(hub: PolicyHub, c1: ManagedCluster) -> str:
    """A namespace of the hub that nobody was let into."""
    name = hub.namespace()
    hub.settings(name, color="red")
    return name


def test_a_missing_right_is_named_and_heals_when_it_is_given(hub: PolicyHub, c1: ManagedCluster, closed: str, name: str) -> None:
    """A14 (goal 4): list and watch on the one object suffice; get alone and list alone do not."""
    policy = c1.bring_value(name, color(closed))
    c1.wait_status(policy, "NonCompliant", "ensure the client has the list and watch permissions for the query")
    message = c1.message(policy)
    assert f'User "{identity("c1").user}" cannot list resource "configmaps" in API group "" in the namespace "{closed}"' in message
    assert f"GroupVersion=v1, Kind=ConfigMap, Namespace={closed}, Name=settings" in message
    assert c1.saved_secret(policy) is None

    hub.grant("c1", closed, names=["settings"], verbs=["get"])
    hub.grant("c1", closed, names=["settings"], verbs=["get", "list"])
    c1.wait_status(policy, "NonCompliant", "cannot watch resource")
    assert c1.value(name) is None

    hub.grant("c1", closed, names=["settings"])
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "red"


def test_a_right_that_is_taken_back_ends_the_policy_and_what_was_kept(
    hub: PolicyHub, c1: ManagedCluster, closed: str, name: str
) -> None:
    """A16: at the latest when the watch is taken up anew."""
    granted = hub.grant("c1", closed)
    policy = c1.bring_value(name, color(closed))
    c1.wait_status(policy, "Compliant")
    hub.revoke(closed, granted)
    c1.link.cut()
    c1.link.mend()
    c1.wait_status(policy, "NonCompliant", "is forbidden")
    c1.wait(lambda: c1.saved_secret(policy) is None, "what was kept to go")
    c1.admin.patch(path("ConfigMap", "default", name), {"data": {"value": "drifted"}}).expect(200)
    c1.link.cut()
    try:
        c1.controller.restart()
        c1.wait_status(policy, "NonCompliant")
        assert c1.value(name) == "drifted", "a value that the hub has refused is not enforced, hub or no hub"
    finally:
        c1.link.mend()


class TestOtherClusters:
    """A15 (goal 4): c1 gets nothing that is c2's, neither by templates nor with the credential taken from the cluster."""

    def test_templates_of_one_cluster_do_not_read_what_the_other_may(
        self, hub: PolicyHub, c1: ManagedCluster, c2: ManagedCluster, closed: str, name: str
    ) -> None:
        hub.grant("c2", closed)
        mine, theirs = c1.bring_value(name, color(closed)), c2.bring_value(name, color(closed))
        c2.wait_status(theirs, "Compliant")
        c1.wait_status(mine, "NonCompliant", "is forbidden")
        assert c1.value(name) is None

    def test_the_other_managed_cluster_is_not_to_be_seen_by_a_template(
        self, c1: ManagedCluster, c2: ManagedCluster, name: str
    ) -> None:
        for number, wanted in enumerate(("c2", "")):
            text = f'{{{{hub lookup "cluster.open-cluster-management.io/v1" "ManagedCluster" "" "{wanted}" | toRawJson hub}}}}'
            policy = c1.bring_value(f"{name}-{number}", text)
            c1.wait_status(policy, "NonCompliant", "is forbidden")
            assert c1.value(f"{name}-{number}") is None

    def test_the_credential_shows_its_own_cluster_and_no_other(self, c1: ManagedCluster, c2: ManagedCluster) -> None:
        thief = c1.hub_client()
        listed = {"fieldSelector": "metadata.name=c1"}
        assert [one["metadata"]["name"] for one in thief.get(MANAGED_CLUSTERS, query=listed).expect(200)["items"]] == ["c1"]
        assert refused(thief.get(MANAGED_CLUSTERS))
        assert refused(thief.get(MANAGED_CLUSTERS, query={"fieldSelector": "metadata.name=c2"}))
        assert refused(thief.get(f"{MANAGED_CLUSTERS}/c2"))
        assert refused(thief.get(MANAGED_CLUSTERS, query={"fieldSelector": "metadata.name=c2", "watch": "true"}))

    @pytest.mark.parametrize(
        "place",
        [
            "/api/v1/secrets",
            "/api/v1/configmaps",
            "/api/v1/namespaces",
            "/api/v1/nodes",
            "/api/v1/namespaces/kube-system/secrets",
            "/api/v1/namespaces/c2/secrets",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        ],
    )
    def test_the_credential_shows_nothing_else(self, c1: ManagedCluster, place: str) -> None:
        assert refused(c1.hub_client().get(place))

    def test_the_credential_changes_nothing(self, hub: PolicyHub, c1: ManagedCluster, closed: str) -> None:
        hub.grant("c1", closed)
        thief = c1.hub_client()
        assert refused(thief.patch(f"{MANAGED_CLUSTERS}/c1", {"metadata": {"labels": {"cluster.x/set": "all"}}}))
        assert refused(thief.post(path("ConfigMap", closed), config_map("mine", closed, {})))
        assert refused(thief.patch(path("ConfigMap", closed, "settings"), {"data": {"color": "mine"}}))
        assert refused(thief.delete(path("ConfigMap", closed, "settings")))
        own = {"headers": {"Impersonate-User": identity("c2").user}}
        assert refused(thief.get(f"{MANAGED_CLUSTERS}/c2", **own))

    def test_the_name_of_the_cluster_is_not_for_a_policy_to_choose(
        self, hub: PolicyHub, c1: ManagedCluster, c2: ManagedCluster, closed: str, name: str
    ) -> None:
        """A policy that says it is another cluster's is still read with the rights of its own."""
        hub.grant("c2", closed)
        text = f'{{{{hub $c := "c2" hub}}}}{{{{hub fromConfigMap "{closed}" "settings" "color" hub}}}}'
        policy = c1.bring_value(name, text)
        c1.wait_status(policy, "NonCompliant", f"cluster:c1:addon:{STANDALONE_ADDON}")


def test_a_lookup_by_selector_needs_more_than_one_name(hub: PolicyHub, c1: ManagedCluster, closed: str, name: str) -> None:
    hub.grant("c1", closed, names=["settings"])
    text = f'{{{{hub len (lookup "v1" "ConfigMap" "{closed}" "").items hub}}}} found'
    policy = c1.bring_value(name, text)
    c1.wait_status(policy, "NonCompliant", "is forbidden")
    hub.grant("c1", closed)
    c1.wait_status(policy, "Compliant")
    assert (c1.value(name) or "").endswith(" found")
