"""The built-in controllers: namespaces, garbage, aggregation, definitions, tokens and certificates."""

import base64
import time
from datetime import UTC, datetime

import pytest
from cryptography import x509

from muster.apiserver.auth.access import Access
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.namespaces import deletion_conditions
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.kube.certificates import generate_key, signing_request, subject
from tests.support.in_process import serving
from tests.unit.apiserver.conftest import eventually

CONFIG_MAPS = object_path("v1", "configmaps", "default")


@pytest.fixture
def cluster(server: ApiServer) -> Cluster:
    return server.clusters["default"]


def owned(name: str, owner: dict[str, str], block: bool = False) -> dict[str, object]:
    reference = {**owner, "blockOwnerDeletion": block}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


async def reference_to(client: DirectClient, name: str) -> dict[str, str]:
    created = await client.create(CONFIG_MAPS, {"metadata": {"name": name}})
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": created["metadata"]["uid"]}


async def test_a_new_namespace_gets_its_account_and_the_root_ca(client: DirectClient, cluster: Cluster) -> None:
    await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
    await eventually(lambda: cluster.entry("/serviceaccounts", "team/default"), "default account")
    await eventually(lambda: cluster.entry("/configmaps", "team/kube-root-ca.crt"), "root CA")


async def test_a_deleted_namespace_takes_its_content_along(client: DirectClient, cluster: Cluster) -> None:
    await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
    await client.create(object_path("v1", "configmaps", "team"), {"metadata": {"name": "a"}})
    await client.delete(object_path("v1", "namespaces", "", "team"))
    await eventually(lambda: cluster.entry("/namespaces", "team") is None, "namespace gone")
    assert not cluster.store.list(cluster.name, "/configmaps", "team/")


async def test_a_deleted_namespace_keeps_its_content_for_a_while() -> None:
    """Clients that delete what they made, namespace and all, find their objects; then, as on a real cluster, the rest goes."""
    async with serving("default", namespace_grace_period=0.5) as server:
        cluster = server.clusters["default"]
        client = server.client(cluster)
        path = object_path("v1", "configmaps", "team")
        await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
        await client.create(path, {"metadata": {"name": "a"}})
        await client.create(path, {"metadata": {"name": "b"}})
        began = time.monotonic()
        await client.delete(object_path("v1", "namespaces", "", "team"))
        await client.merge(object_path("v1", "namespaces", "", "team"), {"metadata": {"labels": {"changed": "meanwhile"}}})
        await eventually(lambda: not cluster.store.list(cluster.name, "/configmaps", "team/"), "content gone")
        assert time.monotonic() - began >= 0.5
        await eventually(lambda: cluster.entry("/namespaces", "team") is None, "namespace gone")


async def test_pods_of_a_deleted_namespace_go_before_everything_else(client: DirectClient, cluster: Cluster) -> None:
    await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
    await eventually(lambda: cluster.entry("/serviceaccounts", "team/default"), "default account")
    spec = {"containers": [{"name": "a", "image": "none"}]}
    pods = object_path("v1", "pods", "team")
    await client.create(pods, {"metadata": {"name": "held", "finalizers": ["a.io/hold"]}, "spec": spec})
    await client.create(object_path("v1", "configmaps", "team"), {"metadata": {"name": "a"}})
    await client.delete(object_path("v1", "namespaces", "", "team"))

    def pods_remain() -> bool:
        conditions = ((cluster.read("/namespaces", "team") or {}).get("status") or {}).get("conditions") or ()
        return any("pods has 1 resource instances" in condition["message"] for condition in conditions)

    await eventually(pods_remain, "condition")
    assert cluster.entry("/configmaps", "team/a") is not None
    await client.merge(f"{pods}/held", {"metadata": {"finalizers": None}})
    await eventually(lambda: cluster.entry("/namespaces", "team") is None, "namespace gone")


async def test_a_namespace_waits_for_finalizers_and_says_so(client: DirectClient, cluster: Cluster) -> None:
    await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "team"}})
    path = object_path("v1", "configmaps", "team")
    await client.create(path, {"metadata": {"name": "held", "finalizers": ["a.io/hold"]}})
    await client.delete(object_path("v1", "namespaces", "", "team"))

    def reported() -> bool:
        namespace = cluster.read("/namespaces", "team") or {}
        conditions = {c["type"]: c for c in namespace.get("status", {}).get("conditions", ())}
        remaining = conditions.get("NamespaceFinalizersRemaining", {})
        return "a.io/hold in 1 resource instances" in remaining.get("message", "")

    await eventually(reported, "condition")
    await client.merge(f"{path}/held", {"metadata": {"finalizers": None}})
    await eventually(lambda: cluster.entry("/namespaces", "team") is None, "namespace gone")


def test_conditions_keep_their_time_while_nothing_changes() -> None:
    first = deletion_conditions({}, {"configmaps": 1}, {}, "2026-01-01T00:00:00Z")
    again = deletion_conditions({"status": {"conditions": first}}, {"configmaps": 1}, {}, "2026-01-02T00:00:00Z")
    assert again == first


async def test_dependents_follow_their_owner(client: DirectClient, cluster: Cluster) -> None:
    owner = await reference_to(client, "owner")
    await client.create(CONFIG_MAPS, owned("child", owner))
    await client.delete(f"{CONFIG_MAPS}/owner")
    await eventually(lambda: cluster.entry("/configmaps", "default/child") is None, "child gone")


