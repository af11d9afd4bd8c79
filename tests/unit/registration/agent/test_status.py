"""What the hub is told of a cluster, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.api import merge_patch
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.api.meta import Condition
from muster.machinery.authentication import UserInfo
from muster.registration.agent.reports.health import HEALTHY
from muster.registration.agent.reports.lease import LeaseKeeper
from muster.registration.agent.reports.resources import Resources
from muster.registration.agent.reports.status import ClusterFacts, StatusReporter, observed
from muster.registration.drivers.interfaces import CredentialReport
from muster.registration.kinds import CLUSTER_CLAIMS, MANAGED_CLUSTERS
from muster.runtime.cache.informer import Informer
from muster.runtime.client.builtin import EVENTS, NAMESPACES
from muster.runtime.controller.events import EventRecorder
from tests.unit.registration.agent.conftest import Fleet, Link, until
from tests.unit.registration.agent.contexts import IdleDriver, context_of

AGENT = UserInfo("system:open-cluster-management:c1:a", groups=("system:open-cluster-management:c1", "system:authenticated"))
NOW = "2026-01-01T00:00:00Z"


def cluster(**status: Any) -> ManagedCluster:
    accepted = {"type": "HubAcceptedManagedCluster", "status": "True", "reason": "x", "lastTransitionTime": NOW}
    conditions = [accepted, *status.pop("conditions", ())]
    return ManagedCluster.decode({"metadata": {"name": "c1"}, "status": {"conditions": conditions, **status}})


def test_a_first_report_is_whole_and_one_patch() -> None:
    facts = ClusterFacts(HEALTHY, "v1.35.0", Resources({"cpu": "4"}, {"cpu": "3"}), (), None, None)
    patch = merge_patch(cluster(), observed(cluster(), facts, NOW))["status"]
    assert [condition["type"] for condition in patch["conditions"]][1:] == ["ManagedClusterJoined", AVAILABLE]
    assert patch["version"] == {"kubernetes": "v1.35.0"}
    assert (patch["capacity"], patch["allocatable"]) == ({"cpu": "4"}, {"cpu": "3"})


def test_what_is_known_already_is_not_said_again() -> None:
    facts = ClusterFacts(HEALTHY, "v1.35.0", Resources({"cpu": "4"}, {"cpu": "3"}), (), None, None)
    told = observed(cluster(), facts, NOW)
    assert merge_patch(told, observed(told, facts, "2026-01-01T00:01:00Z")) == {}


def test_joining_is_said_once_and_never_taken_back() -> None:
    joined = {"type": "ManagedClusterJoined", "status": "True", "reason": "Other", "message": "m", "lastTransitionTime": NOW}
    before = cluster(conditions=[joined])
    assert observed(before, ClusterFacts(), NOW).status.conditions == before.status.conditions


def test_of_an_unavailable_cluster_only_that_is_said() -> None:
    down = Condition(type=AVAILABLE, status="False", reason="ManagedClusterKubeAPIServerUnavailable", message="m")
    facts = ClusterFacts(down, "v2", Resources({"cpu": "0"}, {}), (), None, None)
    patch = merge_patch(cluster(version={"kubernetes": "v1"}), observed(cluster(version={"kubernetes": "v1"}), facts, NOW))
    assert set(patch["status"]) == {"conditions"}


def test_capacities_of_others_stay_and_ours_go_with_the_last_node_that_had_them() -> None:
    before = cluster(capacity={"cpu": "8", "gpu": "1", "socket_worker": "2"}, allocatable={"cpu": "7", "gpu": "1"})
    after = observed(before, ClusterFacts(HEALTHY, "", Resources({"cpu": "4"}, {"cpu": "3"})), NOW)
    assert after.status.capacity == {"cpu": "4", "socket_worker": "2"}
    assert after.status.allocatable == {"cpu": "3"}


def test_a_clock_that_the_hub_finds_wrong_keeps_nothing_from_being_said() -> None:
    clock = {"type": "ManagedClusterConditionClockSynced", "status": "False", "reason": "x", "lastTransitionTime": NOW}
    patch = merge_patch(cluster(conditions=[clock]), observed(cluster(conditions=[clock]), ClusterFacts(HEALTHY), NOW))
    assert AVAILABLE in [condition["type"] for condition in patch["status"]["conditions"]]


@asynccontextmanager
async def reporting(fleet: Fleet, driver: IdleDriver | None = None, **options: Any) -> AsyncIterator[StatusReporter]:
    """A reporter of an accepted cluster on the hub."""
    if await fleet.hub.cluster() is None:
        kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
        await fleet.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}})
        await fleet.hub.accept()
    context, hub = context_of(fleet, driver, **options), Link(fleet.hub, AGENT)
    clusters: Informer[ManagedCluster] = Informer(
        hub, MANAGED_CLUSTERS, field_selector="metadata.name=c1", decode=ManagedCluster.decode, clock=fleet.clock
    )
    events = EventRecorder(hub, "klusterlet-agent", "a", clock=fleet.clock)
    lease = LeaseKeeper(context, hub, clusters)
    reporter = StatusReporter(context, hub, clusters, lease, events, "0123456789")
    lease.on_answered(reporter.wake)
    runs = [part.run() for part in (clusters, context.informers, lease, reporter, events, context.events)]
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        yield reporter
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def status(fleet: Fleet) -> dict[str, Any]:
    return (await fleet.hub.cluster() or {}).get("status") or {}


async def test_the_first_report_on_a_cluster_with_nodes_and_claims_is_one_request(fleet: Fleet) -> None:
    await fleet.add_node("n1", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3500m", "memory": "7Gi"})
    await fleet.add_node("n2", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3500m", "memory": "7Gi"}, unschedulable=True)
    await claim(fleet, "id.k8s.io", "abc")
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        found = await status(fleet)
        assert found["capacity"] == {"cpu": "8", "memory": "16Gi"}
        assert found["allocatable"] == {"cpu": "3500m", "memory": "7Gi"}
        assert found["clusterClaims"] == [{"name": "id.k8s.io", "value": "abc"}]
        assert found["version"]["kubernetes"].startswith("v1.")
        await fleet.advance(30)
        assert fleet.hub.count("PATCH", "/status") == 1


async def test_an_idle_cluster_is_looked_at_once_per_period_and_not_spoken_of(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        await fleet.advance(5)
        fleet.hub.requests.clear()
        fleet.spoke.requests.clear()
        await fleet.advance(600)
        assert fleet.hub.count("PATCH", "") == 0
        assert fleet.spoke.count("GET", "/livez") == 10
        assert fleet.spoke.count("GET", "/version") == 2
        assert len(fleet.spoke.requests) <= 18


async def test_changes_of_nodes_and_claims_are_told_at_once(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        await fleet.add_node("n1", {"cpu": "4"}, {"cpu": "4"})
        await claim(fleet, "zone", "z1")
        await until(lambda: _has(fleet, "capacity", {"cpu": "4"}), "the capacity")
        await until(lambda: _has(fleet, "clusterClaims", [{"name": "zone", "value": "z1"}]), "the claim")


async def test_a_failing_api_server_is_told_after_twenty_seconds_and_its_recovery_too(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        fleet.spoke.cut.set()
        await fleet.advance(75)
        assert await fleet.hub.available()
        await fleet.advance(10)
        wanted = "False/ManagedClusterKubeAPIServerUnavailable"
        await until(lambda: _condition(fleet, AVAILABLE, wanted), "the cluster being unavailable")
        conditions = (await status(fleet))["conditions"]
        message = next(one["message"] for one in conditions if one["type"] == AVAILABLE)
        assert message.startswith("The kube-apiserver is not ok, status code: 0, ")
        fleet.spoke.cut.clear()
        await fleet.advance(65)
        await until(fleet.hub.available, "the cluster being available again")
        await until(lambda: _events(fleet, {"Available", "Unavailable"}), "events about both")


async def test_what_the_hub_called_unknown_is_available_again_only_after_a_renewed_lease(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        await fleet.advance(65)
        before = await fleet.hub.renewed()
        await fleet.hub.set_condition(AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped")
        await fleet.advance(40)
        await until(fleet.hub.available, "the cluster being available again")
        assert await fleet.hub.renewed() > before


async def test_a_conflict_is_decided_anew(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        for number in range(5):
            await claim(fleet, f"c{number}", "x")
            await fleet.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"n": str(number)}}})
        await fleet.advance(20, step=1)
        await until(lambda: _claims(fleet, 5), "five claims")


async def test_a_denied_cluster_is_neither_looked_at_nor_spoken_of(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        await fleet.hub.deny()
        await fleet.advance(5)
        fleet.hub.requests.clear()
        fleet.spoke.requests.clear()
        await fleet.advance(300)
        assert fleet.spoke.count("GET", "/livez") == 0
        assert fleet.hub.count("PATCH", "") == 0


async def test_a_report_about_the_credential_becomes_a_condition(fleet: Fleet) -> None:
    async with reporting(fleet) as reporter:
        await until(fleet.hub.available, "the cluster being available")
        reporter.report(
            CredentialReport(False, "ClientCertificateUpdateFailed", "too many requests", "ClientCertificateCreationHalted")
        )
        wanted = "False/ClientCertificateUpdateFailed"
        await until(lambda: _condition(fleet, "ClusterCertificateRotated", wanted), "the condition")


async def test_an_existing_cluster_gets_what_the_agent_answers_for(fleet: Fleet) -> None:
    driver = IdleDriver()
    driver.annotations = {"agent.open-cluster-management.io/arn": "arn:x"}
    async with reporting(fleet, driver, external_server_urls=("https://c1.example",), external_ca=b"ca"):
        await until(lambda: _urls(fleet, ["https://c1.example"]), "the way to reach it")
    found = await fleet.hub.cluster() or {}
    assert found["metadata"]["annotations"] == driver.annotations
    assert found["spec"]["hubAcceptsClient"] is True
    assert fleet.hub.count("PUT", "/managedclusters/") == 1


async def test_namespaces_of_cluster_sets_are_kept_and_let_go(fleet: Fleet) -> None:
    label = "clusterset.open-cluster-management.io/0123456789"
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        entries = [{"clusterSet": "s", "name": "team"}]
        await fleet.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"managedNamespaces": entries}}, subresource="status")
        await until(lambda: _namespace_condition(fleet), "a condition")
        made = await fleet.admin.get(NAMESPACES, "team")
        assert made["metadata"]["labels"][label] == "true"
        assert await _namespace_condition(fleet) == "True/NamespaceApplied"
        await fleet.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"managedNamespaces": []}}, subresource="status")
        await until(lambda: _label(fleet, "team", label, "false"), "the label being taken back")


async def test_without_managed_namespaces_none_are_asked_for(fleet: Fleet) -> None:
    async with reporting(fleet):
        await until(fleet.hub.available, "the cluster being available")
        await fleet.advance(300)
    assert fleet.spoke.count("GET", "/namespaces") <= 1


async def test_too_many_claims_are_cut_and_an_event_says_so(fleet: Fleet) -> None:
    for number in range(4):
        await claim(fleet, f"c{number}", "x")
    await claim(fleet, "own.example", "x")
    async with reporting(fleet, max_custom_claims=2, reserved_claim_suffixes=(".example",)):
        await until(lambda: _claims(fleet, 3), "claims")
        names = [one["name"] for one in (await status(fleet))["clusterClaims"]]
        assert names == ["own.example", "c0", "c1"]
        found = await until(lambda: _spoke_events(fleet), "an event")
        assert found[0]["reason"] == "CustomClusterClaimsTruncated"


async def claim(fleet: Fleet, name: str, value: str) -> None:
    kind = {"apiVersion": CLUSTER_CLAIMS.api_version, "kind": CLUSTER_CLAIMS.kind}
    await fleet.admin.create(CLUSTER_CLAIMS, {**kind, "metadata": {"name": name}, "spec": {"value": value}})


async def _has(fleet: Fleet, field: str, wanted: object) -> bool:
    return (await status(fleet)).get(field) == wanted


async def _claims(fleet: Fleet, count: int) -> bool:
    return len((await status(fleet)).get("clusterClaims") or ()) == count


async def _condition(fleet: Fleet, kind: str, wanted: str) -> bool:
    return await fleet.hub.condition(kind) == wanted


async def _urls(fleet: Fleet, wanted: list[str]) -> bool:
    configs = (await fleet.hub.cluster() or {})["spec"].get("managedClusterClientConfigs") or ()
    return [config["url"] for config in configs] == wanted


async def _namespace_condition(fleet: Fleet) -> str:
    entries = (await status(fleet)).get("managedNamespaces") or ()
    conditions = [one for entry in entries for one in entry.get("conditions") or ()]
    return next((f"{one['status']}/{one['reason']}" for one in conditions if one["type"] == "NamespaceAvailable"), "")


async def _label(fleet: Fleet, name: str, label: str, wanted: str) -> bool:
    return bool((await fleet.admin.get(NAMESPACES, name))["metadata"]["labels"].get(label) == wanted)


async def _events(fleet: Fleet, reasons: set[str]) -> bool:
    return reasons <= {event["reason"] for event in (await fleet.hub.admin.list(EVENTS, "c1")).items}


async def _spoke_events(fleet: Fleet) -> list[Any]:
    return (await fleet.admin.list(EVENTS)).items
