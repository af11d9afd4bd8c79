"""What an agent may say to a hub and what it is told, seen on the wire itself, whatever the hub keeps its objects in."""

from __future__ import annotations

import asyncio
import base64
import itertools
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest

from muster.api.agents import LEASE
from muster.api.cluster.v1beta2 import CLUSTER_SET_LABEL
from muster.kube.certificates import generate_key, key_pem
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.names import COLLECTION_CLEANUP, RESOURCE_CLEANUP, UNREACHABLE_TAINT
from muster.runtime.client import ServerFailure, Unreachable
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.resync import KnownObject
from muster.transport.contract.errors import from_rpc
from muster.transport.contract.event import DELETED, RESOURCE_ID, RESOURCE_VERSION, CloudEvent
from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    EVENT_ROW,
    LEASE_ROW,
    ROWS,
    SIGNING_REQUEST_ROW,
    WORKS,
    Row,
)
from muster.transport.contract.types import EventType
from muster.transport.rpc.status import Code, RpcError
from tests.e2e.transport.conftest import BOOTSTRAP, WORK_API, GrpcServer, Site
from tests.support.administrator import ACCEPTED, service_account_token
from tests.support.client import Client
from tests.support.pki import Pair
from tests.support.registration import http_status
from tests.support.wire_agent import CREATE, STATUS, UPDATE, WireAgent, next_event
from tests.unit.transport.services.store.hubs import applied, sequence, signing_request, work_report

ON_SQL = True
ADDON_API = "/apis/addon.open-cluster-management.io/v1alpha1"
REFUSALS = (Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION)
QUIET = 0.5
"""Seconds within which whatever was to come has come."""

_numbers = itertools.count(1)


@asynccontextmanager
async def wire_agent(site: Site, cluster: str, credential: Pair, server: GrpcServer) -> AsyncIterator[WireAgent]:
    agent = WireAgent(server.port, site.signer, cluster, credential=credential)
    try:
        yield agent
    finally:
        await agent.close()


async def join(site: Site, cluster: str) -> Pair:
    """As an agent does; the hub accepts and approves by itself. Gives the certificate."""
    token = service_account_token(site.hub.admin, *BOOTSTRAP)
    newcomer = WireAgent(site.servers[0].port, site.signer, cluster, token)
    key, signed = generate_key(), b""
    try:
        async with newcomer.subscribed(SIGNING_REQUEST_ROW) as answers:
            await newcomer.publish(CLUSTERS, *CREATE, {"metadata": {"name": cluster}, "spec": {"hubAcceptsClient": False}})
            await newcomer.publish(SIGNING_REQUEST_ROW, *CREATE, signing_request(cluster, f"{cluster}-abcde", key))
            while not signed:
                told = content(await next_event(answers))
                signed = base64.b64decode((told.get("status") or {}).get("certificate") or "")
    finally:
        await newcomer.close()
    credential = Pair(site.directory / f"{cluster}.crt", site.directory / f"{cluster}.key")
    credential.cert.write_bytes(signed)
    credential.key.write_bytes(key_pem(key))
    return credential


@asynccontextmanager
async def let_in(site: Site, *servers: GrpcServer) -> AsyncIterator[tuple[str, list[WireAgent]]]:
    """A new cluster that has joined, and an agent of it at each of the servers."""
    name = f"wire{next(_numbers)}"
    credential = await join(site, name)
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(wire_agent(site, name, credential, one)) for one in servers or site.servers[:1]]
        for agent in agents:
            await agent.until_allowed(WORKS, LEASE_ROW, CLUSTERS, ADDONS_BETA)
        await asyncio.to_thread(site.hub.wait, lambda: has_settled_in(site, name) or None, f"the hub to have done all for {name}")
        yield name, agents


def has_settled_in(site: Site, name: str) -> bool:
    """Whether the hub has written all that it writes of a newcomer: what changes from now on is somebody's doing."""
    cluster = site.hub.find(name) or {"metadata": {}, "spec": {}}
    metadata, taints = cluster["metadata"], cluster["spec"].get("taints") or ()
    held = {RESOURCE_CLEANUP, COLLECTION_CLEANUP} <= set(metadata.get("finalizers") or ())
    sorted_in = CLUSTER_SET_LABEL in (metadata.get("labels") or {}) and UNREACHABLE_TAINT in [one["key"] for one in taints]
    return held and sorted_in and site.hub.status(name, ACCEPTED) == "True" and site.hub.lease(name) is not None


