"""The webhooks where they belong: called by an API server for real users, and asking it for their rights as the hub's account."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.http import server_context
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR
from muster.registration.hub.install import ACCOUNT, WebhookEndpoint, install
from muster.registration.hub.webhooks import register
from muster.registration.kinds import CLUSTER_SET_BINDINGS, MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_SET_LABEL, HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES
from muster.runtime.client.errors import BadRequest, Forbidden
from muster.runtime.webhook.certificates import ServingCertificate
from muster.runtime.webhook.server import WebhookServer

Document = dict[str, Any]
ADDONS_ALPHA = GVR("addon.open-cluster-management.io/v1alpha1", "managedclusteraddons", "ManagedClusterAddOn")
ADDONS_BETA = GVR("addon.open-cluster-management.io/v1beta1", "managedclusteraddons", "ManagedClusterAddOn")


class Hub:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.admin = self.user("admin", "system:masters")

    def user(self, name: str, *groups: str) -> InProcessClient:
        user = UserInfo(name, groups=(*groups, "system:authenticated"))
        return InProcessClient(self._server.client(self._server.clusters["hub"], user))

    async def let(self, user: str, *rules: tuple[str, str, tuple[str, ...]]) -> InProcessClient:
        """Give a user rights: (group, resource, verbs)."""
        listed = [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)} for group, resource, verbs in rules]
        await self.admin.create(CLUSTER_ROLES, {"metadata": {"name": user}, "rules": listed})
        api = "rbac.authorization.k8s.io"
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": user}
        subjects = [{"apiGroup": api, "kind": "User", "name": user}]
        await self.admin.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects})
        return self.user(user)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    hub = Hub(server)
    await hub.admin.create(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}})
    pair = await ServingCertificate(hub.admin, "serving", HUB_NAMESPACE, ("127.0.0.1",)).ensure()
    webhooks = WebhookServer(server_context(pair.cert, pair.key))
    await webhooks.start("127.0.0.1", 0)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}")
    register(webhooks, hub.user(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", *groups))
    await install(hub.admin, webhooks=WebhookEndpoint(pair.ca, f"https://127.0.0.1:{webhooks.port}"))
    yield hub
    await webhooks.stop(0.1)
    await server.stop(grace=0.1)


CLUSTERS = ("cluster.open-cluster-management.io", "managedclusters", ("create", "get", "update", "patch"))
ACCEPT = ("register.open-cluster-management.io", "managedclusters/accept", ("update",))
JOIN = ("cluster.open-cluster-management.io", "managedclustersets/join", ("create",))
BINDINGS = ("cluster.open-cluster-management.io", "managedclustersetbindings", ("create", "update", "patch"))
BIND = ("cluster.open-cluster-management.io", "managedclustersets/bind", ("create",))


def cluster(name: str = "c1", labels: Document | None = None, **spec: Any) -> Document:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    return {**kind, "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


async def test_a_new_cluster_gets_its_set_its_lease_duration_and_the_time_of_its_taints(hub: Hub) -> None:
    made = await hub.admin.create(MANAGED_CLUSTERS, cluster(taints=[{"key": "a", "effect": "NoSelect"}]))
    assert made["metadata"]["labels"] == {CLUSTER_SET_LABEL: "default"}
    assert made["spec"]["leaseDurationSeconds"] == 60
    assert made["spec"]["taints"][0]["timeAdded"]
    removed = await hub.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {CLUSTER_SET_LABEL: None}}})
    assert removed["metadata"]["labels"] == {CLUSTER_SET_LABEL: "default"}
    taint = {"key": "b", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"}
    with pytest.raises(BadRequest, match="not allowed to set TimeAdded"):
        await hub.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"taints": [taint]}})


async def test_bad_names_and_urls_are_bad_requests(hub: Hub) -> None:
    with pytest.raises(BadRequest, match=r"metadata\.name format is not correct"):
        await hub.admin.create(MANAGED_CLUSTERS, cluster("a.b"))
    with pytest.raises(BadRequest, match='url "http://x" is invalid'):
        await hub.admin.create(MANAGED_CLUSTERS, cluster(managedClusterClientConfigs=[{"url": "http://x"}]))


async def test_rights_to_accept_to_deny_and_to_move_are_the_requesters_own(hub: Hub) -> None:
    plain = await hub.let("plain", CLUSTERS, JOIN)
    accepting = await hub.let("accepting", CLUSTERS, JOIN, ACCEPT)
    unset = await hub.let("unset", CLUSTERS)
    with pytest.raises(Forbidden, match='user "unset" cannot add/remove a ManagedCluster to/from ManagedClusterSet "default"'):
        await unset.create(MANAGED_CLUSTERS, cluster())
    with pytest.raises(Forbidden, match='user "plain" cannot update the HubAcceptsClient field'):
        await plain.create(MANAGED_CLUSTERS, cluster(hubAcceptsClient=True))
    await plain.create(MANAGED_CLUSTERS, cluster())
    accept, deny = {"spec": {"hubAcceptsClient": True}}, {"spec": {"hubAcceptsClient": False}}
    with pytest.raises(Forbidden):
        await plain.patch(MANAGED_CLUSTERS, "c1", accept)
    await accepting.patch(MANAGED_CLUSTERS, "c1", accept)
    await unset.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"any": "thing"}}})
    with pytest.raises(Forbidden, match='user "plain" cannot update the HubAcceptsClient field'):
        await plain.patch(MANAGED_CLUSTERS, "c1", deny)
    with pytest.raises(Forbidden, match="cannot add/remove"):
        await unset.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {CLUSTER_SET_LABEL: "other"}}})
    moved = await plain.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {CLUSTER_SET_LABEL: "other"}}})
    assert moved["metadata"]["labels"][CLUSTER_SET_LABEL] == "other"


async def test_a_right_given_after_a_refusal_holds_at_once(hub: Hub) -> None:
    await hub.admin.create(MANAGED_CLUSTERS, cluster())
    late = hub.user("late")
    await hub.let("late", CLUSTERS)
    with pytest.raises(Forbidden):
        await late.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})
    await hub.admin.patch(
        CLUSTER_ROLES,
        "late",
        {"rules": [{"apiGroups": [group], "resources": [one], "verbs": list(verbs)} for group, one, verbs in (CLUSTERS, ACCEPT)]},
    )
    await late.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})


async def test_an_agent_may_let_its_cluster_go_and_not_bring_it_back(hub: Hub) -> None:
    name = "system:open-cluster-management:c1:agent"
    await hub.let(name, CLUSTERS)
    agent = hub.user(name, "system:open-cluster-management:c1", "system:open-cluster-management:managed-clusters")
    await hub.admin.create(MANAGED_CLUSTERS, cluster(hubAcceptsClient=True))
    await hub.admin.create(MANAGED_CLUSTERS, cluster("c2", hubAcceptsClient=True))
    await agent.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
    with pytest.raises(Forbidden, match="cannot update the HubAcceptsClient field"):
        await agent.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})
    with pytest.raises(Forbidden, match="cannot update the HubAcceptsClient field"):
        await agent.patch(MANAGED_CLUSTERS, "c2", {"spec": {"hubAcceptsClient": False}})


async def test_a_cluster_is_not_accepted_into_a_namespace_that_is_going(hub: Hub) -> None:
    await hub.admin.create(NAMESPACES, {"metadata": {"name": "c1"}, "spec": {"finalizers": ["kubernetes", "test.example/hold"]}})
    await hub.admin.delete(NAMESPACES, "c1")
    with pytest.raises(Forbidden, match='cluster namespace "c1" is terminating'):
        await hub.admin.create(MANAGED_CLUSTERS, cluster(hubAcceptsClient=True))
    await hub.admin.create(MANAGED_CLUSTERS, cluster())


async def test_bindings_are_named_as_their_set_and_made_by_those_who_may(hub: Hub) -> None:
    kind = {"apiVersion": CLUSTER_SET_BINDINGS.api_version, "kind": CLUSTER_SET_BINDINGS.kind}
    blue = {**kind, "metadata": {"name": "blue", "namespace": "default"}, "spec": {"clusterSet": "blue"}}
    binder, other = await hub.let("binder", BINDINGS, BIND), await hub.let("other", BINDINGS)
    with pytest.raises(BadRequest, match="must have the same name"):
        await binder.create(CLUSTER_SET_BINDINGS, {**blue, "spec": {"clusterSet": "red"}})
    with pytest.raises(Forbidden, match='user "other" is not allowed to bind cluster set "blue"'):
        await other.create(CLUSTER_SET_BINDINGS, blue)
    await binder.create(CLUSTER_SET_BINDINGS, blue)
    await other.patch(CLUSTER_SET_BINDINGS, "blue", {"metadata": {"labels": {"a": "b"}}}, "default")
    with pytest.raises(BadRequest, match="must have the same name"):
        await binder.patch(CLUSTER_SET_BINDINGS, "blue", {"spec": {"clusterSet": "red"}}, "default")


async def test_addons_are_read_in_either_version_whichever_they_were_written_in(hub: Hub) -> None:
    addon = {
        "apiVersion": ADDONS_ALPHA.api_version,
        "kind": ADDONS_ALPHA.kind,
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"installNamespace": "there"},
    }
    await hub.admin.create(ADDONS_ALPHA, addon)
    beta = await hub.admin.get(ADDONS_BETA, "hello", "default")
    assert "installNamespace" not in beta["spec"]
    await hub.admin.patch(ADDONS_BETA, "hello", {"metadata": {"labels": {"a": "b"}}}, "default")
    alpha = await hub.admin.get(ADDONS_ALPHA, "hello", "default")
    assert alpha["spec"]["installNamespace"] == "there"
    assert alpha["metadata"]["labels"] == {"a": "b"}
