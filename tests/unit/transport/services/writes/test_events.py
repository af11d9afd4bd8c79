"""Events are made and counted on."""

from typing import Any

import pytest

from muster.runtime.client.errors import StatusError
from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.rows import EVENT_ROW
from muster.transport.contract.types import Action, Subresource
from muster.transport.services.writes.events import MOST_BYTES
from tests.unit.transport.services.conftest import Hub, agent, publish
from tests.unit.transport.services.writes.verbs import CREATE, send


class TestEvents:
    def event(self, action: Action = CREATE, **fields: Any) -> CloudEvent:
        body = {
            "metadata": {"name": "e1", "namespace": "c1", "finalizers": ["a.example/b"]},
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingController": "agent",
            "reportingInstance": "a1",
            "action": "Act",
            "reason": "Reason",
            "type": "Normal",
            "note": "n",
            "regarding": {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"},
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            **fields,
        }
        return publish(EVENT_ROW, body, Subresource.SPEC, action)

    async def test_an_event_is_made_and_then_counted_on(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        series = {"count": 3, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}
        async with hub.serving() as services:
            await send(services, EVENT_ROW, self.event(), agent("c1"))
            made = await hub.admin.get(EVENT_ROW.resource, "e1", "c1")
            assert made["note"] == "n"
            assert "finalizers" not in made["metadata"]
            await send(services, EVENT_ROW, self.event(Action.UPDATE, series=series, note="forged"), agent("c1"))
        after = await hub.admin.get(EVENT_ROW.resource, "e1", "c1")
        assert after["series"] == series
        assert after["note"] == "n"

    async def test_one_that_the_hub_has_forgotten_is_nobodys_failure(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        async with hub.serving() as services:
            event = self.event(Action.UPDATE, series={"count": 3, "lastObservedTime": "2026-01-02T03:05:05.000000Z"})
            assert await send(services, EVENT_ROW, event, agent("c1")) is None
            with pytest.raises(InvalidEvent, match="series"):
                await send(services, EVENT_ROW, self.event(Action.UPDATE), agent("c1"))

    async def test_a_large_one_is_refused_before_it_is_read(self, hub: Hub) -> None:
        async with hub.serving() as services:
            hub.account.taken()
            with pytest.raises(StatusError) as refusal:
                await send(services, EVENT_ROW, self.event(note="x" * MOST_BYTES), agent("c1"))
            assert refusal.value.code == 413
            assert hub.account.taken() == []
