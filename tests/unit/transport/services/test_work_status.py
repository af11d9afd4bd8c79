"""Reports of works: what arrives, what is held, what is let go, and which of several reports counts."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.agents import WORK_FINALIZER
from muster.machinery.objects import Object
from muster.runtime.client.errors import Conflict, Forbidden, Invalid, Unreachable
from muster.transport.codecs.sequence import REPORTED, Sequence
from muster.transport.contract.event import (
    CLUSTER,
    METADATA,
    ORIGINAL_SOURCE,
    RESOURCE_ID,
    RESOURCE_VERSION,
    SEQUENCE,
    TIME,
    CloudEvent,
    InvalidEvent,
)
from muster.transport.contract.rows import WORKS
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.interfaces import Service
from muster.transport.services.writes.works import ATTEMPTS, LATE_SECONDS, is_late, last_sequence
from tests.unit.transport.services.conftest import Hub, ServerClient, agent, listen, service_of, until

WORK = WORKS.resource
TYPE = str(EventType(WORKS.data_type, Subresource.STATUS, Action.UPDATE))
WRITES = frozenset(("PATCH", "PUT"))
_numbers = Sequence()


def condition(kind: str = "Applied", status: str = "True", **more: Any) -> Object:
    base = {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {**base, **more}


def report(
    work: Object,
    *conditions: Object,
    sequence: int | None = None,
    cluster: str = "c1",
    named: bool = True,
    attributes: Object | None = None,
) -> CloudEvent:
    metadata = work["metadata"]
    known = {"name": metadata["name"], "namespace": cluster, "uid": metadata["uid"]} if named else {"uid": metadata["uid"]}
    return CloudEvent(
        id="1",
        source="c1-work-agent",
        type=TYPE,
        attributes={
            CLUSTER: cluster,
            ORIGINAL_SOURCE: "kube",
            TIME: datetime(2026, 1, 1, tzinfo=UTC),
            RESOURCE_ID: metadata["uid"],
            RESOURCE_VERSION: metadata["generation"],
            SEQUENCE: str(_numbers.next() if sequence is None else sequence),
            METADATA: orjson.dumps(known).decode(),
            **(attributes or {}),
        },
        data=orjson.dumps({"conditions": list(conditions or (condition(),))}),
    )


async def send(services: dict[Any, Service], event: CloudEvent, cluster: str = "c1") -> None:
    assert await service_of(services, WORKS).handle_status_update(event, agent(cluster)) is None


async def told_conditions(hub: Hub, name: str = "w") -> list[str]:
    """The conditions of a work but for ours, as type and status."""
    work = await hub.admin.get(WORK, name, "c1")
    found = (work.get("status") or {}).get("conditions") or ()
    return [f"{one['type']}={one['status']}" for one in found if one["type"] != REPORTED]


class TestReports:
    async def test_the_first_report_holds_the_work_before_it_says_anything(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=["x.example/y"])
        manifest = {"resourceMeta": {"ordinal": 0, "name": "c"}, "conditions": [condition()]}
        event = report(work)
        event = msgspec.structs.replace(event, data=orjson.dumps({"conditions": [condition()], "resourceStatus": [manifest]}))
        async with hub.serving() as services:
            hub.account.taken()
            await send(services, event)
            assert [path.rpartition("/")[2] for method, path in hub.account.taken() if method in WRITES] == ["w", "status"]
        after = await hub.admin.get(WORK, "w", "c1")
        assert after["metadata"]["finalizers"] == ["x.example/y", WORK_FINALIZER]
        assert after["status"]["conditions"][0]["type"] == "Applied"
        assert after["status"]["resourceStatus"]["manifests"][0]["resourceMeta"]["name"] == "c"
        assert after["spec"] == work["spec"]

    async def test_later_reports_are_one_request_each_also_before_the_watch_tells_of_the_last(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            await send(services, report(work))
            hub.account.taken()
            for status in ("False", "True", "Unknown"):
                await send(services, report(work, condition(status=status)))
            assert [method for method, _ in hub.account.taken()] == ["PUT"] * 3
        assert await told_conditions(hub) == ["Applied=Unknown"]

    async def test_a_report_replaces_the_whole_status(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            await send(services, report(work, condition(), condition("Available")))
            await send(services, report(work, condition("Progressing")))
        after = await hub.admin.get(WORK, "w", "c1")
        assert await told_conditions(hub) == ["Progressing=True"]
        assert not after["status"]["resourceStatus"].get("manifests")

    async def test_nothing_but_status_and_finalizer_is_the_agents(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", labels={"a": "b"})
        forged = {"name": "w", "labels": {}, "finalizers": ["x.example/y"], "ownerReferences": [{"name": "x"}]}
        async with hub.serving() as services:
            await send(services, report(work, attributes={METADATA: orjson.dumps(forged).decode()}))
        after = await hub.admin.get(WORK, "w", "c1")
        assert after["metadata"]["labels"] == {"a": "b"}
        assert after["metadata"]["finalizers"] == [WORK_FINALIZER]
        assert "ownerReferences" not in after["metadata"]

    async def test_what_the_agent_says_about_the_order_of_reports_does_not_count(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            await send(services, report(work, condition(REPORTED, reason="Sequence:1"), sequence=77))
        after = await hub.admin.get(WORK, "w", "c1")
        assert last_sequence(after) == 77
        assert len(after["status"]["conditions"]) == 1

    async def test_agents_are_told_nothing_of_what_they_reported(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            told = listen(WORKS, services)
            await send(services, report(work))
            mark = await hub.create_work("c1", "mark")
            await until(lambda: told.changes)
            assert [change.resource_id for change in told.changes] == [mark["metadata"]["uid"]]


class TestWhatIsOfAnotherTime:
    async def test_reports_on_an_older_generation_hold_the_work_and_are_passed_over(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        newer = await hub.admin.patch(WORK, "w", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")
        async with hub.serving() as services:
            await send(services, report(work))
            after = await hub.admin.get(WORK, "w", "c1")
            assert after["metadata"]["finalizers"] == [WORK_FINALIZER]
            assert "status" not in after
            hub.account.taken()
            await send(services, report(work))
            assert hub.account.taken() == []
            await send(services, report(newer))
        assert await told_conditions(hub) == ["Applied=True"]

    async def test_the_same_report_and_older_ones_are_passed_over(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        numbers = [_numbers.next() for _ in range(3)]
        async with hub.serving() as services:
            await send(services, report(work, condition(status="True"), sequence=numbers[1]))
            hub.account.taken()
            for number in (numbers[1], numbers[0]):
                await send(services, report(work, condition(status="False"), sequence=number))
            assert hub.account.taken() == []
            await send(services, report(work, condition(status="Unknown"), sequence=numbers[2]))
        assert await told_conditions(hub) == ["Applied=Unknown"]

    async def test_an_order_outlives_the_server_that_knew_it(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        first, second = _numbers.next(), _numbers.next()
        async with hub.serving() as services:
            await send(services, report(work, condition(status="True"), sequence=second))
        async with hub.serving() as services:
            await send(services, report(work, condition(status="False"), sequence=first))
        assert await told_conditions(hub) == ["Applied=True"]

    async def test_a_late_report_through_another_server_never_replaces_a_newer(self, hub: Hub) -> None:
        """One server was stopped while it judged; meanwhile the agent went on to another."""
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])
        late, newer = _numbers.next(), _numbers.next()
        stopped = ServerClient(hub.account._client)
        reached, going_on = asyncio.Event(), asyncio.Event()

        async def stop(method: str, path: str) -> None:
            if method in WRITES:
                reached.set()
                await going_on.wait()

        async with hub.serving() as services, hub.serving(client=stopped) as others:
            stopped.before = stop
            task = asyncio.create_task(send(others, report(work, condition(status="False"), sequence=late)))
            await reached.wait()
            await send(services, report(work, condition(status="True"), sequence=newer))
            going_on.set()
            await task
        assert await told_conditions(hub) == ["Applied=True"]

    async def test_an_agent_whose_clock_was_set_back_is_heard(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        now = _numbers.next()
        back = now - ((LATE_SECONDS + 1) * 1000 << 22)
        async with hub.serving() as services:
            await send(services, report(work, condition(status="False"), sequence=now))
            await send(services, report(work, condition(status="True"), sequence=back))
        assert await told_conditions(hub) == ["Applied=True"]

    async def test_the_first_report_on_a_generation_is_heard_whatever_its_number(self, hub: Hub) -> None:
        """As of an agent on another machine, whose clock is a little behind."""
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        earlier, later = _numbers.next(), _numbers.next()
        async with hub.serving() as services:
            await send(services, report(work, condition(status="False"), sequence=later))
            newer = await hub.admin.patch(WORK, "w", {"spec": {"workload": {"manifests": []}}}, "c1")
            await send(services, report(newer, condition(status="True"), sequence=earlier))
        assert await told_conditions(hub) == ["Applied=True"]

    @pytest.mark.parametrize("named", [True, False])
    async def test_a_work_that_is_gone_is_no_failure(self, hub: Hub, named: bool) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        await hub.admin.delete(WORK, "w", "c1")
        again = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            await send(services, report(work, named=named))
        assert await hub.admin.get(WORK, "w", "c1") == again

    async def test_a_work_that_is_not_known_here_yet_is_asked_for_by_name(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        await send(hub.idle(), report(work))
        assert await told_conditions(hub) == ["Applied=True"]
        hub.account.taken()
        await send(hub.idle(), report(work, named=False))
        await send(hub.idle(), report(work, attributes={METADATA: '{"name":".."}'}))
        assert hub.account.taken() == []


class TestDeletion:
    async def test_a_work_of_which_nothing_is_left_is_let_go(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=["x.example/y", WORK_FINALIZER])
        await hub.admin.delete(WORK, "w", "c1")
        async with hub.serving() as services:
            # The deletion made a new generation, which the agent need not have seen.
            await send(services, report(work, condition("Deleted")))
            after = await hub.admin.get(WORK, "w", "c1")
            assert after["metadata"]["finalizers"] == ["x.example/y"]
            hub.account.taken()
            await send(services, report(work, condition("Deleted")))
            assert not WRITES.intersection(method for method, _ in hub.account.taken())

    async def test_the_last_finalizer_taken_away_lets_it_go_for_good(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])
        await hub.admin.delete(WORK, "w", "c1")
        async with hub.serving() as services:
            told = listen(WORKS, services)
            await send(services, report(work, condition("Deleted")))
            assert await hub.get(WORKS, "w", "c1") is None
            await until(lambda: told.changes)
            assert told.steps == [(Action.DELETE, "c1", work["metadata"]["uid"])]
            await send(services, report(work, condition("Deleted")))

    async def test_a_work_that_another_server_has_held_meanwhile_is_let_go_too(self, hub: Hub) -> None:
        """The agent says so once: if a server that is behind took it for said already, the work would stay for good."""
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")
        async with hub.serving() as services:
            await until(lambda: service_of(services, WORKS).list("c1"))
        # It hears of nothing from now on.
        await hub.admin.patch(WORK, "w", {"metadata": {"finalizers": [WORK_FINALIZER]}}, "c1")
        await hub.admin.delete(WORK, "w", "c1")
        await send(services, report(work, condition("Deleted")))
        assert await hub.get(WORKS, "w", "c1") is None

    async def test_a_work_that_is_being_deleted_is_not_held_anew(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        await hub.create_work("c1", "w", finalizers=["x.example/y"])
        await hub.admin.delete(WORK, "w", "c1")
        work = await hub.admin.get(WORK, "w", "c1")
        async with hub.serving() as services:
            await send(services, report(work))
        after = await hub.admin.get(WORK, "w", "c1")
        assert after["metadata"]["finalizers"] == ["x.example/y"]
        assert await told_conditions(hub) == ["Applied=True"]


class TestWhoseWorkItIs:
    async def test_another_clusters_work_is_not_written_by_its_uid_nor_by_its_name(self, hub: Hub) -> None:
        for name in ("c1", "c2"):
            await hub.create_cluster(name)
        theirs = await hub.create_work("c2", "w")
        await hub.create_work("c1", "w")
        async with hub.serving() as services:
            for named in (True, False):
                await send(services, report(theirs, named=named))
            with pytest.raises(Forbidden):
                await send(services, report(theirs, cluster="c2"))
        for name in ("c1", "c2"):
            assert "status" not in await hub.admin.get(WORK, "w", name)

    @pytest.mark.parametrize(
        "attributes",
        [{SEQUENCE: ""}, {SEQUENCE: "x"}, {SEQUENCE: "-1"}, {RESOURCE_ID: ""}, {RESOURCE_VERSION: "abc"}, {METADATA: "["}],
        ids=str,
    )
    async def test_what_cannot_be_understood_is_invalid(self, hub: Hub, attributes: Object) -> None:
        work = {"metadata": {"name": "w", "uid": "u", "generation": 1}}
        with pytest.raises(InvalidEvent):
            await send(hub.idle(), report(work, attributes=attributes))


class TestFaults:
    async def before(self, hub: Hub, count: int, act: Callable[[], Any]) -> None:
        """Somebody does something just before each of the first so many writes."""
        left = count

        async def interfere(method: str, path: str) -> None:
            nonlocal left
            if method in WRITES and left:
                left -= 1
                await act()

        hub.account.before = interfere

    async def test_a_report_survives_as_many_writers_as_there_are_attempts(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])
        count = iter(range(100))

        async def label() -> None:
            await hub.admin.patch(WORK, "w", {"metadata": {"labels": {"n": str(next(count))}}}, "c1")

        async with hub.serving() as services:
            await self.before(hub, ATTEMPTS - 1, label)
            await send(services, report(work))
            assert await told_conditions(hub) == ["Applied=True"]
            await self.before(hub, ATTEMPTS, label)
            with pytest.raises(Conflict):
                await send(services, report(work, condition(status="False")))
        assert await told_conditions(hub) == ["Applied=True"]
        after = await hub.admin.get(WORK, "w", "c1")
        assert after["metadata"]["labels"]["n"] == "8"

    async def test_a_new_generation_in_between_makes_the_report_old(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])

        async def respecify() -> None:
            await hub.admin.patch(WORK, "w", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")

        async with hub.serving() as services:
            await self.before(hub, 1, respecify)
            await send(services, report(work))
        assert await told_conditions(hub) == []

    @pytest.mark.parametrize("again", [False, True])
    async def test_a_work_that_goes_in_between_is_no_failure(self, hub: Hub, again: bool) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w")

        async def remove() -> None:
            await hub.admin.delete(WORK, "w", "c1")
            if again:
                await hub.create_work("c1", "w", "b")

        async with hub.serving() as services:
            await self.before(hub, 1, remove)
            await send(services, report(work))
        left = await hub.get(WORKS, "w", "c1")
        assert (left is None) is not again
        if left is not None:
            assert "finalizers" not in left["metadata"]

    async def test_a_hub_that_is_away_and_one_that_refuses_reach_the_caller(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])
        async with hub.serving() as services:
            with pytest.raises(Invalid):
                await send(services, report(work, {"type": "Applied", "status": "True"}))
            hub.account.outage = Unreachable("hub", "away")
            with pytest.raises(Unreachable):
                await send(services, report(work))
            hub.account.outage = None
            await send(services, report(work))
        assert await told_conditions(hub) == ["Applied=True"]

    async def test_reports_at_once_end_with_the_newest(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        work = await hub.create_work("c1", "w", finalizers=[WORK_FINALIZER])
        numbers = [_numbers.next() for _ in range(4)]
        states = ["True", "False", "Unknown", "True"]
        events = [report(work, condition(status=state), sequence=n) for state, n in zip(states, numbers, strict=True)]
        async with hub.serving() as services, hub.serving(client=ServerClient(hub.account._client)) as others:
            ways = (services, others)
            sent = [send(ways[index % 2], event) for index, event in enumerate(reversed(events))]
            await asyncio.gather(*sent)
        assert last_sequence(await hub.admin.get(WORK, "w", "c1")) == numbers[-1]
        assert await told_conditions(hub) == ["Applied=True"]


_snowflakes = st.integers(0, (1 << 63) - 1)
_WINDOW = LATE_SECONDS * 1000 << 22


@given(_snowflakes, _snowflakes)
def test_of_two_reports_at_most_one_is_late_by_the_other_unless_they_are_the_same(one: int, other: int) -> None:
    assert (is_late(one, other) and is_late(other, one)) is (one == other)
    assert is_late(one, one)
    assert not is_late(one, -1)


@given(_snowflakes, st.integers(0, _WINDOW))
def test_what_is_a_little_older_is_late_and_what_is_newer_never_is(last: int, by: int) -> None:
    assert is_late(max(last - by, 0), last)
    if by:
        assert not is_late(last + by, last)


@given(st.from_regex(r"\A(Sequence:)?[0-9a-z:]{0,21}\Z"))
def test_a_reason_that_is_no_sequence_is_before_all_reports(reason: str) -> None:
    work = {"status": {"conditions": [{"type": REPORTED, "reason": reason}]}}
    assert last_sequence(work) == -1 or reason.removeprefix("Sequence:").isdecimal()
    assert last_sequence({}) == -1
