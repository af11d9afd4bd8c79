"""The permissions of agents, word for word: a rule more is a hole, a rule less breaks agents of other makes."""

import pytest

from muster.machinery.objects import Object
from muster.registration.hub.clusters import rbac
from muster.registration.names import CLUSTER_LABEL


def rules(role: Object) -> list[tuple[object, ...]]:
    return [
        (",".join(rule["apiGroups"]), *rule["resources"], " ".join(rule["verbs"]), *rule.get("resourceNames", ()))
        for rule in role["rules"]
    ]


def test_the_roles_that_all_clusters_share() -> None:
    registration, work = rbac.common_roles({"team": "blue"})
    assert registration.body["metadata"] == {
        "name": "open-cluster-management:managedcluster:registration",
        "labels": {"team": "blue", CLUSTER_LABEL: ""},
    }
    assert rules(registration.body) == [
        ("coordination.k8s.io", "leases", "get list watch update"),
        ("addon.open-cluster-management.io", "managedclusteraddons", "get list watch"),
        ("addon.open-cluster-management.io", "managedclusteraddons/status", "patch update"),
        ("events.k8s.io", "events", "create"),
    ]
    assert work.key.name == "open-cluster-management:managedcluster:work"
    assert rules(work.body) == [
        (",events.k8s.io", "events", "create patch update"),
        ("work.open-cluster-management.io", "manifestworks", "get list watch update patch"),
        ("work.open-cluster-management.io", "manifestworks/status", "patch update"),
    ]


def test_a_clusters_own_role_names_itself_alone() -> None:
    accepted = rbac.own_role("c1", {}, accepted=True).body
    assert rules(accepted) == [
        ("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
        ("register.open-cluster-management.io", "managedclusters/clientcertificates", "renew"),
        ("cluster.open-cluster-management.io", "managedclusters", "get list update watch", "c1"),
        ("cluster.open-cluster-management.io", "managedclusters/status", "patch update", "c1"),
    ]
    denied = rbac.own_role("c1", {}, accepted=False).body
    assert rules(denied) == [("cluster.open-cluster-management.io", "managedclusters", "get list watch", "c1")]


ALL = rbac.AgentSubjects("uid", by_group=True)
"""Agents that are told apart by nothing."""


def subjects(agents: rbac.AgentSubjects) -> list[list[tuple[str, str]]]:
    bindings = (rbac.own_binding("c1", {}, agents), *rbac.namespace_bindings("c1", {}, agents))
    return [[(one["kind"], one["name"]) for one in binding.body["subjects"]] for binding in bindings]


def test_where_agents_are_not_told_apart_every_binding_names_both_groups_of_the_cluster_and_nobody_else() -> None:
    groups = [("Group", "system:open-cluster-management:c1"), ("Group", "open-cluster-management:c1")]
    assert subjects(ALL) == [groups] * 3


def test_where_they_are_every_binding_names_them_and_not_their_group() -> None:
    users = ["system:open-cluster-management:c1:one", "system:open-cluster-management:c1:two"]
    named = [("Group", "open-cluster-management:c1"), *(("User", user) for user in users)]
    assert subjects(rbac.AgentSubjects("uid", frozenset(users))) == [named] * 3


def test_a_binding_says_for_which_managed_cluster_it_is() -> None:
    metadata = rbac.own_binding("c1", {}, ALL).body["metadata"]
    assert metadata["annotations"] == {"cluster.open-cluster-management.io/muster-cluster-uid": "uid"}


def test_only_the_work_agents_binding_is_held() -> None:
    registration, work = rbac.namespace_bindings("c1", {}, ALL)
    assert "finalizers" not in registration.body["metadata"]
    assert work.body["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/manifest-work-cleanup"]
    assert {binding.key.namespace for binding in (registration, work)} == {"c1"}


def test_labels_of_the_administrator_cannot_replace_the_clusters() -> None:
    assert rbac.namespace("c1", {CLUSTER_LABEL: "c2"}).body["metadata"]["labels"] == {CLUSTER_LABEL: "c1"}


@pytest.mark.parametrize(
    "name", ["c1", "local-cluster", "kube", "kubernetes", "default-1", "workers", "registrations", "1", "x" * 63]
)
def test_ordinary_names_are_fine(name: str) -> None:
    assert rbac.name_problem(name, "open-cluster-management-hub", is_new=True) == ""


@pytest.mark.parametrize(
    "name", ["default", "kube-public", "kube-flannel", "open-cluster-management-agent", "open-cluster-management-agent-addon"]
)
def test_no_new_cluster_is_called_as_a_namespace_of_kubernetes_or_the_hub_and_old_ones_stay(name: str) -> None:
    assert "cannot name a cluster" in rbac.name_problem(name, "mine", is_new=True)
    if name != "kube-public":
        assert rbac.name_problem(name, "mine", is_new=False) == ""


@pytest.mark.parametrize(
    "name", ["", "C1", "a.b", "a:b", "x" * 64, "-a", "work", "registration", "managed-clusters", "kube-system", "mine"]
)
def test_names_that_would_reach_into_others_permissions_are_refused(name: str) -> None:
    assert "cannot name a cluster" in rbac.name_problem(name, "mine", is_new=False)


def test_more_labels_and_finalizers_are_no_drift_but_any_other_permission_is() -> None:
    wanted = rbac.own_role("c1", {}, accepted=True).body
    labels = {**wanted["metadata"]["labels"], "extra": "label"}
    metadata = {"name": wanted["metadata"]["name"], "labels": labels, "finalizers": ["some/body"], "uid": "1"}
    assert rbac.holds({**wanted, "metadata": metadata}, wanted)
    assert not rbac.holds({**wanted, "metadata": metadata, "rules": [*wanted["rules"], wanted["rules"][0]]}, wanted)
    assert not rbac.holds({**wanted, "metadata": metadata, "aggregationRule": {}}, wanted)
    assert not rbac.holds({**wanted, "metadata": {"name": "x"}}, wanted)
    binding = rbac.namespace_bindings("c1", {}, ALL)[1].body
    assert not rbac.holds({**binding, "subjects": None}, binding)
    assert not rbac.holds({**binding, "metadata": {**binding["metadata"], "finalizers": []}}, binding)
