"""Whole agents of the gRPC driver: from a bootstrap file to a certificate that the hub itself signs, and from each to the next.

The hub's side of the driver is the real one. In the place of the gRPC server stands `ServerLink`: it knows agents by certificates
of the hub's authority and newcomers by a token, and makes signing requests with its own account on their behalf.
"""

import asyncio
import base64
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from muster.api.agents import CSR_USER, GRPC_SIGNER
from muster.kube import certificates, yaml
from muster.machinery.authentication import UserInfo
from muster.registration.agent.agent import Agent
from muster.registration.drivers.certificates.requests import validity_of
from muster.registration.drivers.endpoints import HubEndpoint
from muster.registration.drivers.grpc.endpoints import GrpcEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, DRIVER_ANNOTATION
from muster.runtime.client.builtin import SECRETS, SIGNING_REQUESTS
from muster.runtime.client.errors import Unreachable
from tests.support.fake_clock import settle
from tests.unit.registration.agent.conftest import Fleet, Hub, Link, RefusedLink, until
from tests.unit.registration.agent.test_deaths import Death, _peace, administrate
from tests.unit.registration.drivers.conftest import RunningHub, hub_driver
from tests.unit.registration.drivers.grpc_hub import SERVER, AuthorityFiles

BOOTSTRAP_USER = "bootstrap"


class ServerLink(Link):
    """What a caller of the gRPC server gets done."""

    def __init__(self, hub: Hub, user: UserInfo) -> None:
        super().__init__(hub, user)
        self._user = user
        self._server = Link(hub, UserInfo(SERVER, groups=("system:masters",)))

    async def create(self, resource: Any, obj: Any, *given: Any, **more: Any) -> Any:
        if resource != SIGNING_REQUESTS:
            return await super().create(resource, obj, *given, **more)
        annotated = {**obj, "metadata": {**obj["metadata"], "annotations": {CSR_USER: self._user.name}}}
        return await self._server.create(resource, annotated, *given, **more)


class BrokenLink(Link):
    """TLS is broken off: the server does not know who signed this certificate."""

    async def exchange(self, *given: Any, **more: Any) -> bytes:
        raise Unreachable(self._hub.url, "handshake failed")


class GrpcFleet(Fleet):
    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.server, fleet.clock, fleet.directory)
        self.hub.url, self.other.url = "hub.example:8090", "other.example:8090"
        self.options = replace(self.options, driver="grpc")
        self.authorities = {
            hub.url: AuthorityFiles(self.directory / f"authority-of-{hub.name}", self.clock) for hub in (self.hub, self.other)
        }

        self.older: list[certificates.CertificateAuthority] = []
        """That servers trust for as long as certificates of them live."""

    def authority(self, hub: Hub | None = None) -> AuthorityFiles:
        return self.authorities[(hub or self.hub).url]

    @asynccontextmanager
    async def hub_side(self, hub: Hub | None = None, **options: str) -> AsyncIterator[RunningHub]:
        hub = hub or self.hub
        told = self.authority(hub).options(BOOTSTRAP_USER, **options)
        async with hub_driver(hub.admin, told, driver="grpc", clock=self.clock) as running:
            yield running

    def agent(self, **options: Any) -> Agent:
        client = Link(self.spoke, self.account)
        return Agent(client, replace(self.options, **options), clock=self.clock, random=self.random, connect=self.connect)

    def connect(self, endpoint: HubEndpoint) -> Link:
        assert isinstance(endpoint, GrpcEndpoint)
        hub = next(hub for hub in (self.hub, self.other) if hub.url == endpoint.url)
        if endpoint.config.cert is None:
            return self._newcomer(hub, endpoint.config.token)
        assert isinstance(endpoint.config.cert, Path)
        assert isinstance(endpoint.config.key, Path)
        assert endpoint.config.key.parent == endpoint.config.cert.parent
        certificate = x509.load_pem_x509_certificate(endpoint.config.cert.read_bytes())
        if not any(authority.signed(certificate) for authority in (self.authority(hub).authority, *self.older)):
            return BrokenLink(hub, UserInfo("nobody"))
        groups = tuple(certificates.organizations(certificate.subject))
        name = certificates.common_name(certificate.subject)
        return ServerLink(hub, UserInfo(name, groups=(*groups, "system:authenticated")))

    def _newcomer(self, hub: Hub, token: str) -> Link:
        if token != hub.token:
            return RefusedLink(hub, UserInfo("nobody"))
        return ServerLink(hub, UserInfo(BOOTSTRAP_USER, groups=("system:authenticated",)))

    def config(self, hub: Hub | None = None, **more: Any) -> bytes:
        hub = hub or self.hub
        data = base64.b64encode(f"ca of {hub.name}".encode()).decode()
        return yaml.dump({"url": hub.url, "token": hub.token, "caData": data, **more}).encode()

    async def introduce(self, hub: Hub | None = None, secret: str = "bootstrap-hub-kubeconfig", **more: Any) -> None:
        data = {"config.yaml": base64.b64encode(self.config(hub, **more)).decode()}
        document = {"metadata": {"name": secret, "namespace": AGENT_NAMESPACE}, "data": data}
        await self.admin.apply(SECRETS, document, manager="administrator")

    async def own_config(self) -> dict[str, Any]:
        found = yaml.load((await self.stored())["config.yaml"])
        assert isinstance(found, dict)
        return found

    async def joined(self, hub: Hub | None = None) -> None:
        """With a hub that approves by its list; an administrator accepts."""
        hub = hub or self.hub
        await until(lambda: hub.cluster(), "the ManagedCluster")
        await hub.accept()
        await until(lambda: hub.available(), "the cluster being available")


