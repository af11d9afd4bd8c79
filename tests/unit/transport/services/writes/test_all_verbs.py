"""What holds of every verb: who may ask, for whose objects, in what words it is refused, and what a hub that is away looks like."""

import msgspec
import orjson
import pytest

from muster.api.agents import LEASE
from muster.machinery.objects import Object
from muster.runtime.client.errors import Forbidden, KubeError, StatusError, Unreachable
from muster.transport.contract.event import CLUSTER, RESOURCE_ID, CloudEvent, InvalidEvent
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, ROWS, Row
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.writes.table import VERBS
from tests.unit.transport.services.conftest import AgentCaller, Hub, agent, publish
from tests.unit.transport.services.writes.verbs import RENEWED, changed, payloads, send, with_attribute


def test_every_row_has_a_verb_for_what_it_accepts_and_no_other() -> None:
    accepted = {(data_type, *pair) for data_type, row in ROWS.items() for pair in row.accepts}
    assert set(VERBS) == accepted


class TestWhatNobodyCanAskFor:
    @pytest.mark.parametrize("row", ROWS.values(), ids=str)
    async def test_other_actions_are_refused_in_words_that_name_what_there_is(self, hub: Hub, row: Row) -> None:
        async with hub.serving() as services:
            for subresource in Subresource:
                for action in (Action.DELETE, Action.CREATE, Action.UPDATE, Action.RESYNC_RESPONSE):
                    if (subresource, action) in row.accepts:
                        continue
                    event = CloudEvent(id="1", source="a", type=str(EventType(row.data_type, subresource, action)))
                    with pytest.raises(StatusError) as refusal:
                        await send(services, row, event, agent("c1"))
                    assert refusal.value.code == 405
                    assert str(next(iter(row.accepts))[1]) in refusal.value.message

    async def test_a_caller_without_a_cluster_is_refused_whatever_the_event_says(self, hub: Hub) -> None:
        nobody = AgentCaller(agent("c1").user, "")
        services = hub.idle()
        for row, subresource, action, obj in payloads("c1"):
            for cluster in ("c1", ""):
                event = with_attribute(publish(row, obj, subresource, action), CLUSTER, cluster)
                with pytest.raises(Forbidden):
                    await send(services, row, event, nobody)
        assert hub.account.taken() == []

    async def test_an_event_of_another_row_is_refused(self, hub: Hub) -> None:
        event = publish(LEASE_ROW, {"metadata": {"name": LEASE, "namespace": "c1"}})
        async with hub.serving() as services:
            with pytest.raises(StatusError):
                await send(services, CLUSTERS, event, agent("c1"))


class TestWhoseObjectItIs:
    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_an_object_of_another_cluster_is_refused_and_nothing_is_asked(self, hub: Hub, case: int) -> None:
        row, subresource, action, theirs = payloads("c2")[case]
        async with hub.serving() as services:
            hub.account.taken()
            for event in (
                publish(row, theirs, subresource, action),
                publish(row, theirs, subresource, action, cluster="c1"),
                publish(row, payloads("c1")[case][3], subresource, action, cluster="c2"),
            ):
                with pytest.raises(Forbidden) as refusal:
                    await send(services, row, event, agent("c1"))
                assert "c2" in refusal.value.message
                assert refusal.value.reason == "Forbidden"
            assert hub.account.taken() == []

    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_what_is_no_object_is_invalid(self, hub: Hub, case: int) -> None:
        row, subresource, action, good = payloads("c1")[case]
        event, services = publish(row, good, subresource, action), hub.idle()
        wrong_kind = orjson.dumps({**good, "kind": "Pod"})
        broken = [None, b"", b"[]", b"{", b'"x"', b"\xff", b'{"metadata":[]}', b"{}", b"[" * 5000, wrong_kind]
        spoiled: tuple[Object, ...] = (
            {"name": ""},
            {"name": ".."},
            {"name": "a/b"},
            {"name": 5},
            {"namespace": []},
            {"labels": {"a": 1}},
            {"annotations": [1]},
            {"uid": {}},
            {"resourceVersion": 7},
        )
        for metadata in spoiled:
            broken.append(orjson.dumps(changed(good, metadata=metadata)))
        for data in broken:
            # A name that is another cluster's is forbidden, where it says whose an object is.
            with pytest.raises((InvalidEvent, Forbidden)):
                await send(services, row, msgspec.structs.replace(event, data=data), agent("c1"))
        assert hub.account.taken() == []

    async def test_the_id_of_the_event_is_that_of_the_object(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = await hub.lease("c1")
        event = publish(LEASE_ROW, changed(lease, spec={"renewTime": RENEWED}))
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="resourceid"):
                await send(services, LEASE_ROW, with_attribute(event, RESOURCE_ID, "another"), agent("c1"))
            # Agents of OCM 1.2 say the name.
            await send(services, LEASE_ROW, with_attribute(event, RESOURCE_ID, LEASE), agent("c1"))


class TestOutages:
    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_a_hub_that_is_away_reaches_the_caller_as_the_error_it_is(self, hub: Hub, case: int) -> None:
        row, subresource, action, good = payloads("c1")[case]
        services = hub.idle()
        hub.account.outage = Unreachable("hub", "away")
        with pytest.raises(KubeError) as failure:
            await send(services, row, publish(row, good, subresource, action), agent("c1"))
        assert isinstance(failure.value, Unreachable)
