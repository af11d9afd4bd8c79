"""Leases are renewed by one request, and nothing else of them is changed."""

from typing import Any

import pytest

from muster.api.agents import CLUSTER_LABEL, LEASE
from muster.runtime.client.errors import Conflict, Forbidden, NotFound
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.rows import LEASE_ROW
from tests.unit.transport.services.conftest import Hub, agent, publish
from tests.unit.transport.services.writes.verbs import RENEWED, changed, send


class TestLeases:
    async def test_a_renewal_is_one_request_and_changes_the_time_alone(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        before = await hub.lease("c1")
        forged = changed(before, spec={"renewTime": RENEWED, "leaseDurationSeconds": 9999}, metadata={"labels": {}})
        async with hub.serving() as services:
            hub.account.taken()
            await send(services, LEASE_ROW, publish(LEASE_ROW, forged), agent("c1"))
            assert [method for method, _ in hub.account.taken()] == ["PUT"]
        after = await hub.lease("c1")
        assert after["spec"] == {**before["spec"], "renewTime": RENEWED}
        assert after["metadata"]["labels"] == {CLUSTER_LABEL: "c1"}

    async def test_an_older_version_is_a_conflict(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        event = publish(LEASE_ROW, changed(await hub.lease("c1"), spec={"renewTime": RENEWED}))
        async with hub.serving() as services:
            await send(services, LEASE_ROW, event, agent("c1"))
            with pytest.raises(Conflict):
                await send(services, LEASE_ROW, event, agent("c1"))

    async def test_a_lease_that_is_not_there_is_not_found_and_not_made(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = await hub.lease("c1")
        await hub.admin.delete(LEASE_ROW.resource, LEASE, "c1")
        async with hub.serving() as services:
            with pytest.raises(NotFound):
                await send(services, LEASE_ROW, publish(LEASE_ROW, changed(lease, spec={"renewTime": RENEWED})), agent("c1"))
        assert await hub.get(LEASE_ROW, LEASE, "c1") is None

    async def test_a_lease_that_was_made_anew_is_another_one(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = changed(await hub.lease("c1"), spec={"renewTime": RENEWED}, metadata={"resourceVersion": ""})
        await hub.admin.delete(LEASE_ROW.resource, LEASE, "c1")
        await hub.create_lease("c1")
        async with hub.serving() as services:
            with pytest.raises(Conflict):
                await send(services, LEASE_ROW, publish(LEASE_ROW, lease), agent("c1"))

    async def test_another_lease_of_the_namespace_is_not_the_agents(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        other = await hub.create_lease("c1", "other")
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match=LEASE):
                await send(services, LEASE_ROW, publish(LEASE_ROW, changed(other, spec={"renewTime": RENEWED})), agent("c1"))

    @pytest.mark.parametrize("when", [None, "", 5])
    async def test_a_renewal_without_a_time_is_invalid(self, hub: Hub, when: Any) -> None:
        await hub.create_cluster("c1")
        event = publish(LEASE_ROW, changed(await hub.lease("c1"), spec={"renewTime": when}))
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="renewTime"):
                await send(services, LEASE_ROW, event, agent("c1"))
