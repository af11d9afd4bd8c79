"""Our agents' client, away from sdk-go's broker and back: what it knows is not sent again, and what it missed is.

Upstream's broker of OCM 1.3 does not say when a resync has ended, and of what is gone it tells a uid and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.api.agents import CLUSTER_LABEL
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.transport.client.client import TransportClient
from muster.transport.contract.event import SubscriptionRequest
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, TOKENS, WORKS, Row
from muster.transport.contract.wire import SUBSCRIBE, encode_subscription_request
from muster.transport.rpc.status import RpcError
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.names import WORK_FINALIZER
from tests.interop.sdk_broker import Broker, until

CLUSTER = "c1"
RECONNECT_SECONDS = 5.0
FOLLOWED = (CLUSTERS, SIGNING_REQUEST_ROW, ADDONS_ALPHA, ADDONS_BETA, LEASE_ROW, WORKS)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = Broker(tmp_path)
    await made.start()
    yield made
    await made.close()


def work(name: str, generation: int = 1, **metadata: Any) -> Object:
    data = {"generation": str(generation)}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
    named = {"name": name, "namespace": CLUSTER, "uid": f"uid-{name}", "generation": generation, "resourceVersion": "7"}
    return {"metadata": {**named, **metadata}, "spec": {"workload": {"manifests": [manifest]}}}


def object_of(row: Row, version: int = 5) -> Object:
    """One of each kind, that is the cluster's."""
    if row is WORKS:
        return work("w", version)
    name = CLUSTER if row is CLUSTERS else "one"
    metadata = {"name": name, "uid": f"uid-{row}", "resourceVersion": str(version), "labels": {CLUSTER_LABEL: CLUSTER}}
    if row.resource.namespaced:
        metadata["namespace"] = CLUSTER
    spec = {"request": "", "signerName": "open-cluster-management.io/grpc"} if row is SIGNING_REQUEST_ROW else {}
    return {"apiVersion": row.resource.api_version, "kind": row.resource.kind, "metadata": metadata, "spec": spec}


async def ready(hub: TransportClient, *rows: Row) -> None:
    """Until the mirrors show what the hub has."""
    await asyncio.gather(*(hub.subscription(row).ready() for row in rows))


def version_of(hub: TransportClient, row: Row) -> int | None:
    """Of the one object that the mirror has."""
    found = [entry.version for entry in hub.subscription(row).mirror]
    return found[0] if found else None


async def test_every_data_type_goes_over_one_connection(broker: Broker) -> None:
    for row in FOLLOWED:
        await broker.apply(row, object_of(row))
    hub = broker.connect()
    await ready(hub, *FOLLOWED)
    for row in FOLLOWED:
        found = await hub.list(row.resource)
        assert [one["metadata"]["uid"] for one in found.items] == [object_of(row)["metadata"]["uid"]], str(row)
    assert broker.link.open == 1

    for row in FOLLOWED:
        await broker.apply(row, object_of(row, 6))
    await until(lambda: all(version_of(hub, row) == 6 for row in FOLLOWED), "the next version of each")

    for row in FOLLOWED:
        await broker.remove(row, object_of(row)["metadata"]["uid"])
    await until(lambda: not any(version_of(hub, row) for row in FOLLOWED), "the end of each")
    assert broker.link.connections == 1