@pytest.fixture
def wired(fleet: Fleet) -> GrpcFleet:
    return GrpcFleet(fleet)


async def test_an_agent_registers_and_what_it_keeps_leads_to_the_grpc_server_alone(wired: GrpcFleet) -> None:
    await wired.introduce(keepAliveConfig={"enable": True, "time": "20s"}, serverHealthinessTimeout="40s", urls=["b.example:8090"])
    async with wired.hub_side(), wired.running():
        await wired.joined()
        stored = await wired.stored()
    [request] = await wired.hub.requests_made()
    assert request["spec"]["signerName"] == GRPC_SIGNER
    assert request["spec"]["username"] == SERVER
    assert request["metadata"]["annotations"] == {CSR_USER: BOOTSTRAP_USER}
    assert ((await wired.hub.cluster()) or {})["metadata"]["annotations"][DRIVER_ANNOTATION] == "grpc"
    assert set(stored) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}
    directory = wired.directory / "hub"
    assert {path.name for path in directory.iterdir()} == set(stored)
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    config = await wired.own_config()
    assert base64.b64decode(config.pop("caData")).strip() == b"ca of hub"
    assert config.pop("keepAliveConfig") == {"enable": True, "time": "20s", "timeout": "10s", "permitWithoutStream": False}
    assert config == {
        "url": "hub.example:8090",
        "urls": ["b.example:8090"],
        "clientCertFile": str(directory / "tls.crt"),
        "clientKeyFile": str(directory / "tls.key"),
        "serverHealthinessTimeout": "40s",
    }


async def test_a_restart_with_a_good_certificate_asks_for_nothing(wired: GrpcFleet) -> None:
    await wired.introduce()
    async with wired.hub_side(), wired.running():
        await wired.joined()
    wired.hub.token = "the bootstrap token is of no use any more"
    before = await wired.stored()
    async with wired.running() as agent:
        await until(lambda: agent.state.phase == "serving", "serving")
    assert await wired.stored() == before
    assert len(await wired.hub.requests_made()) == 1


async def test_a_cluster_that_exists_already_is_joined_and_marked(wired: GrpcFleet) -> None:
    """As after a change from another driver: an administrator's, or one that registered otherwise before."""
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await wired.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}})
    await wired.introduce()
    async with wired.hub_side(), wired.running():
        await wired.joined()
        await until(lambda: _driver_of(wired.hub), "the mark")
    assert await _driver_of(wired.hub) == "grpc"


async def _driver_of(hub: Hub) -> str:
    annotations = ((await hub.cluster()) or {})["metadata"].get("annotations") or {}
    return str(annotations.get(DRIVER_ANNOTATION, ""))


async def test_a_request_that_nobody_approves_is_waited_for_with_one_request(wired: GrpcFleet) -> None:
    await wired.introduce()
    async with wired.running():
        await until(lambda: wired.hub.requests_made(), "a request")
        await wired.advance(3600, step=60)
    async with wired.running():
        await wired.advance(600, step=60)
    assert len(await wired.hub.requests_made()) == 1
    assert await wired.stored() == {}


async def test_a_request_that_is_denied_is_followed_by_few_others(wired: GrpcFleet) -> None:
    await wired.introduce()
    async with wired.running():
        for _ in range(6):
            await until(lambda: _pending(wired.hub), "a request")
            for csr in await _pending(wired.hub):
                csr["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": ""}]}
                await wired.hub.admin.update(SIGNING_REQUESTS, csr, subresource="approval")
            await wired.advance(900, step=30)
        assert 2 <= len(await wired.hub.requests_made()) <= 10


