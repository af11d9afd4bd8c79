"""Works that are too large to be sent say so themselves, as long as they are."""

import asyncio
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.transport.contract.rows import WORKS
from muster.transport.services.delivery import TOO_LARGE
from muster.transport.services.interfaces import Service
from muster.transport.services.reduction import DELIVERED
from tests.unit.transport.services.conftest import Hub, agent, service_of, until
from tests.unit.transport.services.test_work_status import report

LIMIT = 10_000
LARGE = "x" * LIMIT


async def delivered(hub: Hub, name: str = "w") -> Object | None:
    work = await hub.admin.get(WORKS.resource, name, "c1")
    conditions = (work.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == DELIVERED), None)


async def eventually(hub: Hub, *, there: bool, name: str = "w", generation: int = 0) -> Object:
    """The condition once it is there, of this generation if one is given; or once it is gone."""
    async with asyncio.timeout(20):
        while True:
            found = await delivered(hub, name)
            if (found is not None) is there and (not generation or (found or {})["observedGeneration"] == generation):
                return found or {}
            await asyncio.sleep(0.005)


async def change(hub: Hub, value: str) -> Object:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "x"}, "data": {"a": value}}
    return await hub.admin.patch(WORKS.resource, "w", {"spec": {"workload": {"manifests": [config]}}}, "c1")


def undeliverable(services: dict[Any, Service], work: Object) -> None:
    """As the broker tells it."""
    service_of(services, WORKS).undeliverable(work["metadata"]["uid"])


async def known(services: dict[Any, Service], work: Object) -> None:
    """Until the service has this generation."""
    metadata = work["metadata"]
    service = service_of(services, WORKS)
    await until(lambda: (metadata["uid"], metadata["generation"], False) in [one[:3] for one in service.versions("c1")])


async def test_a_work_that_an_agent_cannot_be_sent_says_so_until_it_fits(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, work)
        found = await eventually(hub, there=True)
        assert (found["status"], found["reason"], found["observedGeneration"]) == ("False", TOO_LARGE, 1)
        assert str(LIMIT) in found["message"]
        await change(hub, "small")
        await eventually(hub, there=False)


async def test_a_work_that_fits_or_that_nobody_listens_for_is_left_alone(hub: Hub) -> None:
    await hub.create_cluster("c1")
    small = await hub.create_work("c1", "small")
    await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, small)
        last = await hub.create_work("c1", "last", LARGE)
        await known(services, last)
        undeliverable(services, last)
        await eventually(hub, there=True, name="last")
        assert await delivered(hub, "small") is None
        assert await delivered(hub, "w") is None


async def test_it_is_said_once_however_often_the_work_cannot_be_sent(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, work)
        await eventually(hub, there=True)
        service: Any = service_of(services, WORKS)
        await until(lambda: service._objects.get(work["metadata"]["uid"]).undelivered == 1)
        version = (await hub.admin.get(WORKS.resource, "w", "c1"))["metadata"]["resourceVersion"]
        await asyncio.sleep(0)
        hub.account.taken()
        for _ in range(10):
            undeliverable(services, work)
        await asyncio.sleep(0.05)
        assert hub.account.taken() == []
        assert (await hub.admin.get(WORKS.resource, "w", "c1"))["metadata"]["resourceVersion"] == version


async def test_another_generation_that_does_not_fit_either_is_said_anew_since_the_same_time(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, work)
        first = await eventually(hub, there=True)
        await change(hub, LARGE + "y")
        second = await eventually(hub, there=True, generation=2)
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        assert second["message"] != first["message"]


async def test_a_server_that_was_not_there_when_it_was_said_takes_it_away(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, work)
        await eventually(hub, there=True)
    await change(hub, "small")
    async with hub.serving(max_event=LIMIT):
        await eventually(hub, there=False)


async def test_two_servers_say_the_same(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as one, hub.serving(max_event=LIMIT) as other:
        undeliverable(one, work)
        undeliverable(other, work)
        await eventually(hub, there=True)
        await change(hub, "small")
        await eventually(hub, there=False)


async def test_whoever_reports_on_a_generation_has_got_it(hub: Hub) -> None:
    """By a server whose limit is higher, or over another transport."""
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as services:
        undeliverable(services, work)
        said = await eventually(hub, there=True)
        claim = {**said, "status": "True"}
        applied = {**said, "type": "Applied", "status": "True"}
        await service_of(services, WORKS).handle_status_update(report(work, applied, claim), agent("c1"))
        assert await delivered(hub) is None
        undeliverable(services, work)
        last = await hub.create_work("c1", "last", LARGE)
        await known(services, last)
        undeliverable(services, last)
        await eventually(hub, there=True, name="last")
        assert await delivered(hub) is None


async def test_what_changed_but_for_the_spec_is_judged_anew(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w")
    async with hub.serving(max_event=LIMIT) as services:
        labels = {f"l{number}": "x" * 60 for number in range(200)}
        await hub.admin.patch(WORKS.resource, "w", {"metadata": {"labels": labels}}, "c1")
        undeliverable(services, work)
        await eventually(hub, there=True)
        await hub.admin.patch(WORKS.resource, "w", {"metadata": {"labels": None}}, "c1")
        await eventually(hub, there=False)


async def test_servers_whose_limits_differ_do_not_undo_what_the_other_has_said(hub: Hub) -> None:
    await hub.create_cluster("c1")
    work = await hub.create_work("c1", "w", LARGE)
    async with hub.serving(max_event=LIMIT) as narrow, hub.serving() as wide:
        undeliverable(narrow, work)
        said = await eventually(hub, there=True)
        await hub.admin.patch(WORKS.resource, "w", {"metadata": {"labels": {"a": "b"}}}, "c1")
        service: Any = service_of(wide, WORKS)
        await until(lambda: b'"a":"b"' in service._objects.get(work["metadata"]["uid"]).raw)
        await asyncio.sleep(0.1)
        assert (await delivered(hub) or {})["lastTransitionTime"] == said["lastTransitionTime"]
        await change(hub, "small")
        await eventually(hub, there=False)


@pytest.mark.parametrize("uid", ["nobody", ""])
async def test_what_is_not_there_is_nobodys_business(hub: Hub, uid: str) -> None:
    async with hub.serving(max_event=LIMIT) as services:
        service_of(services, WORKS).undeliverable(uid)
        service_of(services, WORKS).undeliverable(uid)