async def test_a_dependent_of_an_owner_that_never_was_goes(client: DirectClient, cluster: Cluster) -> None:
    await client.create(CONFIG_MAPS, owned("child", {"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "no"}))
    await eventually(lambda: cluster.entry("/configmaps", "default/child") is None, "child gone")


async def test_a_dependent_with_a_living_owner_only_loses_the_dead_reference(client: DirectClient, cluster: Cluster) -> None:
    first, second = await reference_to(client, "first"), await reference_to(client, "second")
    await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "ownerReferences": [first, second]}})
    await client.delete(f"{CONFIG_MAPS}/first")

    def one_left() -> bool:
        child = cluster.read("/configmaps", "default/child")
        assert child is not None
        return [r["name"] for r in child["metadata"]["ownerReferences"]] == ["second"]

    await eventually(one_left, "one owner left")


async def test_orphans_stay(client: DirectClient, cluster: Cluster) -> None:
    owner = await reference_to(client, "owner")
    await client.create(CONFIG_MAPS, owned("child", owner))
    await client.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
    await eventually(lambda: cluster.entry("/configmaps", "default/owner") is None, "owner gone")
    child = cluster.read("/configmaps", "default/child")
    assert child is not None
    assert "ownerReferences" not in child["metadata"]


async def test_a_foreground_deletion_waits_for_blocking_dependents(client: DirectClient, cluster: Cluster) -> None:
    owner = await reference_to(client, "owner")
    held = owned("child", owner, block=True)
    held["metadata"]["finalizers"] = ["a.io/hold"]  # type: ignore[index]
    await client.create(CONFIG_MAPS, held)
    await client.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})

    def child_is_going() -> bool:
        child = cluster.read("/configmaps", "default/child")
        return child is not None and bool(child["metadata"].get("deletionTimestamp"))

    await eventually(child_is_going, "child marked")
    assert cluster.entry("/configmaps", "default/owner") is not None
    await client.merge(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    await eventually(lambda: cluster.entry("/configmaps", "default/owner") is None, "owner gone")


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_is_left_alone(client: DirectClient, cluster: Cluster) -> None:
    owner = await reference_to(client, "owner")
    roles = object_path("rbac.authorization.k8s.io/v1", "clusterroles")
    await client.create(roles, {"metadata": {"name": "kept", "ownerReferences": [owner]}})
    await client.delete(f"{CONFIG_MAPS}/owner")
    other = await reference_to(client, "witness")
    await client.create(CONFIG_MAPS, owned("swept", {**other, "uid": "wrong"}))
    await eventually(lambda: cluster.entry("/configmaps", "default/swept") is None, "collector went on")
    assert cluster.entry("rbac.authorization.k8s.io/clusterroles", "kept") is not None


async def test_an_aggregated_role_follows_its_parts(client: DirectClient, cluster: Cluster) -> None:
    roles = object_path("rbac.authorization.k8s.io/v1", "clusterroles")
    rule = {"apiGroups": ["a.io"], "resources": ["things"], "verbs": ["get"]}
    selector = {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}
    await client.create(roles, {"metadata": {"name": "whole"}, "aggregationRule": selector})
    await client.create(roles, {"metadata": {"name": "part", "labels": {"part": "yes"}}, "rules": [rule]})

    def rules() -> object:
        whole = cluster.read("rbac.authorization.k8s.io/clusterroles", "whole")
        return (whole or {}).get("rules")

    await eventually(lambda: rules() == [rule], "rule arrived")
    await client.delete(f"{roles}/part")
    await eventually(lambda: not rules(), "rule left")


def encoded_request(name: str, *groups: str) -> str:
    return base64.b64encode(signing_request(generate_key(), subject(name, groups))).decode()


async def test_an_approved_request_is_signed_by_the_clusters_ca(client: DirectClient, cluster: Cluster) -> None:
    path = object_path("certificates.k8s.io/v1", "certificatesigningrequests")
    spec = {
        "request": encoded_request("agent", "team"),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "expirationSeconds": 3600,
    }
    request = await client.create(path, {"metadata": {"name": "agent"}, "spec": spec})
    request["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}]}
    await client.update(f"{path}/agent/approval", request)

    def certificate() -> str:
        found = cluster.read("certificates.k8s.io/certificatesigningrequests", "agent") or {}
        return str(found.get("status", {}).get("certificate", ""))

    pem = base64.b64decode(await eventually(certificate, "certificate"))
    signed = x509.load_pem_x509_certificate(pem)
    keys = await cluster.part(Access).key_store.keys(datetime.now(UTC))
    assert keys.client_ca.signed(signed)
    assert (signed.not_valid_after_utc - datetime.now(UTC)).total_seconds() <= 3600


async def test_a_definition_is_served_and_its_instances_go_with_it(client: DirectClient, cluster: Cluster) -> None:
    definitions = object_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "demo.io", "scope": "Namespaced", "names": names, "versions": [version]}
    await client.create(definitions, {"metadata": {"name": "widgets.demo.io"}, "spec": spec})
    await eventually(lambda: cluster.resources.get("demo.io", "v1", "widgets"), "served")
    path = object_path("demo.io/v1", "widgets", "default")
    widget = {"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    assert (await client.create(path, widget))["spec"] == {"n": 1}
    await client.delete(f"{definitions}/widgets.demo.io")
    await eventually(lambda: cluster.resources.get("demo.io", "v1", "widgets") is None, "no longer served")
    assert cluster.store.count(cluster.name, "demo.io/widgets") == 0
    with pytest.raises(ApiError):
        await client.get(path)
