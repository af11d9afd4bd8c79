"""The registration agent with a hub that it reaches over gRPC alone: it is the same agent, with another client."""

import base64
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api.agents import CLUSTER_LABEL
from muster.api.resource import Document
from muster.kube import yaml
from muster.kube.certificates import CertificateAuthority
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.registration.agent.agent import Agent
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.certificate_manager import CertificateMachine
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.endpoints import ClientSettings, EndpointFormat, HubAddress, HubEndpoint
from muster.registration.drivers.interfaces import Driver, HubContext, HubDriver, SpokeContext, SpokeDriver, StepResult
from muster.registration.names import AGENT_NAMESPACE, LEASE
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SECRETS
from muster.transport.contract.rows import CLUSTERS, EVENT_ROW, LEASE_ROW, SIGNING_REQUEST_ROW, Row
from muster.transport.rpc.status import Code, RpcError
from tests.support.transport_hub import FakeHub
from tests.unit.registration.agent.conftest import Fleet, Link, until

URL = "hub.example:8090"


@dataclass(frozen=True)
class FakeEndpoint:
    address: HubAddress
    url: str
    file: Path
    site: "GrpcFleet"

    def files(self) -> Mapping[str, Path]:
        return {}

    def is_portable(self) -> bool:
        return True

    def connect(self, settings: ClientSettings) -> KubeClient:
        certificate = self.file.parent / "tls.crt"
        self.site.came.append("agent" if certificate.exists() else "bootstrap")
        assert settings.cluster == "c1"

        def credential() -> object:
            return certificate.read_bytes() if certificate.exists() else None

        return self.site.grpc.connect(settings.cluster, credential=credential, random=lambda: 0.5)


class FakeFormat:
    name = "grpc"
    key = "config.yaml"

    def __init__(self, site: "GrpcFleet") -> None:
        self._site = site

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> HubEndpoint:
        url = yaml.load(content)["url"]
        return FakeEndpoint(HubAddress("grpc", url), url, file, self._site)


class GrpcSpoke:
    def __init__(self, context: SpokeContext) -> None:
        self._profile = agent_profile(context.identity)
        self._machine = CertificateMachine(self._profile, context.clock, context.random)

    def decorate(self, cluster: Document) -> Document:
        return cluster

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        return {"config.yaml": yaml.dump({"url": hub.server}).encode()}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return self._machine.problem(stored)

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        return await self._machine.advance(SigningRequests(hub, self._profile), stored, pending, seen)


class GrpcDriver(Driver):
    name = "grpc"

    def __init__(self, site: "GrpcFleet") -> None:
        self._endpoints = FakeFormat(site)

    @property
    def endpoints(self) -> EndpointFormat:
        return self._endpoints

    def hub(self, context: HubContext) -> HubDriver:
        raise NotImplementedError

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        return GrpcSpoke(context)


