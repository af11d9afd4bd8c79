"""Virtual verbs by a hub's own RBAC, asked by SubjectAccessReviews."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.fleet.in_process import InProcessClient
from muster.gateway.authorization import AuthorizationOptions, GatewayAuthorizer, HubAccess
from muster.gateway.authorization.authorizer import DEFAULTS
from muster.gateway.request_decision import Granted, Refused
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.objects import GVR
from muster.runtime.auth import AccessReviewer
from tests.support.in_process import serving
from tests.unit.gateway.authorization.hub import USER1, path, request, resource

API = "rbac.authorization.k8s.io"
ROLES = GVR(f"{API}/v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_BINDINGS = GVR(f"{API}/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
BINDINGS = GVR(f"{API}/v1", "rolebindings", "RoleBinding")
NAMESPACES = GVR("v1", "namespaces", "Namespace", namespaced=False)


class Hub:
    def __init__(self, client: InProcessClient) -> None:
        self.client = client
        self.reviewer = AccessReviewer(client)

    async def grant(self, name: str, rule: dict[str, Any], namespace: str = "") -> None:
        await self.client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]})
        binding = {
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
            "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": API, "kind": "Group", "name": "team"}],
        }
        await self.client.create(BINDINGS if namespace else CLUSTER_BINDINGS, binding, namespace)

    async def allows(
        self, cluster: str, verb: str, what: str, who: UserInfo = USER1, /, options: AuthorizationOptions = DEFAULTS, **fields: str
    ) -> bool:
        judge = GatewayAuthorizer(HubAccess(self.reviewer), options)
        inner = path(what, verb) if what.startswith("/") else resource(verb, what, **fields)
        verdict = await judge.authorize(who, cluster, inner, request())
        assert isinstance(verdict, Granted | Refused)
        assert isinstance(verdict, Granted) or verdict.answer.status == 403
        return isinstance(verdict, Granted)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with serving("default") as server:
        yield Hub(InProcessClient(server.client(server.clusters["default"])))


async def test_rules_with_virtual_verbs_open_what_they_say_on_the_cluster_they_name(hub: Hub) -> None:
    await hub.grant("some", {"verbs": ["foo/get"], "apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["default"]})
    await hub.grant("none", {"verbs": ["foo/*"], "apiGroups": ["apps"], "resources": ["*"]})
    await hub.grant("all", {"verbs": ["*"], "apiGroups": ["batch"], "resources": ["*"]})
    await hub.grant("paths", {"verbs": ["foo/get"], "nonResourceURLs": ["/metrics/*"]})
    assert await hub.allows("foo", "get", "namespaces", namespace="default", name="default")
    assert not await hub.allows("foo", "get", "namespaces", namespace="kube-system", name="kube-system")
    assert not await hub.allows("foo", "list", "namespaces")
    assert not await hub.allows("bar", "get", "namespaces", namespace="default", name="default")
    assert not await hub.allows("foo", "get", "deployments", group="apps", name="d")
    assert await hub.allows("foo", "delete", "jobs", group="batch", name="j")
    assert await hub.allows("bar", "delete", "jobs", group="batch", name="j")
    assert await hub.allows("foo", "get", "/metrics/cadvisor")
    assert not await hub.allows("bar", "get", "/metrics/cadvisor")
    assert not await hub.allows("foo", "get", "namespaces", UserInfo("intruder"), namespace="default", name="default")


async def test_an_answer_is_asked_for_once(hub: Hub) -> None:
    for _ in range(3):
        assert not await hub.allows("foo", "get", "pods", name="p")
    assert (hub.reviewer.cache.hits, hub.reviewer.cache.misses) == (2, 1)


async def test_administrators_of_the_hub_are_those_of_its_clusters(hub: Hub) -> None:
    assert await hub.allows("foo", "delete", "nodes", UserInfo("root", groups=(MASTERS,)), name="n")


async def test_a_role_binding_on_the_hub_counts_for_the_namespace_of_that_name_unless_it_is_switched_off(hub: Hub) -> None:
    await hub.client.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    await hub.grant("in-namespace", {"verbs": ["foo/get"], "apiGroups": [""], "resources": ["pods"]}, "team-a")
    assert await hub.allows("foo", "get", "pods", namespace="team-a", name="p")
    assert not await hub.allows("foo", "get", "pods", namespace="team-b", name="p")
    assert not await hub.allows("bar", "get", "pods", namespace="team-a", name="p")
    off = AuthorizationOptions(hub_namespaces=False)
    assert not await hub.allows("foo", "get", "pods", options=off, namespace="team-a", name="p")


async def test_whoever_may_get_a_gateway_may_discover_its_cluster(hub: Hub) -> None:
    resources = {"apiGroups": ["proxy.open-cluster-management.io"], "resources": ["clustergateways/proxy"]}
    assert not await hub.allows("foo", "get", "/apis")
    hub.reviewer.cache.clear()
    await hub.grant("use", {"verbs": ["get"], **resources, "resourceNames": ["foo"]})
    assert await hub.allows("foo", "get", "/apis")
    assert not await hub.allows("bar", "get", "/apis")
    assert not await hub.allows("foo", "list", "pods")