async def _pending(hub: Hub) -> list[dict[str, Any]]:
    return [csr for csr in await hub.requests_made() if not (csr.get("status") or {}).get("conditions")]


@pytest.mark.parametrize("seconds", [60, 1800])
async def test_certificates_are_renewed_in_time_and_the_cluster_stays_available(wired: GrpcFleet, seconds: int) -> None:
    await wired.introduce()
    async with wired.hub_side(grpc_signing_duration=f"{seconds}s"), wired.running() as agent:
        await wired.joined()
        names = await wired.stored()
        for _ in range(3):
            before = (await wired.stored())["tls.crt"]
            await until(lambda before=before: _renewed(wired, before, seconds / 30), "a renewal")  # type: ignore[misc]
            validity = validity_of((await wired.stored())["tls.crt"])
            assert validity.until - wired.clock.now() > timedelta(seconds=seconds / 2)
            assert validity_of(before).until > wired.clock.now(), "the next one came before the end of this"
        assert agent.state.phase == "serving"
        after = await wired.stored()
    assert {key for key in after if after[key] != names[key]} == {"tls.crt", "tls.key"}
    assert await wired.hub.available()
    renewals = [one for one in await wired.hub.requests_made() if one["metadata"]["annotations"][CSR_USER] != BOOTSTRAP_USER]
    assert len(renewals) >= 3


async def _renewed(wired: GrpcFleet, before: bytes, step: float) -> bool:
    await wired.advance(step, step=step)
    await settle()
    return (await wired.stored())["tls.crt"] != before


async def test_another_authority_on_the_hub_is_taken_at_the_next_renewal(wired: GrpcFleet) -> None:
    await wired.introduce()
    async with wired.hub_side(grpc_signing_duration="30m"), wired.running():
        await wired.joined()
        before = (await wired.stored())["tls.crt"]
        wired.older.append(wired.authority().authority)
        wired.authority().replace()
        await until(lambda: _renewed(wired, before, 60), "a renewal")
    assert wired.authority().authority.signed(x509.load_pem_x509_certificate((await wired.stored())["tls.crt"]))


class TestAnotherWay:
    async def test_a_hub_with_another_address_that_knows_us_is_followed_without_a_request(self, wired: GrpcFleet) -> None:
        await wired.introduce()
        async with wired.hub_side(), wired.running() as agent:
            await wired.joined()
            before = await wired.stored()
            wired.authorities["moved.example:8090"] = wired.authority()
            wired.hub.url = "moved.example:8090"
            await wired.introduce()
            await until(lambda: (agent.state.phase, agent.state.hub) == ("serving", wired.hub.url), "serving there")
            after = await wired.stored()
        assert {key for key in after if after[key] != before[key]} == {"config.yaml"}
        assert len(await wired.hub.requests_made()) == 1

    async def test_a_hub_that_breaks_off_on_our_certificate_is_registered_with(self, wired: GrpcFleet) -> None:
        await wired.introduce()
        async with wired.hub_side(), wired.hub_side(wired.other), wired.running() as agent:
            await wired.joined()
            await wired.introduce(wired.other)
            await _while_ticking(wired, lambda: wired.other.requests_made())
            await wired.other.accept()
            await _while_ticking(wired, lambda: (agent.state.phase, agent.state.hub) == ("serving", wired.other.url))
        assert (await wired.own_config())["url"] == wired.other.url
        found = x509.load_pem_x509_certificate((await wired.stored())["tls.crt"])
        assert wired.authority(wired.other).authority.signed(found)

    async def test_settings_of_the_connection_are_taken_over_when_they_change(self, wired: GrpcFleet) -> None:
        await wired.introduce()
        async with wired.hub_side(), wired.running() as agent:
            await wired.joined()
            await wired.introduce(serverHealthinessTimeout="25s")
            await until(lambda: _says(wired, "serverHealthinessTimeout", "25s"), "the new setting")
            await until(lambda: agent.state.phase == "serving", "serving")
        assert len(await wired.hub.requests_made()) == 1

    async def test_a_new_token_is_used_for_a_registration_that_waits(self, wired: GrpcFleet) -> None:
        await wired.introduce()
        wired.hub.token = "another"
        async with wired.hub_side(), wired.running() as agent:
            await until(lambda: "put a new one there" in agent.state.problem, "a clear problem")
            await wired.introduce()
            await wired.joined()

    async def test_what_is_wrong_with_the_file_is_said_by_key(self, wired: GrpcFleet) -> None:
        await wired.introduce(url="")
        async with wired.running() as agent:
            await until(lambda: "url: not set" in agent.state.problem, "a clear problem")

    async def test_of_several_hubs_the_first_that_lets_us_in_is_joined(self, wired: GrpcFleet) -> None:
        await wired.introduce(wired.hub, "first")
        await wired.introduce(wired.other, "second")
        wired.hub.cut.set()
        async with wired.hub_side(wired.other), wired.running(bootstrap_secrets=("first", "second")) as agent:
            await wired.joined(wired.other)
            assert agent.state.hub == wired.other.url