def works(cluster: str, name: str = "") -> str:
    return f"{WORK_API}/namespaces/{cluster}/manifestworks" + (f"/{name}" if name else "")


def make_work(admin: Client, cluster: str, name: str, **data: str) -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
    kind = {"apiVersion": WORKS.resource.api_version, "kind": WORKS.resource.kind}
    body = {**kind, "metadata": {"name": name}, "spec": {"workload": {"manifests": [manifest]}}}
    return dict(admin.post(works(cluster), body).expect(201))


def change_work(admin: Client, cluster: str, name: str, **data: str) -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
    return dict(admin.patch(works(cluster, name), {"spec": {"workload": {"manifests": [manifest]}}}).expect(200))


def content(event: CloudEvent) -> Object:
    found: Object = orjson.loads(event.data or b"{}")
    return found


async def rest(events: AsyncIterator[CloudEvent], version: int = 1) -> list[CloudEvent]:
    """Events up to the one of this version, and what comes after it at once; ends the stream for whoever reads it."""
    found = [await next_event(events)]
    while found[-1].attributes[RESOURCE_VERSION] != version:
        found.append(await next_event(events))
    try:
        while True:
            found.append(await next_event(events, QUIET))
    except TimeoutError:
        return found


async def ended(events: AsyncIterator[CloudEvent]) -> None:
    async with asyncio.timeout(30):
        async for _ in events:
            pass


class TestForgedEvents:
    def objects_of(self, site: Site, cluster: str) -> dict[str, Any]:
        """All that the hub has of a cluster, without what changes by itself."""
        label = {"labelSelector": f"open-cluster-management.io/cluster-name={cluster}"}
        lists = {
            "works": site.hub.admin.get(works(cluster)),
            "addons": site.hub.admin.get(f"{ADDON_API}/namespaces/{cluster}/managedclusteraddons"),
            "leases": site.hub.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{cluster}/leases"),
            "events": site.hub.admin.get(f"/apis/events.k8s.io/v1/namespaces/{cluster}/events"),
            "requests": site.hub.admin.get("/apis/certificates.k8s.io/v1/certificatesigningrequests", query=label),
        }
        found: dict[str, Any] = {name: reply.expect(200)["items"] for name, reply in lists.items()}
        found["cluster"] = site.hub.find(cluster)
        return found

    def forged(self, row: Row, cluster: str) -> Object:
        """Another cluster's, as its own agent could send it."""
        if row is SIGNING_REQUEST_ROW:
            return signing_request(cluster, f"{cluster}-forged")
        named = {"name": cluster} if row is CLUSTERS else {"name": "a" if row is not LEASE_ROW else LEASE, "namespace": cluster}
        told: Object = {"spec": {"renewTime": "2026-11-16T00:00:00.000000Z"}, "status": {"version": {"kubernetes": "forged"}}}
        return {"apiVersion": row.resource.api_version, "kind": row.resource.kind, "metadata": named, **told}

    async def test_what_an_event_says_of_another_cluster_is_refused_and_nothing_is_written(self, site: Site) -> None:
        async with let_in(site) as (mine, (agent,)), let_in(site) as (theirs, (other,)):
            addon = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"}
            where = f"{ADDON_API}/namespaces/{theirs}/managedclusteraddons"
            site.hub.admin.post(where, {**addon, "metadata": {"name": "a"}, "spec": {}}).expect(201)
            work = make_work(site.hub.admin, theirs, "a")
            await other.send(work_report(work, applied("theirs")))
            before = self.objects_of(site, theirs)
            for row in ROWS.values():
                for asked in sorted(row.accepts, key=str):
                    if row is WORKS:
                        continue
                    with pytest.raises(RpcError) as refused:
                        # The event says that it is about the agent's own cluster; what is in it says otherwise.
                        await self.send_as(agent, row, asked, self.forged(row, theirs))
                    assert refused.value.code in REFUSALS, f"{row} {asked}: {refused.value}"
            with pytest.raises(RpcError):
                await agent.send(work_report(work, applied("forged")))
            forged = work_report(work, applied("forged"))
            forged.attributes["clustername"] = mine
            with pytest.raises(RpcError):
                await agent.send(forged)
            assert self.objects_of(site, theirs) == before

    async def send_as(self, agent: WireAgent, row: Row, asked: tuple[Any, Any], obj: Object) -> None:
        event = encode_object(row, obj, EventType(row.data_type, *asked), source=agent.cluster, now=SYSTEM.now())
        event.attributes["clustername"] = agent.cluster
        await agent.send(event)

    async def test_requests_of_a_newcomer_are_for_its_own_cluster(self, site: Site) -> None:
        """A request whose label names another cluster than the event is nobody's."""
        async with let_in(site) as (_, (agent,)):
            event_of = self.forged(SIGNING_REQUEST_ROW, "somebody-else")
            with pytest.raises(RpcError):
                await self.send_as(agent, SIGNING_REQUEST_ROW, CREATE, event_of)
            assert site.hub.requests("somebody-else") == []


