"""What services tell of the hub's objects: events of a cluster, changes as they happen, and what is gone."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import orjson
import pytest

from muster.api.agents import CLUSTER_LABEL
from muster.runtime.auth import AccessReviewer
from muster.runtime.cache import Snapshot
from muster.runtime.cache.store import Cache
from muster.runtime.client.errors import NotFound, Unreachable
from muster.transport.codecs.objects import decode_object
from muster.transport.codecs.sequence import REPORTED
from muster.transport.codecs.works import decode_spec
from muster.transport.contract.event import DELETED, METADATA, RESOURCE_VERSION, InvalidEvent
from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    EVENT_ROW,
    LEASE_ROW,
    ROWS,
    SIGNING_REQUEST_ROW,
    TOKENS,
    WORKS,
)
from muster.transport.contract.types import Action
from muster.transport.services.kube import kube_services
from muster.transport.services.object_service import ObjectService
from muster.transport.services.objects import SourceHandler
from muster.transport.services.reduction import DELIVERED
from muster.transport.services.reported import read_statuses
from tests.support.fake_clock import FakeClock
from tests.unit.transport.services.conftest import Hub, agent, data_of, listen, service_of, signing_request, until


class TestObjectsOfACluster:
    async def test_every_row_gives_what_is_its_clusters_and_nothing_else(self, hub: Hub) -> None:
        made = {}
        for name in ("c1", "c2"):
            made[CLUSTERS.data_type, name] = await hub.create_cluster(name)
            made[LEASE_ROW.data_type, name] = await hub.lease(name)
            made[WORKS.data_type, name] = await hub.create_work(name, "w")
            made[SIGNING_REQUEST_ROW.data_type, name] = await signing_request(hub, f"{name}-a", name)
            addon = await hub.create(ADDONS_BETA, {"name": "a", "namespace": name}, spec={})
            made[ADDONS_BETA.data_type, name] = made[ADDONS_ALPHA.data_type, name] = addon
        async with hub.serving() as services:
            for data_type, row in ROWS.items():
                service = services[data_type]
                assert service.row is row
                for cluster in ("c1", "c2"):
                    expected = made.get((data_type, cluster))
                    found = service.list(cluster)
                    assert [event.text("resourceid") for event in found] == ([expected["metadata"]["uid"]] if expected else [])
                    assert all(event.cluster == cluster and event.source == "kube" for event in found)
                    if expected:
                        assert service.get(expected["metadata"]["uid"]).cluster == cluster
                assert service.list("c3") == []
                assert service.list("") == []

    async def test_events_are_shaped_as_their_rows_are(self, hub: Hub) -> None:
        cluster, work = await hub.create_cluster("c1"), await hub.create_work("c1", "w")
        async with hub.serving() as services:
            (plain,) = service_of(services, CLUSTERS).list("c1")
            assert plain.attributes[RESOURCE_VERSION] == cluster["metadata"]["resourceVersion"]
            body = data_of(plain)
            assert body["kind"] == "ManagedCluster"
            assert "managedFields" not in body["metadata"]
            assert body["spec"] == cluster["spec"]
            (bundle,) = service_of(services, WORKS).list("c1")
            assert bundle.attributes[RESOURCE_VERSION] == 1
            assert data_of(bundle)["manifests"] == work["spec"]["workload"]["manifests"]
            assert "managedFields" not in bundle.text(METADATA)

    async def test_versions_are_what_resyncs_compare(self, hub: Hub) -> None:
        cluster = await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=["x.example/y"])
        await hub.admin.delete(WORKS.resource, "w", "c1")
        async with hub.serving() as services:
            (version,) = service_of(services, CLUSTERS).versions("c1")
            assert version == (cluster["metadata"]["uid"], int(cluster["metadata"]["resourceVersion"]), False)
            (version,) = service_of(services, WORKS).versions("c1")
            assert version == (work["metadata"]["uid"], 2, True)

    async def test_live_versions_are_the_hubs_whatever_is_known_here(self, hub: Hub) -> None:
        for name in ("c1", "c2"):
            await hub.create_cluster(name)
            await hub.create_work(name, "w")
            await signing_request(hub, f"{name}-a", name)
            await hub.create(ADDONS_BETA, {"name": "a", "namespace": name}, spec={})
        idle = hub.idle()
        async with hub.serving() as services:
            for row in ROWS.values():
                for cluster in ("c1", "c2", "c3"):
                    known = list(service_of(services, row).versions(cluster))
                    assert await service_of(idle, row).live_versions(cluster, agent(cluster)) == known
                    assert len(known) == (row.sends and cluster != "c3")
        hub.account.outage = Unreachable("hub", "away")
        with pytest.raises(Unreachable):
            await service_of(idle, WORKS).live_versions("c1", agent("c1"))

    async def test_what_nobody_has_is_not_found(self, hub: Hub) -> None:
        async with hub.serving() as services:
            with pytest.raises(NotFound):
                service_of(services, WORKS).get("nobody")

    async def test_rows_that_send_nothing_are_empty_and_know_it(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        async with hub.serving() as services:
            for row in (EVENT_ROW, TOKENS):
                assert service_of(services, row).synced
                assert service_of(services, row).list("c1") == []


class TestMalformedObjects:
    async def test_an_object_that_cannot_be_sent_harms_itself_alone(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        bad, good = await hub.create_work("c1", "bad"), await hub.create_work("c1", "good")

        class Source:
            synced = served = True

            def on_change(self, handler: SourceHandler) -> None:
                reader: Cache[Snapshot] = Cache(WORKS.resource)
                for work, generation in ((bad, 1 << 40), (good, 1)):
                    work["metadata"]["generation"] = generation
                    handler(None, reader.read(orjson.dumps(work)))

            async def run(self) -> None: ...

        service = ObjectService(WORKS, Source(), lambda caller: hub.account, AccessReviewer(hub.admin))
        assert [event.text("resourceid") for event in service.list("c1")] == [good["metadata"]["uid"]]
        with pytest.raises(InvalidEvent):
            service.get(bad["metadata"]["uid"])


class TestChanges:
    async def test_what_is_there_at_first_is_no_change(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        services = kube_services(hub.account, AccessReviewer(hub.admin))
        told, service = listen(CLUSTERS, services), service_of(services, CLUSTERS)
        assert not service.synced
        task = asyncio.create_task(service.run())
        try:
            await until(lambda: service.synced)
            second = await hub.create_cluster("c2")
            await until(lambda: told.changes)
            assert told.steps == [(Action.CREATE, "c2", second["metadata"]["uid"])]
        finally:
            task.cancel()

    async def test_a_cluster_comes_changes_and_goes(self, hub: Hub) -> None:
        async with hub.serving() as services:
            told = listen(CLUSTERS, services)
            uid = (await hub.create_cluster("c1"))["metadata"]["uid"]
            await hub.admin.patch(CLUSTERS.resource, "c1", {"metadata": {"labels": {"a": "b"}}})
            await hub.admin.delete(CLUSTERS.resource, "c1")
            await until(lambda: len(told.changes) == 3)
            assert told.steps == [(action, "c1", uid) for action in (Action.CREATE, Action.UPDATE, Action.DELETE)]
            events = [one.event() for one in told.changes]
            assert [str(event.event_type.action) for event in events] == ["create_request", "update_request", "delete_request"]
            assert data_of(events[1])["metadata"]["labels"]["a"] == "b"
            assert DELETED in events[2].attributes
            assert decode_object(CLUSTERS, events[2]).gone

    async def test_of_a_work_agents_are_told_what_is_theirs_to_know(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        resource = WORKS.resource
        async with hub.serving() as services:
            told = listen(WORKS, services)
            uid = (await hub.create_work("c1", "w", finalizers=["x.example/y"]))["metadata"]["uid"]
            await until(lambda: told.changes)
            for patch, subresource, news in (
                ({"metadata": {"labels": {"a": "b"}}}, "", True),
                ({"metadata": {"annotations": {"a": "b"}}}, "", True),
                ({"metadata": {"finalizers": ["x.example/y", "x.example/z"]}}, "", False),
                ({"status": {"conditions": []}}, "status", False),
                ({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "", True),
                ({"metadata": {"annotations": {"a": "b"}}}, "", False),
                ({"metadata": {"labels": {"a": None}}}, "", True),
            ):
                told.changes.clear()
                answer = await hub.admin.patch(resource, "w", patch, "c1", subresource=subresource)
                await hub.create_work("c1", "mark")
                await until(lambda: any(one.resource_id != uid for one in told.changes))
                await hub.admin.delete(resource, "mark", "c1")
                steps = [step for step in told.steps if step[2] == uid]
                assert steps == ([(Action.UPDATE, "c1", uid)] if news else []), patch
                assert service_of(services, WORKS).get(uid).attributes[RESOURCE_VERSION] == answer["metadata"]["generation"]
                await until(lambda: any(one.action is Action.DELETE for one in told.changes))
            told.changes.clear()
            await hub.admin.delete(resource, "w", "c1")
            await until(lambda: told.changes)
            assert told.steps == [(Action.UPDATE, "c1", uid)]
            deleting = told.changes[0].event()
            assert DELETED in deleting.attributes
            assert deleting.data is None
            await hub.admin.patch(resource, "w", {"metadata": {"finalizers": None}}, "c1")
            await until(lambda: len(told.changes) == 2)
            received = decode_spec(told.changes[1].event())
            assert told.changes[1].action is Action.DELETE
            assert received.obj is not None
            assert received.obj["metadata"]["name"] == "w"

    async def test_an_object_that_is_another_by_its_uid_went_and_came(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        first = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            told = listen(WORKS, services)
            await hub.admin.delete(WORKS.resource, "w", "c1")
            second = await hub.create_work("c1", "w", "b")
            uids = [one["metadata"]["uid"] for one in (first, second)]
            await until(lambda: len(told.changes) == 2)
            assert told.steps == [(Action.DELETE, "c1", uids[0]), (Action.CREATE, "c1", uids[1])]

    async def test_an_object_whose_label_says_another_cluster_went_from_one_to_the_other(self, hub: Hub) -> None:
        csr = await signing_request(hub, "c1-a", "c1")
        uid = csr["metadata"]["uid"]
        async with hub.serving() as services:
            service, told = service_of(services, SIGNING_REQUEST_ROW), listen(SIGNING_REQUEST_ROW, services)
            await hub.admin.patch(SIGNING_REQUEST_ROW.resource, "c1-a", {"metadata": {"labels": {CLUSTER_LABEL: "c2"}}})
            await until(lambda: len(told.changes) == 2)
            assert told.steps == [(Action.DELETE, "c1", uid), (Action.CREATE, "c2", uid)]
            assert service.list("c1") == []
            assert len(service.list("c2")) == 1
            await hub.admin.patch(SIGNING_REQUEST_ROW.resource, "c1-a", {"metadata": {"labels": {CLUSTER_LABEL: None}}})
            await until(lambda: len(told.changes) == 3)
            assert told.steps[2] == (Action.DELETE, "c2", uid)
            assert service.list("c2") == []

    async def test_a_relist_after_an_outage_tells_what_happened_and_nothing_twice(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        kept = await hub.create_work("c1", "kept")
        gone = await hub.create_work("c1", "gone")
        clock = FakeClock()
        async with hub.serving(clock=clock) as services:
            service, told = service_of(services, WORKS), listen(WORKS, services)
            hub.account.outage = Unreachable("hub", "away")
            await hub.admin.delete(WORKS.resource, "gone", "c1")
            await hub.admin.patch(WORKS.resource, "kept", {"metadata": {"labels": {"a": "b"}}}, "c1")
            await hub.create_work("c1", "new")
            assert service.synced
            hub.account.outage = None
            for _ in range(200):
                await clock.advance(1.0)
                if len(told.changes) >= 3:
                    break
            uids = {one["metadata"]["uid"]: one["metadata"]["name"] for one in (kept, gone)}
            steps = sorted((uids.get(uid, "new"), str(action)) for action, _, uid in told.steps)
            assert steps == [("gone", "delete_request"), ("kept", "update_request"), ("new", "create_request")]


class TestTombstones:
    async def test_what_was_seen_to_go_is_told_with_name_and_version(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            works, clusters = service_of(services, WORKS), service_of(services, CLUSTERS)
            uid = work["metadata"]["uid"]
            assert works.tombstone("c1", uid) is None
            told = listen(WORKS, services)
            await hub.admin.delete(WORKS.resource, "w", "c1")
            await until(lambda: told.changes)
            event = works.tombstone("c1", uid)
            assert event is not None
            received = decode_spec(event)
            assert received.version == 1
            assert received.deleted is not None
            assert received.obj is not None
            assert received.obj["metadata"]["name"] == "w"
            assert received.obj["metadata"]["namespace"] == "c1"
            assert works.tombstone("c2", uid) is None
            cluster = await hub.admin.get(CLUSTERS.resource, "c1")
            await hub.admin.delete(CLUSTERS.resource, "c1")
            await until(lambda: not clusters.list("c1"))
            event = clusters.tombstone("c1", cluster["metadata"]["uid"])
            assert event is not None
            assert decode_object(CLUSTERS, event).gone
            assert msgspec.json.decode(event.data or b"")["metadata"]["name"] == "c1"


class TestStatuses:
    """What agents have reported is not kept here, and can be had."""

    async def test_they_are_the_hubs_with_the_number_of_the_report_and_without_what_else_agents_do_not_write(
        self, hub: Hub
    ) -> None:
        for cluster in ("c1", "c2"):
            await hub.create_cluster(cluster)
        works = {name: await hub.create_work("c1", name) for name in ("reported", "silent")}
        foreign = await hub.create_work("c2", "foreign")
        conditions = [
            {"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("Applied", REPORTED, DELIVERED)
        ]
        for work in (works["reported"], foreign):
            metadata = work["metadata"]
            patch = {"status": {"conditions": conditions, "resourceStatus": {"manifests": []}}}
            await hub.admin.patch(WORKS.resource, metadata["name"], patch, metadata["namespace"], subresource="status")
        statuses = await service_of(hub.idle(), WORKS).live_statuses("c1", agent("c1"))
        assert set(statuses) == {works["reported"]["metadata"]["uid"]}
        (status,) = map(orjson.loads, statuses.values())
        assert status == {"conditions": conditions[:2], "resourceStatus": {"manifests": []}}

    async def test_of_other_kinds_which_are_sent_with_theirs_there_are_none(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        hub.account.taken()
        assert await service_of(hub.idle(), CLUSTERS).live_statuses("c1", agent("c1")) == {}
        assert hub.account.taken() == []

    async def test_no_more_are_held_than_there_is_room_for(self) -> None:
        async def pages() -> AsyncIterator[list[bytes]]:
            for number in range(4):
                yield [orjson.dumps({"metadata": {"uid": f"u{number}"}, "status": {"x": "y" * 100}})]

        assert set(await read_statuses(pages(), "c1", most_bytes=250)) == {"u0", "u1"}

    @pytest.mark.parametrize("status", [None, {}, [], "odd", {"conditions": "odd"}, {"conditions": [1]}])
    async def test_one_that_cannot_be_read_harms_itself_alone(self, status: object) -> None:
        async def pages() -> AsyncIterator[list[bytes]]:
            yield [
                orjson.dumps({"metadata": {"uid": "odd"}, "status": status}),
                orjson.dumps({"metadata": {"uid": "good"}, "status": {"conditions": None}}),
            ]

        assert set(await read_statuses(pages(), "c1")) == {"good"}