class GrpcFleet(Fleet):
    """A managed cluster whose hub is nothing but gRPC, and the acts of that hub's administrator."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.server, fleet.clock, fleet.directory)
        self.grpc = FakeHub(URL, clock=fleet.clock)
        self.authority = CertificateAuthority.create("grpc", fleet.clock.now())
        self.came: list[str] = []
        """As whom the agent connected."""

    def agent(self, **options: object) -> Agent:
        client = Link(self.spoke, self.account)
        return Agent(client, self.options, clock=self.clock, random=self.random, driver=GrpcDriver(self))

    async def introduce(self) -> None:
        data = {"config.yaml": base64.b64encode(f"url: {URL}".encode()).decode()}
        secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": AGENT_NAMESPACE}, "data": data}
        await self.admin.apply(SECRETS, secret, manager="administrator")

    def there(self, row: Row, name: str, namespace: str = "") -> Object:
        return self.grpc.get(row, name, namespace) or {}

    def accept_cluster(self) -> None:
        labels = {CLUSTER_LABEL: "c1"}
        self.grpc.put(LEASE_ROW, {"metadata": {"name": LEASE, "namespace": "c1", "labels": labels}, "spec": {}})
        cluster = copy.deepcopy(self.there(CLUSTERS, "c1"))
        cluster["spec"] |= {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
        accepted = {"type": "HubAcceptedManagedCluster", "status": "True", "reason": "R", "message": ""}
        stamp = format_time(self.clock.now())
        cluster["status"] = {"conditions": [{**accepted, "lastTransitionTime": stamp}]}
        self.grpc.put(CLUSTERS, cluster)

    def unsigned(self) -> list[Object]:
        return [one for one in self.grpc.objects[SIGNING_REQUEST_ROW].values() if not one.get("status")]

    def sign(self, lifetime: timedelta = timedelta(days=30)) -> None:
        for request in self.unsigned():
            csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
            now = self.clock.now()
            usages = (ExtendedKeyUsageOID.CLIENT_AUTH,)
            certificate = self.authority.sign(csr.subject, csr.public_key(), now - timedelta(seconds=1), now + lifetime, usages)
            approved = {"type": "Approved", "status": "True", "reason": "T", "message": "", "lastTransitionTime": format_time(now)}
            status = {"conditions": [approved], "certificate": base64.b64encode(certificate).decode()}
            self.grpc.change(SIGNING_REQUEST_ROW, request["metadata"]["name"], status=status)

    def condition_of(self, kind: str) -> str:
        conditions = (self.there(CLUSTERS, "c1").get("status") or {}).get("conditions") or ()
        return next((one["status"] for one in conditions if one["type"] == kind), "")

    async def join_over_grpc(self, lifetime: timedelta = timedelta(days=30)) -> None:
        await until(lambda: self.there(CLUSTERS, "c1"), "the ManagedCluster")
        self.accept_cluster()
        await until(self.unsigned, "a request for a certificate")
        self.sign(lifetime)
        await until(lambda: self.condition_of("ManagedClusterConditionAvailable") == "True", "the cluster being available")

    @property
    def renewed_at(self) -> str:
        return str(self.there(LEASE_ROW, LEASE, "c1").get("spec", {}).get("renewTime"))


@pytest.fixture
async def wired(fleet: Fleet) -> GrpcFleet:
    made = GrpcFleet(fleet)
    await made.introduce()
    return made


async def test_an_agent_joins_over_grpc_with_two_streams_and_then_serves(wired: GrpcFleet) -> None:
    async with wired.running() as agent:
        await until(wired.unsigned, "a request for a certificate")
        assert {stream.row for stream in wired.grpc.streams()} == {CLUSTERS, SIGNING_REQUEST_ROW}
        await wired.join_over_grpc()
        assert wired.came == ["bootstrap", "agent"]
        assert agent.ready
        assert wired.condition_of("ManagedClusterJoined") == "True"
        await until(lambda: wired.renewed_at == "2026-01-01T00:00:00.000000Z", "the lease being renewed")
        await until(lambda: wired.grpc.objects[EVENT_ROW], "an event")
    assert not wired.grpc.streams()
    stored = await wired.stored()
    assert set(stored) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}


async def test_a_restarted_agent_serves_with_what_it_has(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
    wired.came.clear()
    async with wired.running() as agent:
        await until(lambda: agent.ready, "serving")
        assert wired.came == ["agent"]
    assert len(wired.grpc.objects[SIGNING_REQUEST_ROW]) == 1


async def test_the_lease_is_renewed_and_so_it_is_after_an_outage(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
        await wired.advance(80)
        first = wired.renewed_at
        assert first > "2026-01-01T00:01"
        wired.grpc.kill(URL)
        await wired.advance(200)
        assert wired.renewed_at == first
        wired.grpc.servers[URL].alive = True
        await wired.advance(40)
        assert wired.renewed_at > "2026-01-01T00:04"


async def test_somebody_elses_write_to_the_lease_costs_one_conflict(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
        lease = wired.there(LEASE_ROW, LEASE, "c1")
        wired.grpc.put(LEASE_ROW, {**lease, "spec": {**lease["spec"], "holderIdentity": "x"}})
        await wired.advance(90)
        assert wired.renewed_at > "2026-01-01T00:01"


async def test_a_certificate_is_renewed_and_the_connection_moves_to_it(wired: GrpcFleet) -> None:
    async with wired.running() as agent:
        await wired.join_over_grpc(timedelta(hours=1))
        before = await wired.stored()
        old = {stream.channel for stream in wired.grpc.streams()}
        while not wired.unsigned():
            await wired.advance(60, step=20)
            assert wired.clock.monotonic() < 3600
        assert wired.clock.monotonic() > 2400
        wired.sign(timedelta(hours=1))

        async def renewed() -> bool:
            return (await wired.stored())["tls.crt"] != before["tls.crt"]

        await until(renewed, "the new certificate")

        async def moved() -> bool:
            await wired.advance(1)
            return all(channel.closed for channel in old)

        await until(moved, "the connection being made with it")
        assert {stream.row for stream in wired.grpc.streams()} >= {CLUSTERS, LEASE_ROW}
        await wired.advance(120)
        assert agent.ready
        assert wired.came == ["bootstrap", "agent"]


async def test_a_change_of_the_cluster_reaches_the_agent_and_is_answered(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
        cluster = copy.deepcopy(wired.there(CLUSTERS, "c1"))
        kept = [one for one in cluster["status"]["conditions"] if one["type"] != "ManagedClusterJoined"]
        wired.grpc.change(CLUSTERS, "c1", status={**cluster["status"], "conditions": kept})
        await until(lambda: wired.condition_of("ManagedClusterJoined") == "True", "the condition being put right")


async def test_a_token_that_is_not_taken_is_said_to_the_administrator(wired: GrpcFleet) -> None:
    wired.grpc.refuse = lambda method, row: RpcError(Code.UNAUTHENTICATED, "unknown token")
    async with wired.running() as agent:
        await until(lambda: "has expired or was revoked" in agent.state.problem, "a clear problem")


async def test_a_token_for_another_name_is_said_to_the_administrator(wired: GrpcFleet) -> None:
    wired.grpc.refuse = lambda method, row: RpcError(Code.PERMISSION_DENIED, "not this cluster")
    async with wired.running() as agent:
        await until(lambda: "does not give the rights to register" in agent.state.problem, "a clear problem")
