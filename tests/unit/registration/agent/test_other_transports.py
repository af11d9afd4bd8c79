"""A driver whose agents reach their hub without any kubeconfig: the agent asks its endpoints, and never looks into them."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from muster.api.resource import Document
from muster.kube import certificates, yaml
from muster.machinery.authentication import UserInfo
from muster.registration.agent.agent import Agent
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.certificate_manager import CertificateMachine
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, EndpointFormat, HubAddress, HubEndpoint
from muster.registration.drivers.interfaces import Driver, HubContext, HubDriver, SpokeContext, SpokeDriver, StepResult
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SECRETS
from tests.unit.registration.agent.conftest import Fleet, Hub, Link, until


@dataclass(frozen=True)
class WireEndpoint:
    address: HubAddress
    url: str
    file: Path
    hubs: tuple[Hub, ...]

    def files(self) -> Mapping[str, Path]:
        return {}

    def is_portable(self) -> bool:
        return True

    def connect(self, settings: ClientSettings) -> KubeClient:
        """As whoever the files beside it prove."""
        hub = next(hub for hub in self.hubs if hub.url == self.url)
        proof = self.file.parent / "tls.crt"
        if not proof.exists():
            return Link(hub, UserInfo("bootstrap", groups=("system:authenticated",)))
        subject = x509.load_pem_x509_certificate(proof.read_bytes()).subject
        groups = (*certificates.organizations(subject), "system:authenticated")
        return Link(hub, UserInfo(certificates.common_name(subject), groups=groups))


class WireFormat:
    name = "wire"
    key = "config.yaml"

    def __init__(self, *hubs: Hub) -> None:
        self._hubs = hubs

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> HubEndpoint:
        document = yaml.load(content)
        if not isinstance(document, dict) or not document.get("url"):
            raise EndpointError(source, "url: not set")
        return WireEndpoint(HubAddress("wire", document["url"]), document["url"], file, self._hubs)


class WireSpoke:
    def __init__(self, context: SpokeContext) -> None:
        self._profile = agent_profile(context.identity)
        self._machine = CertificateMachine(self._profile, context.clock, context.random)

    def decorate(self, cluster: Document) -> Document:
        return cluster

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        return {"config.yaml": yaml.dump({"url": hub.server, "cert": "tls.crt", "key": "tls.key"}).encode()}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return self._machine.problem(stored)

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        return await self._machine.advance(SigningRequests(hub, self._profile), stored, pending, seen)


class WireDriver(Driver):
    name = "wire"

    def __init__(self, fleet: Fleet) -> None:
        self._endpoints = WireFormat(fleet.hub, fleet.other)

    @property
    def endpoints(self) -> EndpointFormat:
        return self._endpoints

    def hub(self, context: HubContext) -> HubDriver:
        raise NotImplementedError

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        return WireSpoke(context)


class WireFleet(Fleet):
    def agent(self, **options: object) -> Agent:
        driver = WireDriver(self)
        return Agent(Link(self.spoke, self.account), self.options, clock=self.clock, random=self.random, driver=driver)

    async def introduce(self, hub: Hub) -> None:
        data = {"config.yaml": base64.b64encode(f"url: {hub.url}".encode()).decode()}
        secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": AGENT_NAMESPACE}, "data": data}
        await self.admin.apply(SECRETS, secret, manager="administrator")


@pytest.fixture
def wired(fleet: Fleet) -> WireFleet:
    return WireFleet(fleet.server, fleet.clock, fleet.directory)


async def test_an_agent_registers_serves_and_restarts_without_a_kubeconfig(wired: WireFleet) -> None:
    await wired.introduce(wired.hub)
    async with wired.running():
        await wired.join()
    stored = await wired.stored()
    assert set(stored) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}
    assert {path.name for path in (wired.directory / "hub").iterdir()} == set(stored)
    await wired.admin.delete(SECRETS, "bootstrap-hub-kubeconfig", AGENT_NAMESPACE)
    async with wired.running() as agent:
        await until(lambda: agent.state.phase == "serving", "serving")
    assert len(await wired.hub.requests_made()) == 1


async def test_a_hub_that_has_moved_is_followed_in_the_drivers_own_format(wired: WireFleet) -> None:
    await wired.introduce(wired.hub)
    async with wired.running() as agent:
        await wired.join()
        before = await wired.stored()
        wired.hub.url = "https://elsewhere.example:8090"
        await wired.introduce(wired.hub)
        await until(lambda: (agent.state.phase, agent.state.hub) == ("serving", wired.hub.url), "serving there")
    after = await wired.stored()
    assert {key for key in after if after[key] != before[key]} == {"config.yaml"}


async def test_what_the_driver_cannot_read_is_said_in_its_words(wired: WireFleet) -> None:
    data = {"config.yaml": base64.b64encode(b"{}").decode()}
    secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": AGENT_NAMESPACE}, "data": data}
    await wired.admin.apply(SECRETS, secret, manager="administrator")
    async with wired.running() as agent:
        await until(lambda: "url: not set" in agent.state.problem, "a clear problem")