async def _says(wired: GrpcFleet, key: str, value: str) -> bool:
    return (await wired.own_config()).get(key) == value


async def _while_ticking(wired: GrpcFleet, probe: Any) -> None:
    async def ticked() -> Any:
        await wired.advance(5)
        found = probe()
        return await found if asyncio.iscoroutine(found) else found

    await until(ticked, "that")


@pytest.mark.parametrize("moment", range(1, 50, 3))
async def test_a_death_at_any_moment_of_joining_costs_nothing(wired: GrpcFleet, moment: int) -> None:
    await wired.introduce()
    death = Death(moment)
    async with wired.hub_side():
        administrator = asyncio.create_task(administrate(wired.hub))
        wired.hub.fate = wired.spoke.fate = death
        try:
            async with wired.running():
                await until(lambda: death.struck.is_set() or wired.hub.available(), "death or success")
            wired.hub.fate = wired.spoke.fate = _peace
            async with wired.running():
                await until(lambda: wired.hub.available(), "the cluster being available")
        finally:
            administrator.cancel()
    assert len(await wired.hub.requests_made()) == 1
    assert set(await wired.stored()) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}
    assert await wired.pending() == {}


@pytest.mark.parametrize("moment", range(1, 22, 3))
async def test_a_death_at_any_moment_of_a_renewal_costs_nothing(wired: GrpcFleet, moment: int) -> None:
    await wired.introduce()
    death = Death(moment)
    async with wired.hub_side(grpc_signing_duration="30m"):
        async with wired.running():
            await wired.joined()
        before = (await wired.stored())["tls.crt"]
        await wired.clock.advance(timedelta(minutes=25).total_seconds())
        wired.hub.fate = wired.spoke.fate = death
        async with wired.running():
            await until(lambda: death.struck.is_set() or _has_other(wired, before), "death or success")
        wired.hub.fate = wired.spoke.fate = _peace
        async with wired.running() as agent:
            await until(lambda: _has_other(wired, before), "the next certificate")
            await until(lambda: _nothing_begun(wired), "nothing being pending")
            await until(lambda: agent.state.phase == "serving", "serving")
    after = await wired.stored()
    assert certificates.KeyPair(after["tls.crt"], after["tls.key"]).matches()
    assert len(await wired.hub.requests_made()) == 2, "the first, and one renewal"


async def _has_other(wired: GrpcFleet, before: bytes) -> bool:
    return (await wired.stored())["tls.crt"] != before


async def _nothing_begun(wired: GrpcFleet) -> bool:
    return await wired.pending() == {}


class TestChangingTheDriver:
    async def test_from_csr_to_grpc_and_back_name_and_cluster_stay(self, wired: GrpcFleet) -> None:
        plain = Fleet(wired.server, wired.clock, wired.directory)
        await plain.give(plain.hub.kubeconfig())
        async with plain.running():
            await plain.join()
        by_csr, cluster = await wired.stored(), await wired.hub.cluster()
        await wired.introduce()
        async with wired.hub_side(), wired.running() as agent:
            await until(lambda: _marked(wired.hub), "the mark")
            await until(lambda: agent.state.phase == "serving", "serving over gRPC")
        by_grpc = await wired.stored()
        assert "kubeconfig" not in by_grpc, "nothing leads to the API server any more"
        await plain.give(plain.hub.kubeconfig())
        async with plain.running() as agent:
            await until(lambda: _unmarked(wired.hub), "the mark being gone")
            await until(lambda: agent.state.phase == "serving", "serving by csr")
        after = await wired.stored()
        assert "config.yaml" not in after
        for names in (by_csr, by_grpc, after):
            assert names["agent-name"] == by_csr["agent-name"]
        assert cluster is not None
        assert ((await wired.hub.cluster()) or {})["metadata"]["uid"] == cluster["metadata"]["uid"]


async def _marked(hub: Hub) -> bool:
    """An administrator approves what comes: the name is in use."""
    await hub.approve()
    return await _driver_of(hub) == "grpc"


async def _unmarked(hub: Hub) -> bool:
    await hub.approve()
    return not await _driver_of(hub)
