"""Our agents' client with sdk-go's own server and broker: what upstream's hubs say and leave unsaid is understood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.api import Condition
from muster.api.agents import CLUSTER_LABEL
from muster.api.work.v1 import ManifestWorkStatus
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound
from muster.runtime.client.builtin import EVENTS, LEASES
from muster.transport.contract.rows import EVENT_ROW, LEASE_ROW, WORKS
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.names import WORK_FINALIZER
from tests.interop.sdk_broker import Broker, until

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
APPLIED = Condition(type="Applied", status="True", reason="R", message="m", last_transition_time="2026-01-01T00:00:00Z")


def lease(version: int, renewed: str = "2026-01-01T00:00:00.000000Z") -> Object:
    metadata = {"name": "managed-cluster-lease", "namespace": "c1", "uid": "lease-uid", "labels": {CLUSTER_LABEL: "c1"}}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {"renewTime": renewed}}


def work(generation: int, **metadata: Any) -> Object:
    named = {"name": "w1", "namespace": "c1", "uid": "work-uid", "generation": generation, "resourceVersion": str(generation)}
    return {"metadata": {**named, **metadata}, "spec": {"workload": {"manifests": [CONFIG_MAP] * generation}}}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = Broker(tmp_path)
    await made.start()
    yield made
    await made.close()


async def test_objects_are_followed_and_written(broker: Broker) -> None:
    await broker.apply(LEASE_ROW, lease(5))
    hub = broker.connect()
    known = await hub.get(LEASES, "managed-cluster-lease", "c1")
    assert known["metadata"]["resourceVersion"] == "5"
    renewal = asyncio.ensure_future(hub.update(LEASES, {**known, "spec": {"renewTime": "2026-01-01T00:01:00.000000Z"}}))
    await until(lambda: broker.published, "the renewal")
    assert broker.published[0]["data"]["spec"] == {"renewTime": "2026-01-01T00:01:00.000000Z"}
    await broker.apply(LEASE_ROW, lease(6, "2026-01-01T00:01:00.000000Z"))
    assert (await renewal)["metadata"]["resourceVersion"] == "6"
    failure = {"status": "Failure", "reason": "Conflict", "code": 409, "message": "modified"}
    await broker.do(op="fail", dataType=str(LEASE_ROW.data_type), status=failure)
    with pytest.raises(Conflict, match="modified"):
        await hub.update(LEASES, {**known, "spec": {}})
    event = {"metadata": {"name": "e", "namespace": "c1"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R"}
    await hub.create(EVENTS, event)
    await hub.patch(EVENTS, "e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, "c1")
    await until(lambda: len(broker.published) == 4, "the events")
    kind = f"{EVENT_ROW.data_type}.spec"
    assert [one["type"] for one in broker.published[2:]] == [f"{kind}.create_request", f"{kind}.update_request"]


async def test_a_work_is_held_reported_and_released(broker: Broker) -> None:
    source = GrpcWorkSource(broker.connect(source="c1-work-agent"), "c1")
    await broker.apply(WORKS, work(1))
    await source.until_synced()
    shown = source.get("w1")
    assert shown is not None
    held = await source.hold(shown)
    await source.report(held, ManifestWorkStatus(conditions=(APPLIED,)))
    await until(lambda: len(broker.published) == 2, "the reports")
    assert {one["source"] for one in broker.published} == {"c1-work-agent"}
    assert {one["extensions"]["originalsource"] for one in broker.published} == {"kube"}
    await broker.apply(WORKS, work(2, finalizers=[WORK_FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z"))
    await until(lambda: (found := source.get("w1")) and found.metadata.deletion_timestamp, "the deletion")
    shown = source.get("w1")
    assert shown is not None
    await source.release(shown)
    await until(lambda: len(broker.published) == 3, "the release")
    assert [one["type"] for one in broker.published[2]["data"]["conditions"]] == ["Applied", "Deleted"]
    await broker.remove(WORKS, "work-uid")
    await asyncio.sleep(0.1)
    assert source.names() == []


async def test_what_happened_while_it_was_away_is_found_out_by_resync(broker: Broker) -> None:
    await broker.apply(LEASE_ROW, lease(5))
    await broker.apply(WORKS, work(1))
    hub = broker.connect(source="c1-work-agent")
    source = GrpcWorkSource(hub, "c1")
    await source.until_synced()
    await hub.get(LEASES, "managed-cluster-lease", "c1")
    await broker.kill()
    await broker.start()
    await broker.apply(WORKS, work(2))
    await until(lambda: (found := source.get("w1")) and found.metadata.generation == 2, "the change")

    leases = hub.subscription(LEASE_ROW)
    await until(lambda: leases.current and not len(leases.mirror), "the lease being gone")
    with pytest.raises(NotFound):
        await hub.get(LEASES, "managed-cluster-lease", "c1")
