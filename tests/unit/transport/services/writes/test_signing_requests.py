"""Requests for certificates: they say who asked as the credential proves, and nothing that the agent makes up."""

from typing import Any

import pytest

from muster.api.addon.conversion import KUBE_CLIENT_SIGNER
from muster.api.addons import ADDON_LABEL
from muster.api.agents import CLUSTER_LABEL, CSR_USER, GRPC_SIGNER
from muster.machinery.objects import Object
from muster.runtime.client.errors import AlreadyExists, Forbidden
from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.rows import SIGNING_REQUEST_ROW
from muster.transport.contract.types import Subresource
from tests.unit.transport.services.conftest import AgentCaller, Hub, agent, newcomer, publish, signing_request_spec
from tests.unit.transport.services.writes.verbs import CREATE, send


class TestSigningRequests:
    def request(self, name: str = "c1-abcde", labels: Object | None = None, **spec: Any) -> CloudEvent:
        metadata = {
            "name": name,
            "labels": labels or {CLUSTER_LABEL: "c1"},
            "annotations": {CSR_USER: "system:admin", "x": "y"},
        }
        body = {"metadata": metadata, "spec": {**signing_request_spec(), "username": "system:admin", **spec}, "status": {}}
        return publish(SIGNING_REQUEST_ROW, body, Subresource.SPEC, CREATE)

    @pytest.mark.parametrize("caller", [agent("c1"), newcomer("c1")], ids=["agent", "newcomer"])
    async def test_a_request_says_who_asked_as_the_credential_proves(self, hub: Hub, caller: AgentCaller) -> None:
        event = self.request(labels={CLUSTER_LABEL: "c1", "more": "x"}, expirationSeconds=3600)
        async with hub.serving() as services:
            await send(services, SIGNING_REQUEST_ROW, event, caller)
        csr = await hub.admin.get(SIGNING_REQUEST_ROW.resource, "c1-abcde")
        assert csr["metadata"]["annotations"] == {CSR_USER: caller.user.name}
        assert csr["metadata"]["labels"] == {CLUSTER_LABEL: "c1"}
        assert csr["spec"]["signerName"] == GRPC_SIGNER
        assert csr["spec"]["expirationSeconds"] == 3600
        assert csr["spec"]["username"].startswith("system:serviceaccount:")

    @pytest.mark.parametrize("signer", ["kubernetes.io/kube-apiserver-client", "", None, "open-cluster-management.io/grpc2"])
    async def test_no_other_signer_is_asked(self, hub: Hub, signer: str | None) -> None:
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match="signerName"):
                await send(services, SIGNING_REQUEST_ROW, self.request(signerName=signer), agent("c1"))
        assert not (await hub.admin.list(SIGNING_REQUEST_ROW.resource)).items

    @pytest.mark.parametrize("name", ["c2-abcde", "c1", "c1-", "c1x", "c1-A", "abc"])
    async def test_the_name_begins_with_the_clusters(self, hub: Hub, name: str) -> None:
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="c1-…"):
                await send(services, SIGNING_REQUEST_ROW, self.request(name), agent("c1"))

    async def test_a_name_that_is_taken_is_told(self, hub: Hub) -> None:
        async with hub.serving() as services:
            await send(services, SIGNING_REQUEST_ROW, self.request(), agent("c1"))
            with pytest.raises(AlreadyExists):
                await send(services, SIGNING_REQUEST_ROW, self.request(), agent("c1"))


class TestSigningRequestsOfAddons:
    def request(self, name: str = "addon-c1-work-abcde", addon: str = "work", signer: str = KUBE_CLIENT_SIGNER) -> CloudEvent:
        metadata = {"name": name, "labels": {CLUSTER_LABEL: "c1", ADDON_LABEL: addon, "more": "x"}}
        spec = {**signing_request_spec(), "signerName": signer}
        return publish(SIGNING_REQUEST_ROW, {"metadata": metadata, "spec": spec}, Subresource.SPEC, CREATE)

    @pytest.mark.parametrize("signer", [KUBE_CLIENT_SIGNER, "example.com/custom"])
    async def test_an_agent_asks_for_an_addon_of_its_cluster(self, hub: Hub, signer: str) -> None:
        async with hub.serving() as services:
            await send(services, SIGNING_REQUEST_ROW, self.request(signer=signer), agent("c1"))
        csr = await hub.admin.get(SIGNING_REQUEST_ROW.resource, "addon-c1-work-abcde")
        assert csr["metadata"]["labels"] == {CLUSTER_LABEL: "c1", ADDON_LABEL: "work"}
        assert csr["metadata"]["annotations"] == {CSR_USER: agent("c1").user.name}
        assert csr["spec"]["signerName"] == signer

    async def test_whoever_lets_a_cluster_join_does_not(self, hub: Hub) -> None:
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match="registered agent"):
                await send(services, SIGNING_REQUEST_ROW, self.request(), newcomer("c1"))

    @pytest.mark.parametrize(
        "signer", [GRPC_SIGNER, "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"]
    )
    async def test_signers_of_agents_and_nodes_are_not_asked(self, hub: Hub, signer: str) -> None:
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match="signerName"):
                await send(services, SIGNING_REQUEST_ROW, self.request(signer=signer), agent("c1"))

    @pytest.mark.parametrize("name", ["addon-c2-work-abcde", "addon-c1-other-abcde", "c1-abcde", "addon-c1-work-"])
    async def test_the_name_begins_with_cluster_and_addon(self, hub: Hub, name: str) -> None:
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="addon-c1-work-…"):
                await send(services, SIGNING_REQUEST_ROW, self.request(name), agent("c1"))
