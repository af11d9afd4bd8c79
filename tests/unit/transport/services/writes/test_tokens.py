"""Tokens go to whoever asked."""

import pytest

from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.runtime.client.errors import NotFound
from muster.transport.contract.event import RESOURCE_ID, CloudEvent
from muster.transport.contract.rows import TOKENS
from muster.transport.contract.types import Subresource
from tests.unit.transport.services.conftest import Hub, agent, data_of, publish
from tests.unit.transport.services.writes.verbs import CREATE, send


class TestTokens:
    def request(self, namespace: str = "c1") -> CloudEvent:
        body = {
            "metadata": {"name": "addon", "namespace": namespace, "uid": "4444"},
            "spec": {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None},
            "status": {"token": "", "expirationTimestamp": None},
        }
        return publish(TOKENS, body, Subresource.SPEC, CREATE)

    async def test_the_answer_is_the_askers_and_has_its_uid(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "addon", "namespace": "c1"}}
        await hub.admin.create(SERVICE_ACCOUNTS, account, "c1")
        async with hub.serving() as services:
            answer = await send(services, TOKENS, self.request(), agent("c1"))
        assert answer is not None
        assert answer.cluster == "c1"
        assert answer.text(RESOURCE_ID) == "4444"
        assert answer.event_type.action is CREATE
        assert answer.source == "kube"
        body = data_of(answer)
        assert body["status"]["token"]
        assert body["metadata"]["uid"] == "4444"
        assert body["metadata"]["name"] == "addon"
        assert "kind" not in body

    async def test_an_account_that_is_not_there_is_not_found(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        async with hub.serving() as services:
            with pytest.raises(NotFound):
                await send(services, TOKENS, self.request(), agent("c1"))
