"""For every field that the hub lets an agent write, values of every JSON type: its cluster can still be put out and removed."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.resource import TypedObject as Kind
from muster.api.structural import object_schema
from muster.api.work.v1 import ManifestWork
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.registration.hub.clusters import rbac
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.manager import CONTROLLERS
from muster.registration.hub.webhooks.managed_cluster import ManagedClusterWebhook
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.client.errors import BadRequest, Forbidden, Invalid
from muster.runtime.client.typed import served
from muster.runtime.webhook.server import AdmissionRequest
from tests.support.hostile import VALUES, Path, fields, written
from tests.unit.registration.hub.conftest import Play

MERGE = "application/merge-patch+json"
WRITTEN = {
    "certificates.k8s.io/certificatesigningrequests",
    "cluster.open-cluster-management.io/managedclusters",
    "cluster.open-cluster-management.io/managedclusters/status",
    "coordination.k8s.io/leases",
    "addon.open-cluster-management.io/managedclusteraddons/status",
    "events.k8s.io/events",
    "/events",
    "work.open-cluster-management.io/manifestworks",
    "work.open-cluster-management.io/manifestworks/status",
}
"""What agents may write: the fields of all that are looked at below. Built-in kinds are typed by the server itself."""


def paths(kind: type[Kind], part: str) -> list[Path]:
    return [path for path in fields(object_schema(kind)) if path[0] == part]


def test_no_other_kind_is_the_agents_to_write() -> None:
    roles = (rbac.own_role("any", {}, accepted=True), *rbac.common_roles({}))
    rules = [rule for role in roles for rule in role.body["rules"] if {"create", "update", "patch"} & set(rule["verbs"])]
    assert {f"{group}/{resource}" for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]} == WRITTEN


class Everybody:
    async def authorize(self, who: UserInfo, action: AccessAttributes) -> AccessDecision:
        return AccessDecision(True)


async def write(play: Play, path: str, kind: type[Kind], field: Path, value: str) -> bool:
    """As the server takes it: whether it does."""
    body = written(object_schema(kind), field, value).encode()
    try:
        await play.admin.exchange("PATCH", path, {}, body, MERGE, idempotent=False)
    except (BadRequest, Invalid):
        return False
    return True


async def deniable(play: Play, name: str) -> bool:
    """Whether the webhook lets an administrator put the cluster out, as it is stored now."""
    stored = await play.admin.get(MANAGED_CLUSTERS, name)
    denied = {**stored, "spec": {**stored.get("spec", {}), "hubAcceptsClient": False}}
    webhook = ManagedClusterWebhook(play.admin, Everybody(), play.clock)
    request = {"uid": "u", "operation": "UPDATE", "name": name, "object": denied, "oldObject": stored}
    verdicts = [await judge(AdmissionRequest.read(request)) for judge in (webhook.mutate, webhook.validate)]
    return all(verdict.allowed for verdict in verdicts)


@pytest.mark.parametrize("part", ["status", "spec"])
async def test_nothing_in_a_managed_cluster_keeps_the_hub_from_putting_it_out(play: Play, part: str) -> None:
    names = {f"{part}{index}": field for index, field in enumerate(paths(ManagedCluster, part))}
    taken = 0
    async with play.running(Acceptance, *CONTROLLERS.values()):
        for name in names:
            await play.create_cluster(name, accepts=True)
        for name in names:
            await play.until_condition(name, "True", "HubClusterAdminAccepted")
        for name, field in names.items():
            path = ManagedCluster.resource.path(name, subresource="status" if part == "status" else "")
            for value in VALUES:
                if await write(play, path, ManagedCluster, field, value):
                    taken += 1
                    assert await deniable(play, name), (field, value)
            ManagedCluster.decode(await play.admin.get(MANAGED_CLUSTERS, name))
        for name in names:
            await play.deny(name)
        for name in names:
            role = f"open-cluster-management:managedcluster:{name}"

            async def shrunk(role: str = role) -> bool:
                found = await play.get(CLUSTER_ROLES, role)
                return found is None or len(found["rules"]) == 1

            await play.until(shrunk)
            with pytest.raises(Forbidden):
                await play.agent(name).patch(MANAGED_CLUSTERS, name, {"status": {}}, subresource="status")
            await play.admin.delete(MANAGED_CLUSTERS, name)
        for name in names:
            await play.until_gone(MANAGED_CLUSTERS, name)
    assert taken > len(names)


@pytest.mark.parametrize("kind", [ManifestWork, ManagedClusterAddOn], ids=["works", "addons"])
async def test_nothing_in_the_status_of_works_and_addons_keeps_their_cluster(play: Play, kind: type[Kind]) -> None:
    resource = served(kind)
    async with play.running(Acceptance, *CONTROLLERS.values()):
        await play.create_cluster("c1", accepts=True)
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        body: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": {}}
        for index, field in enumerate(paths(kind, "status")):
            name = f"n{index}"
            await play.admin.create(resource, {**body, "metadata": {"name": name, "namespace": "c1"}})
            for value in VALUES:
                await write(play, kind.resource.path(name, "c1", "status"), kind, field, value)
                kind.decode(await play.admin.get(resource, name, "c1"))
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
    assert (await play.admin.list(MANIFEST_WORKS, "c1")).items == []


async def test_a_lease_that_says_nonsense_disturbs_nobody(play: Play) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease"
    async with play.running(Acceptance, *CONTROLLERS.values()):
        for name in ("c1", "c2"):
            await play.create_cluster(name, accepts=True)
            await play.until_condition(name, "True", "HubClusterAdminAccepted")
        for value in ('"0001-01-01T00:00:00.000000Z"', '"9999-12-31T23:59:59.999999Z"', "null"):
            for seconds in ("9223372036854775807", "2147483647", "-1", "0", "60"):
                spec = f'{{"spec":{{"renewTime":{value}}}}}'.encode()
                await play.admin.exchange("PATCH", lease, {}, spec, MERGE, idempotent=False)
                await play.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"leaseDurationSeconds": int(seconds)}})
                await play.at_rest()
        await play.deny("c1")
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await play.until_gone(MANAGED_CLUSTERS, "c1")