@pytest.mark.parametrize("row", [CLUSTERS, ADDONS_ALPHA, ADDONS_BETA], ids=str)
async def test_a_status_is_published_with_the_version_that_it_changes(broker: Broker, row: Row) -> None:
    await broker.apply(row, object_of(row))
    hub = broker.connect()
    name = object_of(row)["metadata"]["name"]
    condition = {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    namespace = CLUSTER if row.resource.namespaced else ""
    writing = asyncio.ensure_future(
        hub.patch(row.resource, name, {"status": {"conditions": [condition]}}, namespace, subresource="status")
    )
    await until(lambda: broker.published, "the status")
    [told] = broker.published
    assert told["type"] == f"{row}.status.update_request"
    assert told["extensions"]["clustername"] == CLUSTER
    assert told["data"]["metadata"]["resourceVersion"] == "5"
    assert told["data"]["status"]["conditions"] == [condition]

    await broker.apply(row, {**object_of(row, 6), "status": {"conditions": [condition]}})
    assert (await writing)["metadata"]["resourceVersion"] == "6"


async def test_a_token_comes_on_a_stream_of_its_own(broker: Broker) -> None:
    hub = broker.connect()
    body = {"spec": {"expirationSeconds": 600}}
    asking = asyncio.ensure_future(hub.create(SERVICE_ACCOUNTS, body, CLUSTER, name="addon", subresource="token"))
    await until(lambda: broker.published, "the request")
    asked = broker.published[0]["data"]
    assert (asked["metadata"]["name"], asked["spec"]["expirationSeconds"]) == ("addon", 600)

    other = {**asked, "metadata": {**asked["metadata"], "uid": "somebody-elses"}, "status": {"token": "not-for-us"}}
    await broker.apply(TOKENS, other)
    await broker.apply(TOKENS, {**asked, "status": {"token": "ours", "expirationTimestamp": "2026-01-01T00:10:00Z"}})
    assert (await asking)["status"]["token"] == "ours"


@pytest.mark.parametrize("dies", [False, True], ids=["the-way", "the-broker"])
async def test_all_streams_are_back_in_time(broker: Broker, dies: bool) -> None:
    hub = broker.connect()
    for row in FOLLOWED:
        await broker.apply(row, object_of(row))
    await ready(hub, *FOLLOWED)

    if dies:
        await broker.kill()
    else:
        broker.link.cut()
    await until(lambda: not any(hub.subscription(row).live for row in FOLLOWED), "the streams to be lost")
    if dies:
        await broker.start()
        for row in FOLLOWED:
            await broker.apply(row, object_of(row, 6))
    else:
        for row in FOLLOWED:
            await broker.apply(row, object_of(row, 6))
        broker.link.mend()
    began = time.monotonic()
    await until(lambda: all(hub.subscription(row).live for row in FOLLOWED), "all streams")
    assert time.monotonic() - began < RECONNECT_SECONDS
    await until(lambda: all(version_of(hub, row) == 6 for row in FOLLOWED), "what was missed")


async def test_a_resync_brings_what_has_changed_and_no_more(broker: Broker) -> None:
    names = [f"w{number:03}" for number in range(200)]
    for name in names:
        await broker.apply(WORKS, work(name))
    metrics = Metrics()
    hub = broker.connect(metrics=metrics)
    source = GrpcWorkSource(hub, CLUSTER)
    await source.until_synced()
    assert sorted(source.names()) == names
    received = metrics.counter("cloudevents_received_total", "CloudEvents received", data_type=str(WORKS.data_type))

    broker.link.cut()
    await until(lambda: not hub.subscription(WORKS).live, "the stream to be lost")
    await broker.apply(WORKS, work("w005", 2))
    await broker.apply(WORKS, work("new"))
    await broker.remove(WORKS, "uid-w007", silent=True)
    await broker.apply(WORKS, work("w009", 2, finalizers=[WORK_FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z"))
    before = received.value
    broker.link.mend()
    await until(lambda: hub.subscription(WORKS).current, "another resync")

    assert set(source.names()) == {*names, "new"} - {"w007"}
    changed, going = source.get("w005"), source.get("w009")
    assert changed is not None
    assert changed.metadata.generation == 2
    assert going is not None
    assert going.metadata.deletion_timestamp
    # Upstream's broker is asked twice, since what it answers at first may be lost.
    assert received.value - before <= 2 * 4


async def test_a_work_that_is_gone_without_a_word_is_gone_here(broker: Broker) -> None:
    """Held by this agent and removed by force; the last one of the hub, too."""
    hub = broker.connect(source="c1-work-agent")
    source = GrpcWorkSource(hub, CLUSTER)
    for name in ("first", "last"):
        await broker.apply(WORKS, work(name))
    await source.until_synced()
    for name in ("first", "last"):
        shown = source.get(name)
        assert shown is not None
        await source.hold(shown)
    told: list[str] = []
    source.on_change(told.append)
    told.clear()

    for name, left in (("first", ["last"]), ("last", [])):
        broker.link.cut()
        await until(lambda: not hub.subscription(WORKS).live, "the stream to be lost")
        await broker.remove(WORKS, f"uid-{name}", silent=True)
        broker.link.mend()
        await until(lambda left=left: source.names() == left, f"{name} to be gone")  # type: ignore[misc]
    assert told == ["first", "last"]


async def test_a_hub_that_was_restored_to_lower_versions_is_followed_when_it_speaks(broker: Broker) -> None:
    """Upstream's broker answers a resync with higher versions only: of a lower one is heard when the object changes next."""
    await broker.apply(WORKS, work("w", 5))
    await broker.apply(LEASE_ROW, object_of(LEASE_ROW, 500))
    hub = broker.connect()
    await ready(hub, WORKS, LEASE_ROW)
    assert (version_of(hub, WORKS), version_of(hub, LEASE_ROW)) == (5, 500)

    broker.link.cut()
    await broker.kill()
    await broker.start()
    await broker.apply(WORKS, work("w", 2))
    await broker.apply(LEASE_ROW, object_of(LEASE_ROW, 20))
    broker.link.mend()
    await until(lambda: all(hub.subscription(row).current for row in (WORKS, LEASE_ROW)), "another resync")
    await broker.apply(WORKS, work("w", 3))
    await broker.apply(LEASE_ROW, object_of(LEASE_ROW, 30))

    await until(lambda: (version_of(hub, WORKS), version_of(hub, LEASE_ROW)) == (3, 30), "what the hub has now", 30)


async def test_a_source_is_refused_by_upstreams_broker_too(broker: Broker) -> None:
    """It asks for whose cluster; our server refuses whoever says that it is a source."""
    hub = broker.connect()
    request = encode_subscription_request(SubscriptionRequest(source="maestro", data_type=str(WORKS.data_type)))
    channel = hub.connection.channel

    async def subscribe() -> None:
        async with channel.stream(SUBSCRIBE, request, timeout=5) as stream:
            async for _ in stream:
                pass

    with pytest.raises(RpcError):
        await subscribe()
    await broker.apply(WORKS, work("w"))
    await hub.subscription(WORKS).ready()
    assert version_of(hub, WORKS) == 1
