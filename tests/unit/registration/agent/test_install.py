"""Installing an agent: what it makes, that it may be repeated, and that the account has the rights it needs and no others."""

from typing import Any

from muster.registration.agent.install import ACCOUNT, install
from muster.registration.agent.options import AgentOptions
from muster.runtime.client.builtin import CRDS, NAMESPACES, SELF_ACCESS_REVIEWS, SERVICE_ACCOUNTS
from tests.unit.registration.agent.conftest import Fleet, Link


async def test_it_may_be_repeated_and_changes_nothing_then(fleet: Fleet) -> None:
    before = (await fleet.admin.get(CRDS, "clusterclaims.cluster.open-cluster-management.io"))["metadata"]
    await install(fleet.admin, AgentOptions())
    after = (await fleet.admin.get(CRDS, "clusterclaims.cluster.open-cluster-management.io"))["metadata"]
    assert after["resourceVersion"] == before["resourceVersion"]


async def test_agents_in_other_namespaces_do_not_take_each_others_rights(fleet: Fleet) -> None:
    await install(fleet.admin, AgentOptions(namespace="second"))
    assert await fleet.admin.get(NAMESPACES, "second")
    assert await fleet.admin.get(SERVICE_ACCOUNTS, ACCOUNT, "second")
    assert await _may(fleet, "list", "nodes")


async def test_the_account_may_do_what_an_agent_does_and_no_more(fleet: Fleet) -> None:
    assert await _may(fleet, "watch", "nodes")
    assert await _may(fleet, "watch", "clusterclaims", "cluster.open-cluster-management.io")
    assert await _may(fleet, "patch", "secrets", namespace="open-cluster-management-agent")
    assert await _may(fleet, "create", "events", "events.k8s.io", "open-cluster-management-agent")
    assert await _may(fleet, "update", "leases", "coordination.k8s.io", "open-cluster-management-agent")
    assert not await _may(fleet, "update", "leases", "coordination.k8s.io", "kube-system")
    assert not await _may(fleet, "get", "secrets", namespace="kube-system")
    assert not await _may(fleet, "list", "secrets")
    assert not await _may(fleet, "delete", "namespaces")
    assert not await _may(fleet, "create", "pods", namespace="open-cluster-management-agent")


async def _may(fleet: Fleet, verb: str, resource: str, group: str = "", namespace: str = "") -> bool:
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    review: dict[str, Any] = {"apiVersion": SELF_ACCESS_REVIEWS.api_version, "kind": SELF_ACCESS_REVIEWS.kind}
    answer = await Link(fleet.spoke, fleet.account).create(
        SELF_ACCESS_REVIEWS, {**review, "spec": {"resourceAttributes": attributes}}
    )
    return bool(answer["status"]["allowed"])
