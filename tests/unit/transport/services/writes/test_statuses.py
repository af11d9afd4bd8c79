"""The status of clusters and addons: it alone is written, for the version that the agent knows."""

import pytest

from muster.runtime.client.errors import Conflict
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, CLUSTERS, Row
from tests.unit.transport.services.conftest import Hub, agent, publish
from tests.unit.transport.services.writes.verbs import STATUS, changed, send

CONFIGS = [{"resource": "configmaps", "group": "", "name": "c", "namespace": "c1"}]


class TestStatuses:
    @pytest.mark.parametrize("row", [CLUSTERS, ADDONS_ALPHA, ADDONS_BETA], ids=lambda row: str(row.data_type))
    async def test_the_status_is_replaced_for_the_version_seen_and_nothing_else_is(self, hub: Hub, row: Row) -> None:
        await hub.create_cluster("c1")
        if row is CLUSTERS:
            name, namespace = "c1", ""
        else:
            name, namespace = "addon", "c1"
            await hub.create(ADDONS_BETA, {"name": name, "namespace": "c1"}, spec={"configs": CONFIGS})
        before = await hub.admin.get(row.resource, name, namespace)
        condition = {
            "type": "Available",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        copy = changed(before, status={"conditions": [condition]}, metadata={"labels": {"a": "b"}}, spec={"x": "y"})
        async with hub.serving() as services:
            hub.account.taken()
            await send(services, row, publish(row, copy, STATUS), agent("c1"))
            assert [method for method, _ in hub.account.taken()] == ["PUT"]
            after = await hub.admin.get(row.resource, name, namespace)
            assert after["status"]["conditions"] == [condition]
            stored = CLUSTERS if row is CLUSTERS else ADDONS_BETA
            spec = (await hub.admin.get(stored.resource, name, namespace))["spec"]
            assert spec == ({"configs": CONFIGS} if stored is ADDONS_BETA else before["spec"])
            assert after["metadata"].get("labels") == before["metadata"].get("labels")
            with pytest.raises(Conflict):
                await send(services, row, publish(row, copy, STATUS), agent("c1"))
            again = changed(after, metadata={"uid": "00000000-0000-0000-0000-000000000000"})
            with pytest.raises(Conflict):
                await send(services, row, publish(row, again, STATUS), agent("c1"))
            with pytest.raises(InvalidEvent, match="resourceVersion"):
                await send(services, row, publish(row, changed(copy, metadata={"resourceVersion": ""}), STATUS), agent("c1"))
