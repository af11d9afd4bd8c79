"""What registered agents do on a hub without Kubernetes: leases, statuses, events, tokens and works, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.api.agents import LEASE, WORK_FINALIZER
from muster.apiserver.auth.access import Access
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, Forbidden, KubeError, NotFound
from muster.runtime.client.builtin import CLUSTER_ROLES, LEASES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from muster.runtime.install import binding, rule
from muster.transport.contract.event import DELETED, RESOURCE_ID, RESOURCE_VERSION, InvalidEvent
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, CLUSTERS, EVENT_ROW, LEASE_ROW, TOKENS, WORKS, Row
from muster.transport.contract.types import Action
from tests.unit.transport.services.store.hubs import (
    CREATE,
    STATUS,
    UPDATE,
    RunningHub,
    agent_of,
    applied,
    data_of,
    running_hub,
    sequence,
)


def renewed(lease: Object, time: str) -> Object:
    return {**lease, "spec": {"renewTime": time}}


WHEN = "2026-11-16T00:00:00Z"
FIRST, SECOND = "2026-11-16T00:00:01.000000Z", "2026-11-16T00:00:02.000000Z"


async def test_a_lease_is_renewed_by_one_write_and_its_next_version_is_told(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    for time in (FIRST, SECOND):
        lease = data_of(hub.known(LEASE_ROW, "c1")[0])
        before = hub.hub.server.store.revision
        await hub.publish(LEASE_ROW, UPDATE, renewed(lease, time), agent)
        (after,) = hub.known(LEASE_ROW, "c1")
        assert data_of(after)["spec"] == {"leaseDurationSeconds": 60, "renewTime": time}
        assert int(str(after.attributes[RESOURCE_VERSION])) > before
    assert hub.told(LEASE_ROW, "c1") == [Action.CREATE, Action.UPDATE, Action.UPDATE]


async def test_a_lease_in_an_old_version_is_a_conflict_and_a_missing_one_is_not_found(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    old = data_of(hub.known(LEASE_ROW, "c1")[0])
    await hub.publish(LEASE_ROW, UPDATE, renewed(old, FIRST), agent)
    with pytest.raises(Conflict):
        await hub.publish(LEASE_ROW, UPDATE, renewed(old, SECOND), agent)
    await hub.admin.delete(LEASES, LEASE, "c1")
    with pytest.raises(NotFound):
        await hub.publish(LEASE_ROW, UPDATE, renewed(old, SECOND), agent)
    assert hub.told(LEASE_ROW, "c1")[-1] is Action.DELETE


async def test_a_clusters_status_is_written_as_its_agent(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    cluster = data_of(hub.known(CLUSTERS, "c1")[0])
    await hub.publish(CLUSTERS, STATUS, {**cluster, "status": {"version": {"kubernetes": "v1.33"}}}, agent)
    assert (await hub.admin.get(CLUSTERS.resource, "c1"))["status"]["version"] == {"kubernetes": "v1.33"}


@pytest.mark.parametrize("row", [ADDONS_ALPHA, ADDONS_BETA], ids=["v1alpha1", "v1beta1"])
async def test_an_addons_status_is_written_and_told_in_both_versions(hub: RunningHub, row: Row) -> None:
    agent = await hub.join("c1")
    addon = {"apiVersion": ADDONS_ALPHA.resource.api_version, "kind": "ManagedClusterAddOn", "metadata": {"name": "a"}, "spec": {}}
    await hub.admin.create(ADDONS_ALPHA.resource, addon, "c1")
    (known,) = hub.known(row, "c1")
    assert data_of(known)["apiVersion"] == row.resource.api_version
    condition = {"type": "Available", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": WHEN}
    await hub.publish(row, UPDATE, {**data_of(known), "status": {"conditions": [condition]}}, agent)
    found = await hub.admin.get(ADDONS_ALPHA.resource, "a", "c1")
    assert found["status"]["conditions"][0]["reason"] == "Test"
    for each in (ADDONS_ALPHA, ADDONS_BETA):
        (told,) = hub.known(each, "c1")
        assert data_of(told)["status"]["conditions"][0]["reason"] == "Test"
        assert hub.told(each, "c1") == [Action.CREATE, Action.UPDATE]


async def test_an_event_is_made_and_counted_on(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    event: Object = {
        "metadata": {"name": "e1", "namespace": "c1"},
        "eventTime": FIRST,
        "reportingController": "agent",
        "reportingInstance": "agent-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "regarding": {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"},
    }
    await hub.publish(EVENT_ROW, CREATE, event, agent)
    await hub.publish(EVENT_ROW, UPDATE, {**event, "series": {"count": 2, "lastObservedTime": SECOND}}, agent)
    assert (await hub.admin.get(EVENT_ROW.resource, "e1", "c1"))["series"]["count"] == 2
    await hub.publish(EVENT_ROW, UPDATE, {**event, "metadata": {"name": "gone", "namespace": "c1"}, "series": {"count": 3}}, agent)


async def test_a_token_goes_to_whoever_asked_if_the_hubs_rules_let_it(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    await hub.admin.create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "addon"}}, "c1")
    asked = {"metadata": {"name": "addon", "namespace": "c1", "uid": "my-own"}, "spec": {"expirationSeconds": 3600}}
    with pytest.raises(Forbidden):
        await hub.publish(TOKENS, CREATE, asked, agent)
    rules = [rule("", ["serviceaccounts/token"], ["create"], ["addon"])]
    await hub.admin.apply(CLUSTER_ROLES, {"metadata": {"name": "tokens"}, "rules": rules}, manager="test")
    user = {"kind": "User", "name": agent.user.name, "apiGroup": "rbac.authorization.k8s.io"}
    await hub.admin.apply(ROLE_BINDINGS, binding("tokens", "ClusterRole", "tokens", user, "c1"), manager="test")
    answer = await hub.publish(TOKENS, CREATE, asked, agent)
    assert answer is not None
    assert answer.attributes[RESOURCE_ID] == "my-own"
    token = data_of(answer)["status"]["token"]
    found = await hub.hub.server.clusters["hub"].part(Access).token_identity(token)
    assert found is not None
    assert found[0].name == "system:serviceaccount:c1:addon"
    assert hub.told(TOKENS, "c1") == []


def forged(row: Row) -> Object:
    """An object of another cluster."""
    named: dict[str, Any] = {"name": "c2"} if row is CLUSTERS else {"name": LEASE, "namespace": "c2"}
    return {"metadata": {**named, "resourceVersion": "1"}, "spec": {"renewTime": FIRST}, "status": {}, "series": {"count": 2}}


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        (CLUSTERS, UPDATE),
        (CLUSTERS, STATUS),
        (ADDONS_ALPHA, STATUS),
        (ADDONS_BETA, STATUS),
        (LEASE_ROW, UPDATE),
        (EVENT_ROW, CREATE),
        (EVENT_ROW, UPDATE),
        (TOKENS, CREATE),
    ],
    ids=str,
)
async def test_an_agent_writes_nothing_of_another_cluster(hub: RunningHub, row: Row, asked: tuple[Any, Any]) -> None:
    agent = await hub.join("c1")
    await hub.join("c2")
    before = hub.hub.server.store.revision
    with pytest.raises((Forbidden, InvalidEvent)):
        await hub.publish(row, asked, forged(row), agent)
    cluster = hub.hub.server.clusters["hub"]
    changed = [entry.key for entry in cluster.store.list("hub", "coordination.k8s.io/leases", "c2/") if entry.revision > before]
    assert changed == []


async def test_even_past_our_own_checks_the_hubs_rules_refuse_what_is_not_the_agents(hub: RunningHub) -> None:
    """The second line: the API server itself knows the agent."""
    agent = await hub.join("c1")
    await hub.join("c2")
    service: Any = hub.service(LEASE_ROW)
    client = service._client_of(agent)
    lease = await hub.admin.get(LEASES, LEASE, "c2")
    with pytest.raises(Forbidden):
        await client.update(LEASES, {**lease, "spec": {**lease["spec"], "renewTime": FIRST}})
    with pytest.raises(Forbidden):
        await client.patch(CLUSTERS.resource, "c1", {"spec": {"hubAcceptsClient": True}})


# Works


async def test_a_work_is_told_once_per_real_change(hub: RunningHub) -> None:
    await hub.join("c1")
    work = await hub.create_work("c1", "w")
    await hub.admin.patch(WORKS.resource, "w", {"metadata": {"labels": {"a": "b"}}}, "c1")
    await hub.admin.patch(WORKS.resource, "w", {"metadata": {"labels": {"a": "b"}}}, "c1")
    await hub.admin.patch(WORKS.resource, "w", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")
    await hub.admin.patch(WORKS.resource, "w", {"status": {"conditions": []}}, "c1", subresource="status")
    assert hub.told(WORKS, "c1") == [Action.CREATE, Action.UPDATE, Action.UPDATE]
    (version,) = hub.service(WORKS).versions("c1")
    assert version == (work["metadata"]["uid"], 2, False)


async def test_a_report_holds_the_work_and_is_its_status(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    work = await hub.create_work("c1", "w")
    await hub.report(work, applied("first"), agent)
    found = await hub.work("c1", "w")
    assert WORK_FINALIZER in found["metadata"]["finalizers"]
    assert found["status"]["conditions"][0]["message"] == "first"
    assert hub.told(WORKS, "c1") == [Action.CREATE], "an agent is not told of its own report"


async def test_reports_that_are_stale_doubled_or_late_change_nothing(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    work = await hub.create_work("c1", "w")
    early, late = sequence.next(), sequence.next()
    await hub.report(work, applied("late"), agent, late)
    settled = await hub.work("c1", "w")
    await hub.report(work, applied("early"), agent, early)
    await hub.report(work, applied("again"), agent, late)
    assert await hub.work("c1", "w") == settled
    await hub.admin.patch(WORKS.resource, "w", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")
    changed = await hub.work("c1", "w")
    await hub.report(work, applied("of the old generation"), agent)
    assert await hub.work("c1", "w") == changed


async def test_a_deleted_work_goes_when_its_agent_has_cleaned_up(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    work = await hub.create_work("c1", "w")
    await hub.report(work, applied(), agent)
    await hub.admin.delete(WORKS.resource, "w", "c1")
    (known,) = hub.known(WORKS, "c1")
    assert DELETED in known.attributes
    gone = {
        "type": "Deleted",
        "status": "True",
        "reason": "ManifestsDeleted",
        "message": "",
        "lastTransitionTime": WHEN,
    }
    await hub.report(await hub.work("c1", "w"), {"conditions": [gone]}, agent)
    assert hub.known(WORKS, "c1") == []
    assert hub.told(WORKS, "c1") == [Action.CREATE, Action.UPDATE, Action.DELETE]
    await hub.report(work, {"conditions": [gone]}, agent)
    with pytest.raises(NotFound):
        await hub.work("c1", "w")


async def test_another_clusters_work_cannot_be_reported(hub: RunningHub) -> None:
    await hub.join("c1")
    work = await hub.create_work("c1", "w")
    await hub.join("c2")
    with pytest.raises(KubeError):
        await hub.report(work, applied("forged"), agent_of("c2"))
    assert "status" not in await hub.work("c1", "w")


async def test_an_agent_that_starts_again_is_told_what_it_reported(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    work = await hub.create_work("c1")
    await hub.create_work("c1")
    await hub.report(work, applied("told before"), agent)
    statuses = await hub.service(WORKS).live_statuses("c1", agent)
    assert set(statuses) == {work["metadata"]["uid"]}
    (status,) = map(orjson.loads, statuses.values())
    assert [(one["type"], one["message"]) for one in status["conditions"]][:1] == [("Applied", "told before")]
    with pytest.raises(Forbidden):
        await hub.service(WORKS).live_statuses("c1", agent_of("c2"))


async def test_a_work_that_is_too_large_says_so(database: str, tmp_path: Path) -> None:
    """No right of an agent's is needed for that."""
    async with running_hub(database, tmp_path, max_event=100) as hub:
        await hub.join("c1")
        work = await hub.create_work("c1")
        hub.service(WORKS).undeliverable(work["metadata"]["uid"])
        async with asyncio.timeout(20):
            while True:
                stored = await hub.work("c1", work["metadata"]["name"])
                if conditions := (stored.get("status") or {}).get("conditions"):
                    break
                await asyncio.sleep(0.005)
    (condition,) = conditions
    assert (condition["type"], condition["status"], condition["reason"]) == ("Delivered", "False", "MessageTooLarge")
