"""An agent's client with the real server over TLS, on an embedded hub: what each believes of the other holds."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api import Condition
from muster.api.agents import CLUSTER_LABEL, AgentIdentity, cluster_group
from muster.api.crds import HUB, definitions
from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube.certificates import CertificateAuthority
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import Conflict, Forbidden, NotFound, Unauthorized
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, EVENTS, LEASES, NAMESPACES
from muster.runtime.install import apply_all, await_definitions
from muster.transport.client.client import TransportClient
from muster.transport.client.config import TransportConfig
from muster.transport.client.dialer import open_client
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import WORK_FINALIZER
from tests.unit.transport.server.hub import AGENT_RULES, GROUP

LEASE = {"metadata": {"name": "managed-cluster-lease", "namespace": "c1", "labels": {CLUSTER_LABEL: "c1"}}, "spec": {}}
CLUSTER = {
    "apiVersion": MANAGED_CLUSTERS.api_version,
    "kind": "ManagedCluster",
    "metadata": {"name": "c1"},
    "spec": {"hubAcceptsClient": True},
}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
WORK = {
    "apiVersion": MANIFEST_WORKS.api_version,
    "kind": "ManifestWork",
    "metadata": {"name": "w1", "namespace": "c1"},
    "spec": {"workload": {"manifests": [CONFIG_MAP]}},
}


A_FEW_SECONDS = 15.0
"""On a machine that is busy with other tests; one or two on one at rest."""


async def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.01)


class SilentLink:
    """A way to a server on which, once it is silent, nothing goes through any more, though connections stay."""

    def __init__(self, target: int) -> None:
        self.silent = False
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, back), (there, writer)):
            self._pumps.add(asyncio.create_task(self._pump(source, sink)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            if not self.silent:
                sink.write(data)
        if not self.silent:
            sink.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


class Site:
    """An embedded hub with gRPC servers before it."""

    def __init__(self, api: ApiServer, directory: Path) -> None:
        self.admin = InProcessClient(api.client(api.clusters["hub"]))
        self.directory = directory
        self.now = datetime.now(UTC)
        self.authority = CertificateAuthority.create("grpc", self.now)
        self.servers: list[tuple[GrpcServer, asyncio.Task[None]]] = []
        self.clients: list[TransportClient] = []

    async def prepare(self) -> None:
        await apply_all(self.admin, [(CRDS, document) for document in definitions(HUB)], "tests")
        await await_definitions(self.admin, [kind.name for kind in HUB], SYSTEM)
        await self.admin.create(NAMESPACES, {"metadata": {"name": "c1"}})
        await self.admin.create(MANAGED_CLUSTERS, CLUSTER)
        await self.admin.create(LEASES, LEASE)
        await self.admin.create(CLUSTER_ROLES, {"metadata": {"name": "agents"}, "rules": list(AGENT_RULES)})
        subject = {"apiGroup": GROUP, "kind": "Group", "name": cluster_group("c1")}
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "agents"}
        binding = {"metadata": {"name": "agents"}, "roleRef": reference, "subjects": [subject]}
        await self.admin.create(CLUSTER_ROLE_BINDINGS, binding)
        serving = self.authority.issue(
            "server", self.now, timedelta(hours=1), usages=(ExtendedKeyUsageOID.SERVER_AUTH,), hosts=("127.0.0.1",)
        )
        for name, content in (("tls.crt", serving.certificate), ("tls.key", serving.key), ("ca.crt", self.authority.pem)):
            (self.directory / name).write_bytes(content)

    async def serve(self, port: int = 0) -> GrpcServer:
        cert, key, ca = (str(self.directory / name) for name in ("tls.crt", "tls.key", "ca.crt"))
        config = GrpcServerConfig(cert, key, ca, server_bind_port=port)
        server = GrpcServer(self.admin, GrpcServerOptions(config, "127.0.0.1", heartbeat=0.2))
        await server.start()
        self.servers.append((server, asyncio.create_task(server.run())))
        await server.synced()
        return server

    async def stop(self, server: GrpcServer) -> None:
        pair = next(pair for pair in self.servers if pair[0] is server)
        self.servers.remove(pair)
        await server.stop(grace=1.0)
        pair[1].cancel()
        await asyncio.gather(pair[1], return_exceptions=True)

    def write_credential(self, agent: str = "agent1", cluster: str = "c1") -> None:
        identity = AgentIdentity(cluster, agent)
        pair = self.authority.issue(
            identity.common_name, self.now, timedelta(hours=1), organizations=sorted(identity.organizations)
        )
        (self.directory / "client.crt").write_bytes(pair.certificate)
        (self.directory / "client.key").write_bytes(pair.key)

    def connect(self, *servers: GrpcServer | SilentLink, **options: Any) -> TransportClient:
        addresses = tuple(f"127.0.0.1:{server.port}" for server in servers)
        files = self.directory / "client.crt", self.directory / "client.key"
        config = TransportConfig(addresses[0], addresses[1:], self.authority.pem, *files, health_timeout=1.0)
        client = open_client(config, "c1", **options)
        self.clients.append(client)
        return client

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        for server, _ in list(self.servers):
            await self.stop(server)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    api = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await api.start()
    made = Site(api, tmp_path)
    await made.prepare()
    made.write_credential()
    yield made
    await made.close()
    await api.stop(grace=0.1)


async def test_an_agent_renews_its_lease_reports_and_records(site: Site) -> None:
    hub = site.connect(await site.serve())
    known = await hub.get(LEASES, "managed-cluster-lease", "c1")
    stale = known
    for second in range(3):
        moment = f"2026-01-01T00:00:0{second}.000000Z"
        known = await hub.update(LEASES, {**known, "spec": {"renewTime": moment}})
        stored = await site.admin.get(LEASES, "managed-cluster-lease", "c1")
        assert known["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
        assert stored["spec"]["renewTime"] == moment
    with pytest.raises(Conflict):
        await hub.update(LEASES, {**stale, "spec": {"renewTime": "2026-01-01T00:00:09.000000Z"}})
    cluster = await hub.get(MANAGED_CLUSTERS, "c1")
    moment = "2026-01-01T00:00:00Z"
    joined = {"type": "Joined", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": moment}
    metadata = {key: cluster["metadata"][key] for key in ("uid", "resourceVersion")}
    patched = await hub.patch(
        MANAGED_CLUSTERS, "c1", {"metadata": metadata, "status": {"conditions": [joined]}}, subresource="status"
    )
    assert patched["status"]["conditions"] == [joined]
    event = {"metadata": {"name": "e", "namespace": "c1"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R"}
    more = {"action": "A", "type": "Normal", "reportingController": "c", "reportingInstance": "i"}
    regarding = {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"}
    await hub.create(EVENTS, {**event, **more, "regarding": regarding})
    assert (await site.admin.get(EVENTS, "e", "c1"))["reason"] == "R"


async def test_who_is_not_let_in_is_told_so(site: Site) -> None:
    server = await site.serve()
    site.write_credential(cluster="other")
    with pytest.raises(Forbidden):
        await site.connect(server).get(LEASES, "managed-cluster-lease", "c1")
    config = TransportConfig(f"127.0.0.1:{server.port}", ca=site.authority.pem, token="of nobody")
    stranger = open_client(config, "c1")
    site.clients.append(stranger)
    with pytest.raises(Unauthorized):
        await stranger.get(MANAGED_CLUSTERS, "c1")
    with pytest.raises(Unauthorized):
        await stranger.create(EVENTS, {"metadata": {"name": "e", "namespace": "c1"}})


async def started(site: Site, *servers: GrpcServer | SilentLink) -> tuple[GrpcWorkSource, list[str]]:
    source = GrpcWorkSource(site.connect(*servers, source="c1-work-agent"), "c1")
    await source.until_synced()
    told: list[str] = []
    source.on_change(told.append)
    return source, told


def shown(source: GrpcWorkSource, name: str = "w1") -> ManifestWork:
    work = source.get(name)
    assert work is not None
    return work


async def stored(site: Site, name: str = "w1") -> Object:
    return await site.admin.get(MANIFEST_WORKS, name, "c1")


APPLIED = Condition(type="Applied", status="True", reason="R", message="m", last_transition_time="2026-01-01T00:00:00Z")


async def test_a_work_is_held_reported_and_released(site: Site) -> None:
    source, told = await started(site, await site.serve())
    await site.admin.create(MANIFEST_WORKS, WORK)
    await until(lambda: told, "the work")
    work = await source.hold(shown(source))
    assert (await stored(site))["metadata"]["finalizers"] == [WORK_FINALIZER]
    await source.report(work, ManifestWorkStatus(conditions=(APPLIED,)))
    assert "Applied" in [one["type"] for one in (await stored(site))["status"]["conditions"]]
    await site.admin.patch(MANIFEST_WORKS, "w1", {"spec": {"workload": {"manifests": [CONFIG_MAP, CONFIG_MAP]}}}, "c1")
    await until(lambda: shown(source).metadata.generation == 2, "the change")
    assert WORK_FINALIZER in shown(source).metadata.finalizers
    await site.admin.delete(MANIFEST_WORKS, "w1", "c1")
    await until(lambda: shown(source).metadata.deletion_timestamp, "the deletion")
    await source.release(shown(source))
    with pytest.raises(NotFound):
        await stored(site)
    assert source.get("w1") is None


async def test_what_happened_while_no_server_ran_arrives(site: Site) -> None:
    server = await site.serve()
    source, told = await started(site, server)
    for name in ("kept", "deleted", "forced"):
        await site.admin.create(MANIFEST_WORKS, {**WORK, "metadata": {"name": name, "namespace": "c1"}})
    await until(lambda: len(told) == 3, "the works")
    for name in told[:3]:
        await source.hold(shown(source, name))
    port = server.port
    await site.stop(server)
    await site.admin.patch(MANIFEST_WORKS, "kept", {"spec": {"workload": {"manifests": [CONFIG_MAP, CONFIG_MAP]}}}, "c1")
    await site.admin.delete(MANIFEST_WORKS, "deleted", "c1")
    await site.admin.patch(MANIFEST_WORKS, "forced", {"metadata": {"finalizers": None}}, "c1")
    await site.admin.delete(MANIFEST_WORKS, "forced", "c1")
    await site.admin.create(MANIFEST_WORKS, {**WORK, "metadata": {"name": "new", "namespace": "c1"}})
    await site.serve(port)
    await until(lambda: source.get("new") is not None, "the new work")
    await until(lambda: shown(source, "kept").metadata.generation == 2, "the change")
    for name in ("deleted", "forced"):
        await until(lambda name=name: shown(source, name).metadata.deletion_timestamp, "the deletion")  # type: ignore[misc]
        await source.release(shown(source, name))
    assert sorted(source.names()) == ["kept", "new"]


async def test_the_death_of_a_server_costs_no_more_than_a_few_seconds(site: Site) -> None:
    first, second = await site.serve(), await site.serve()
    source, told = await started(site, first, second)
    await site.stop(first)
    await site.admin.create(MANIFEST_WORKS, WORK)
    await until(lambda: told, "the work", A_FEW_SECONDS)
    await asyncio.wait_for(source.hold(shown(source)), A_FEW_SECONDS)


async def test_a_new_certificate_is_used_without_losing_a_stream(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.transport.client.client.CREDENTIAL_SECONDS", 0.1)
    server = await site.serve()
    hub = site.connect(server)
    await hub.get(LEASES, "managed-cluster-lease", "c1")
    lost: list[bool] = []
    subscription = next(iter(hub._subscriptions.values()))
    subscription.on_news(lambda: lost.append(not subscription.live))
    channel = hub.connection.channel
    site.write_credential("agent2")
    await until(lambda: hub.connection.channel is not channel, "a new connection")
    await until(lambda: channel not in hub.connection._users, "the end of the old one")
    known = await hub.get(LEASES, "managed-cluster-lease", "c1")
    await hub.update(LEASES, {**known, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    assert not any(lost)


async def test_a_connection_that_falls_silent_is_left_for_another(site: Site) -> None:
    server = await site.serve()
    link = SilentLink(server.port)
    await link.start()
    source, told = await started(site, link, server)
    link.silent = True
    began = time.monotonic()
    await site.admin.create(MANIFEST_WORKS, WORK)
    await until(lambda: told, "the work", A_FEW_SECONDS)
    assert time.monotonic() - began > 0.5, "it came over the silent link"
    await source.hold(shown(source))
    await link.close()