async def test_a_denied_clusters_streams_are_cut_and_its_calls_refused(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        async with agent.subscribed(WORKS) as told, agent.subscribed(LEASE_ROW) as leases:
            site.hub.deny(name)
            await asyncio.to_thread(site.hub.wait_condition, name, ACCEPTED, "False")
            # How soon is for a unit test of the guard to say.
            for events in (told, leases):
                with pytest.raises(RpcError):
                    await ended(events)
        lease = site.hub.lease(name)
        assert lease is not None
        with pytest.raises(RpcError):
            await agent.publish(LEASE_ROW, *UPDATE, lease)
        with pytest.raises(RpcError):
            async with agent.subscribed(WORKS):
                pass


async def test_a_lease_of_an_old_version_is_a_conflict_and_its_echo_is_the_next_one(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        lease = site.hub.lease(name) or {}
        first = content(await agent.until_served(LEASE_ROW, lease["metadata"]["uid"]))
        async with agent.subscribed(LEASE_ROW) as leases:
            await agent.publish(LEASE_ROW, *UPDATE, {**first, "spec": {"renewTime": "2026-11-16T00:00:01.000000Z"}})
            echo = content(await next_event(leases))
            assert echo["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
            with pytest.raises(RpcError, match="Conflict"):
                await agent.publish(LEASE_ROW, *UPDATE, {**first, "spec": {"renewTime": "2026-11-16T00:00:02.000000Z"}})
            await agent.publish(LEASE_ROW, *UPDATE, {**echo, "spec": {"renewTime": "2026-11-16T00:00:03.000000Z"}})
            with pytest.raises(RpcError, match="Forbidden"):
                await agent.publish(LEASE_ROW, *UPDATE, {**echo, "metadata": {"name": "another", "namespace": name}})
        assert site.hub.renewed(name).startswith("2026-11-16T00:00:03")


async def test_what_an_agent_reports_of_cluster_addons_and_events_is_on_the_hub(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        cluster = site.hub.find(name)
        await agent.publish(CLUSTERS, *STATUS, {**(cluster or {}), "status": {"version": {"kubernetes": "v1.33"}}})
        assert (site.hub.find(name) or {})["status"]["version"] == {"kubernetes": "v1.33"}

        kind = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"}
        place = f"{ADDON_API}/namespaces/{name}/managedclusteraddons"
        found = site.hub.admin.post(place, {**kind, "metadata": {"name": "a"}, "spec": {}}).expect(201)
        for row, reason in ((ADDONS_ALPHA, "First"), (ADDONS_BETA, "Second")):
            known = await agent.until_served(row, found["metadata"]["uid"], int(found["metadata"]["resourceVersion"]))
            condition = {"type": "Available", "status": "True", "reason": reason, "message": ""}
            told = {"conditions": [{**condition, "lastTransitionTime": "2026-11-16T00:00:00Z"}]}
            await agent.publish(row, *STATUS, {**content(known), "status": told})
            found = site.hub.admin.get(f"{place}/a").expect(200)
            assert found["status"]["conditions"][0]["reason"] == reason

        event: Object = {
            "metadata": {"name": "e1", "namespace": name},
            "eventTime": "2026-11-16T00:00:00.000000Z",
            "reportingController": "agent",
            "reportingInstance": "agent-1",
            "action": "Testing",
            "reason": "Tested",
            "type": "Normal",
            "regarding": {"kind": "ManagedCluster", "name": name, "namespace": name},
        }
        await agent.publish(EVENT_ROW, *CREATE, event)
        series = {"count": 2, "lastObservedTime": "2026-11-16T00:00:05.000000Z"}
        await agent.publish(EVENT_ROW, *UPDATE, {**event, "series": series})
        (found,) = site.hub.events(name, "Tested")
        assert found["series"]["count"] == 2


async def test_a_work_is_told_once_for_each_change_that_is_one(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        async with agent.subscribed(WORKS) as told:
            made = make_work(site.hub.admin, name, "w", a="1")
            change_work(site.hub.admin, name, "w", a="1")
            site.hub.admin.patch(works(name, "w"), {"metadata": {"labels": {"a": "b"}}}).expect(200)
            site.hub.admin.patch(works(name, "w"), {"metadata": {"labels": {"a": "b"}}}).expect(200)
            last = change_work(site.hub.admin, name, "w", a="2")
            await agent.send(work_report(last, applied("done")))
            versions = [event.attributes[RESOURCE_VERSION] for event in await rest(told, version=2)]
        found = site.hub.admin.get(works(name, "w")).expect(200)
        assert made["metadata"]["generation"] == 1
        # Changes that come close together may be one event, the newest; there is none for what is no change, nor for the report.
        assert versions[-1] == 2
        assert len(versions) <= 3
        assert found["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/manifest-work-cleanup"]
        assert found["status"]["conditions"][0]["message"] == "done"


async def test_reports_that_are_stale_doubled_or_late_change_nothing(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        work = make_work(site.hub.admin, name, "w")
        early, late = sequence.next(), sequence.next()
        await agent.send(work_report(work, applied("late"), late))
        settled = site.hub.admin.get(works(name, "w")).expect(200)
        await agent.send(work_report(work, applied("early"), early))
        await agent.send(work_report(work, applied("again"), late))
        assert site.hub.admin.get(works(name, "w")).expect(200) == settled
        change_work(site.hub.admin, name, "w", a="other")
        changed = site.hub.admin.get(works(name, "w")).expect(200)
        await agent.send(work_report(work, applied("of the old generation")))
        assert site.hub.admin.get(works(name, "w")).expect(200) == changed


async def test_a_server_that_has_just_started_calls_nothing_deleted(site: Site) -> None:
    server = site.server("cold")
    async with let_in(site, server) as (name, _):
        made = [make_work(site.hub.admin, name, f"w{number}") for number in range(20)]
        known = [KnownObject(resource_id=one["metadata"]["uid"], version=1, name=one["metadata"]["name"]) for one in made]
        server.kill()
        server.process.start()
        answers: list[CloudEvent] | None = None
        credential = Pair(site.directory / f"{name}.crt", site.directory / f"{name}.key")
        async with asyncio.timeout(60), wire_agent(site, name, credential, server) as agent:
            while answers is None:
                # From its first moment on: before it knows everything it may refuse, or let wait.
                try:
                    async with agent.subscribed(WORKS) as told:
                        answers = await agent.resynced(WORKS, told, known)
                except (RpcError, OSError, TimeoutError):
                    await asyncio.sleep(0.02)
        assert [event for event in answers if DELETED in event.attributes or "delete" in event.type] == []
        await asyncio.to_thread(server.process.wait_until, lambda: server_is_ready(server), 60)


def server_is_ready(server: GrpcServer) -> bool:
    return http_status(server.health_port, "/readyz") == 200


async def test_what_is_written_by_way_of_one_server_is_told_once_by_another(site: Site) -> None:
    if not site.has_several_servers:
        pytest.skip("SQLite is for one server")
    other = site.server("other")
    async with let_in(site, other) as (name, (agent,)):
        async with agent.subscribed(WORKS) as told:
            # The administrator is at the first server where servers are the hub's API.
            made = make_work(site.hub.admin, name, "w")
            assert [event.attributes[RESOURCE_ID] for event in await rest(told)] == [made["metadata"]["uid"]]
            await agent.send(work_report(made, applied("by way of the other")))
        found = site.hub.admin.get(works(name, "w")).expect(200)
        assert found["status"]["conditions"][0]["message"] == "by way of the other"


async def test_of_two_agents_of_one_cluster_both_are_told_and_the_newest_report_stays(site: Site) -> None:
    servers = (site.servers[0], site.server("second")) if site.has_several_servers else (site.servers[0],) * 2
    async with let_in(site, *servers) as (name, (first, second)):
        async with first.subscribed(WORKS) as here, second.subscribed(WORKS) as there:
            made = make_work(site.hub.admin, name, "w")
            for events in (here, there):
                assert (await next_event(events)).attributes[RESOURCE_ID] == made["metadata"]["uid"]
        older, newer = sequence.next(), sequence.next()
        await second.send(work_report(made, applied("newer"), newer))
        await first.send(work_report(made, applied("older"), older))
        found = site.hub.admin.get(works(name, "w")).expect(200)
        assert found["status"]["conditions"][0]["message"] == "newer"


async def test_ten_thousand_known_doubled_and_unknown_ids_are_answered_in_no_time(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        made = [make_work(site.hub.admin, name, f"w{number}") for number in range(3)]
        same, changed, unknown = (one["metadata"]["uid"] for one in made)
        change_work(site.hub.admin, name, "w1", a="other")
        known = [KnownObject(resource_id=same, version=1), KnownObject(resource_id=changed, version=1)] * 2
        known += [KnownObject(resource_id=f"00000000-0000-0000-0000-{number:012d}", version=1) for number in range(10_000)]
        await agent.until_served(WORKS, changed, version=2)
        async with agent.subscribed(WORKS) as told:
            took = []
            for count in (len(known) // 10, len(known)):
                began = time.monotonic()
                answers = await agent.resynced(WORKS, told, known[:count])
                took.append(time.monotonic() - began)
                assert sorted(event.attributes[RESOURCE_ID] for event in answers) == sorted([changed, unknown])
        assert took[-1] < 5, took


async def test_what_a_full_disk_refused_is_written_when_there_is_room_again(site: Site) -> None:
    """Databases fail in ways of their own; that a PostgreSQL is away for a while is shown elsewhere."""
    server = site.servers[0]
    if not server.process.environment.get("MUSTER_DATABASE", "").startswith("sqlite"):
        pytest.skip("only SQLite is a file of the server's")

    def said() -> str:
        found = site.hub.admin.get(works(name, "w")).expect(200)
        return str(found["status"]["conditions"][0]["message"])

    async with let_in(site) as (name, (agent,)):
        work = make_work(site.hub.admin, name, "w")
        await agent.send(work_report(work, applied("before")))
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        # Enough for what it logs, and for no write beyond what the database's files have.
        room = server.process.log.stat().st_size + 64 * 1024
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            with pytest.raises(RpcError) as refused:
                await fill(agent, work)
            failure = from_rpc(refused.value, "", WORKS.resource)
            assert isinstance(failure, ServerFailure | Unreachable), "agents try again"
            await asyncio.to_thread(server.process.wait_until, lambda: not server_is_ready(server), 30)
        finally:
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        assert said()[:6] in ("before", "xxxxxx")
        async with asyncio.timeout(30):
            while not await sent(agent, work_report(work, applied("after"))):  # noqa: ASYNC110 - as agents do
                await asyncio.sleep(0.1)
        assert said() == "after"
        await asyncio.to_thread(server.process.wait_until, lambda: server_is_ready(server), 30)


async def fill(agent: WireAgent, work: Object) -> None:
    """Whatever room there is left."""
    for _ in range(100):
        await agent.send(work_report(work, applied("x" * 20_000)))


async def sent(agent: WireAgent, event: CloudEvent) -> bool:
    try:
        await agent.send(event)
    except RpcError:
        return False
    return True
