"""The whole server: TLS, callers, services over an API server, and agents that speak the wire."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.api.agents import CLUSTER_LABEL, CSR_USER, GRPC_SERVER_ACCOUNT, GRPC_SIGNER, LEASE, AgentIdentity
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.fleet.in_process import InProcessClient
from muster.http.tls import HTTP_2, client_context, load_chain
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, KeyPair, generate_key, signing_request, subject
from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.machinery.tasks import race
from muster.registration.hub.install import install
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import served
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, NAMESPACES, SIGNING_REQUESTS
from muster.runtime.install import account_permissions, apply_all
from muster.transport.codecs.resync import KnownObject, encode_resync_request, resync_end
from muster.transport.contract.event import CLUSTER, RESOURCE_ID, RESOURCE_VERSION, CloudEvent, SubscriptionRequest
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import (
    PUBLISH,
    SUBSCRIBE,
    decode_event,
    encode_publish_request,
    encode_subscription_request,
)
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import RpcError
from muster.transport.server import guard
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.install import ROLE, SERVER_RULES
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from tests.support.in_process import serving
from tests.unit.transport.server.fakes import code_of
from tests.unit.transport.server.hub import AGENT_RULES, GROUP, Recording, rule
from tests.unit.transport.services.test_unserved import serve_beta

NEWCOMER = UserInfo("system:serviceaccount:hub:bootstrap", groups=("system:authenticated",))
ACCOUNT = UserInfo(
    f"system:serviceaccount:{HUB_NAMESPACE}:{GRPC_SERVER_ACCOUNT}",
    groups=("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated"),
)
MANIFEST_WORKS = served(ManifestWork)
MANAGED_CLUSTERS = served(ManagedCluster)


class Served:
    """A gRPC server on an API server, with its authorities."""

    def __init__(self, admin: InProcessClient, account: Recording, directory: Path) -> None:
        now = datetime.now(UTC)
        self.admin = admin
        self.account = account
        """As whom the server asks the hub."""
        self.directory = directory
        self.clients = CertificateAuthority.create("clients", now, timedelta(days=1))
        self.serving = CertificateAuthority.create("serving", now, timedelta(days=1))
        self.metrics = Metrics()
        self.write_serving_pair(self.serving.issue("hub", now, timedelta(days=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",)))
        (directory / "ca.crt").write_bytes(self.clients.pem)
        config = GrpcServerConfig(
            tls_cert_file=str(directory / "tls.crt"),
            tls_key_file=str(directory / "tls.key"),
            client_ca_file=str(directory / "ca.crt"),
            server_bind_port=0,
            cert_watch_interval=0.05,
        )
        self.server = GrpcServer(account, GrpcServerOptions(config, "127.0.0.1"), metrics=self.metrics)
        self.stack = AsyncExitStack()

    def write_serving_pair(self, pair: KeyPair) -> None:
        (self.directory / "tls.crt").write_bytes(pair.certificate)
        (self.directory / "tls.key").write_bytes(pair.key)

    def channel(
        self, identity: AgentIdentity | None = None, *, token: str = "", lifetime: float = 3600.0, authority: Any = None
    ) -> RpcChannel:
        context = client_context(self.serving.pem, alpn=HTTP_2)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if identity is not None:
            pair = (authority or self.clients).issue(
                identity.common_name,
                datetime.now(UTC),
                timedelta(seconds=lifetime),
                organizations=identity.organizations,
            )
            load_chain(context, pair.certificate, pair.key)

        async def given() -> str:
            return token

        channel = RpcChannel("127.0.0.1", self.server.port, tls=context, token=given if token else None)
        self.stack.push_async_callback(channel.close)
        return channel

    async def accept(self, cluster: str) -> None:
        agents = {"kind": "Group", "apiGroup": GROUP, "name": f"system:open-cluster-management:{cluster}"}
        await self.grant(f"agents-{cluster}", agents, *AGENT_RULES)
        await self.admin.create(NAMESPACES, {"metadata": {"name": cluster}})
        metadata = {"name": LEASE, "namespace": cluster, "labels": {CLUSTER_LABEL: cluster}}
        await self.admin.create(LEASES, {"metadata": metadata, "spec": {"leaseDurationSeconds": 60}})

    async def grant(self, name: str, to: Object, *rules: Object) -> None:
        await self.admin.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": list(rules)})
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        await self.admin.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": ref, "subjects": [to]})

    async def work(self, name: str, cluster: str = "cluster1", data: str = "x") -> Object:
        metadata = {"name": "cm", "namespace": "default"}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}}
        return await self.admin.create(
            MANIFEST_WORKS,
            {
                "apiVersion": MANIFEST_WORKS.api_version,
                "kind": MANIFEST_WORKS.kind,
                "metadata": {"name": name, "namespace": cluster},
                "spec": {"workload": {"manifests": [manifest]}},
            },
        )


class Stream:
    """A subscription whose events are collected."""

    def __init__(self, channel: RpcChannel, row: Row, cluster: str) -> None:
        self.channel = channel
        self.row = row
        self.cluster = cluster
        self.events: list[CloudEvent] = []
        self.metadata: dict[str, str] = {}
        self.ended = ""
        self.started = asyncio.Event()
        self._news = asyncio.Event()

    async def run(self) -> None:
        request = encode_subscription_request(SubscriptionRequest(cluster_name=self.cluster, data_type=str(self.row.data_type)))
        try:
            async with self.channel.stream(SUBSCRIBE, request, timeout=10) as answers:
                self.metadata = dict(answers.metadata)
                self.started.set()
                async for message in answers:
                    self.events.append(decode_event(message))
                    self._news.set()
        except RpcError as error:
            self.ended = error.code.name
            self.started.set()
            self._news.set()

    async def until(self, what: Any) -> CloudEvent:
        """The first event that is so."""
        async with asyncio.timeout(20):
            while True:
                found = next((event for event in self.events if what(event)), None)
                if found is not None:
                    return found
                assert not self.ended, self.ended
                self._news.clear()
                await self._news.wait()

    async def end(self) -> str:
        async with asyncio.timeout(20):
            while not self.ended:
                self._news.clear()
                await self._news.wait()
        return self.ended


@asynccontextmanager
async def listening(channel: RpcChannel, row: Row, cluster: str = "cluster1") -> AsyncIterator[Stream]:
    stream = Stream(channel, row, cluster)
    task = asyncio.create_task(stream.run())
    await stream.started.wait()
    try:
        yield stream
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def publish(channel: RpcChannel, row: Row, action: Action, obj: Any) -> None:
    type_ = str(EventType(row.data_type, Subresource.SPEC, action))
    event = CloudEvent(id="1", source="cluster1", type=type_, attributes={CLUSTER: "cluster1"}, data=orjson.dumps(obj))
    await channel.unary(PUBLISH, encode_publish_request(event), timeout=10)


async def resync(channel: RpcChannel, row: Row, *known: KnownObject, resync_id: str = "") -> None:
    event = encode_resync_request(row.data_type, "cluster1", known, source="a", now=datetime.now(UTC), resync_id=resync_id)
    await channel.unary(PUBLISH, encode_publish_request(event), timeout=10)


@asynccontextmanager
async def served_hub(directory: Path, rules: tuple[Object, ...] = SERVER_RULES, *, beta: bool = True) -> AsyncIterator[Served]:
    """`beta`: whether the hub serves addons in v1beta1."""
    async with serving("default", static_tokens={"boottoken": NEWCOMER}) as api:
        admin = InProcessClient(api.client(api.clusters["default"]))
        await install(admin)
        if not beta:
            await serve_beta(admin, False)
        await apply_all(admin, account_permissions(GRPC_SERVER_ACCOUNT, HUB_NAMESPACE, ROLE, rules), "test")
        made = Served(admin, Recording(api.client(api.clusters["default"], ACCOUNT)), directory)
        await made.server.start()
        running = asyncio.create_task(made.server.run())
        await race(made.server.synced(), _fail(running))
        async with made.stack:
            yield made
        await made.server.stop(1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Served]:
    async with served_hub(tmp_path) as made:
        yield made


async def _fail(running: asyncio.Task[Any]) -> None:
    await asyncio.shield(running)


AGENT = AgentIdentity("cluster1", "agent1")


async def invite(hub: Served, *names: str) -> None:
    create = rule("cluster.open-cluster-management.io", "managedclusters", "create")
    if names:
        create["resourceNames"] = list(names)
    await hub.grant(
        "newcomers",
        {"kind": "User", "apiGroup": GROUP, "name": NEWCOMER.name},
        create,
        rule("cluster.open-cluster-management.io", "managedclusters", "get,list,watch"),
        rule("certificates.k8s.io", "certificatesigningrequests", "create,get,list,watch"),
    )


async def test_a_newcomer_joins_with_a_token_and_gets_its_certificate(hub: Served) -> None:
    await invite(hub, "cluster1")
    channel = hub.channel(token="boottoken")
    async with listening(channel, SIGNING_REQUEST_ROW) as requests, listening(channel, CLUSTERS) as clusters:
        assert set(requests.metadata) == {"subscription-id"}
        await resync(channel, SIGNING_REQUEST_ROW)
        cluster = {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "cluster1"},
            "spec": {"hubAcceptsClient": False},
        }
        await publish(channel, CLUSTERS, Action.CREATE, cluster)
        await clusters.until(lambda event: event.cluster == "cluster1")
        assert await code_of(publish(channel, CLUSTERS, Action.CREATE, cluster)) == "FAILED_PRECONDITION"
        request = signing_request(generate_key(), subject(AGENT.common_name, AGENT.organizations))
        await publish(channel, SIGNING_REQUEST_ROW, Action.CREATE, _request("cluster1-abcde", request))
        echo = await requests.until(lambda event: event.text(RESOURCE_ID))
        made = await hub.admin.get(SIGNING_REQUESTS, "cluster1-abcde")
        assert (echo.text(RESOURCE_ID), made["spec"]["signerName"]) == (made["metadata"]["uid"], GRPC_SIGNER)
        assert made["metadata"]["annotations"] == {CSR_USER: NEWCOMER.name}
        approved = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
        made["status"] = {"conditions": [approved]}
        await hub.admin.update(SIGNING_REQUESTS, made, subresource="approval")
        await requests.until(lambda event: b'"Approved"' in (event.data or b""))


def _request(name: str, pem: bytes) -> Object:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: "cluster1"}},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": GRPC_SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


async def test_an_agent_hears_of_works_as_they_come_change_and_go(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    async with listening(channel, WORKS) as works:
        made = await hub.work("w1")
        uid = made["metadata"]["uid"]
        event = await works.until(lambda event: event.text(RESOURCE_ID) == uid)
        assert event.event_type.action is Action.CREATE
        await hub.admin.delete(MANIFEST_WORKS, "w1", "cluster1")
        await works.until(lambda event: event.event_type.action is Action.DELETE)


async def test_a_resync_has_an_end_and_tells_of_what_went_while_nobody_listened(hub: Served) -> None:
    await hub.accept("cluster1")
    kept, gone = await hub.work("kept"), await hub.work("gone")
    await hub.admin.delete(MANIFEST_WORKS, "gone", "cluster1")
    channel = hub.channel(AGENT)
    known = [KnownObject(resource_id=one["metadata"]["uid"], version=1) for one in (kept, gone)]
    known.append(KnownObject(resource_id="never-seen", version=1, name="named"))
    async with listening(channel, WORKS) as works:
        while True:
            await resync(channel, WORKS, *known, resync_id="r1")
            await works.until(lambda event: resync_end(event) == "r1")
            told = {event.text(RESOURCE_ID) for event in works.events} - {""}
            if gone["metadata"]["uid"] in told:
                break
            works.events.clear()
        assert told <= {gone["metadata"]["uid"], "never-seen", kept["metadata"]["uid"]}


async def test_a_hub_without_a_kind_is_served_all_the_same_and_that_kind_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with served_hub(tmp_path, beta=False) as hub:
        assert [name for name, check in hub.server.ready_checks.items() if check() is not None] == []
        await hub.accept("cluster1")
        channel = hub.channel(AGENT)
        async with listening(channel, ADDONS_ALPHA) as stream:
            assert stream.metadata["subscription-id"]
        async with listening(channel, ADDONS_BETA) as stream:
            assert await stream.end() == "FAILED_PRECONDITION"
        await serve_beta(hub.admin, True)
        async with asyncio.timeout(60):
            while True:
                async with listening(channel, ADDONS_BETA) as stream:
                    if not stream.ended:
                        break
                await asyncio.sleep(0.05)


async def test_a_lease_renewal_costs_one_request_and_comes_back(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    async with listening(channel, LEASE_ROW) as leases:
        await resync(channel, LEASE_ROW, resync_id="r1")
        await leases.until(lambda event: resync_end(event) == "r1")
        for second in range(3):
            lease = await hub.admin.get(LEASES, LEASE, "cluster1")
            lease["spec"]["renewTime"] = f"2026-01-01T00:00:0{second}.000000Z"
            version = int(lease["metadata"]["resourceVersion"])
            hub.account.reviews.clear()
            await publish(channel, LEASE_ROW, Action.UPDATE, lease)
            await leases.until(lambda event, version=version: int(event.text(RESOURCE_VERSION) or 0) > version)
            leases.events.clear()
            if second:
                assert hub.account.reviews == []
        stale = {**lease, "spec": {"renewTime": "2026-01-01T00:01:00.000000Z"}}
        assert await code_of(publish(channel, LEASE_ROW, Action.UPDATE, stale)) == "FAILED_PRECONDITION"


@pytest.mark.parametrize("what", ["nothing", "bad token", "expired", "foreign"])
async def test_whoever_proves_nothing_is_not_served(hub: Served, what: str) -> None:
    await hub.accept("cluster1")
    match what:
        case "nothing":
            channel, code = hub.channel(), "UNAUTHENTICATED"
        case "bad token":
            channel, code = hub.channel(token="wrong"), "UNAUTHENTICATED"
        case "expired":
            channel, code = hub.channel(AGENT, lifetime=-1.0), "UNAUTHENTICATED"
        case _:
            foreign = CertificateAuthority.create("clients", datetime.now(UTC), timedelta(days=1))
            channel, code = hub.channel(AGENT, authority=foreign), "UNAVAILABLE"
    async with listening(channel, WORKS) as works:
        assert works.ended == code
    assert await code_of(resync(channel, WORKS)) == code
    assert len(hub.server.broker) == 0


async def test_a_message_that_is_too_large_is_refused_and_the_connection_goes_on(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    async with listening(channel, WORKS) as works:
        large = {"metadata": {"name": LEASE, "namespace": "cluster1"}, "x": "y" * (4 << 20)}
        assert await code_of(publish(channel, LEASE_ROW, Action.UPDATE, large)) == "RESOURCE_EXHAUSTED"
        await resync(channel, WORKS, resync_id="r1")
        await works.until(lambda event: resync_end(event) == "r1")


async def test_two_agents_of_one_cluster_both_hear_of_its_works(hub: Served) -> None:
    await hub.accept("cluster1")
    channels = [hub.channel(AgentIdentity("cluster1", name)) for name in ("agent1", "agent2")]
    async with listening(channels[0], WORKS) as first, listening(channels[1], WORKS) as second:
        uid = (await hub.work("w1"))["metadata"]["uid"]
        for works in (first, second):
            await works.until(lambda event: event.text(RESOURCE_ID) == uid)


async def test_while_the_hubs_api_is_away_calls_are_to_be_tried_again_and_streams_live(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    lease = await hub.admin.get(LEASES, LEASE, "cluster1")
    async with listening(channel, LEASE_ROW) as leases:
        await resync(channel, LEASE_ROW, resync_id="r1")
        await leases.until(lambda event: resync_end(event) == "r1")
        hub.account.away = True
        lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
        assert await code_of(publish(channel, LEASE_ROW, Action.UPDATE, lease)) == "UNAVAILABLE"
        hub.account.away = False
        await publish(channel, LEASE_ROW, Action.UPDATE, lease)
        await leases.until(lambda event: b"2026-01-01T00:00:00" in (event.data or b""))


async def test_a_cluster_that_is_no_longer_accepted_is_cut_off(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    async with listening(channel, WORKS) as works:
        await hub.admin.delete(CLUSTER_ROLE_BINDINGS, "agents-cluster1")
        # Long before everybody is looked at again, whether anything was heard or not.
        async with asyncio.timeout(guard.SWEEP_INTERVAL / 2):
            assert await works.end() == "PERMISSION_DENIED"
        assert await code_of(resync(channel, WORKS)) == "PERMISSION_DENIED"


async def test_where_rbac_may_not_be_read_every_question_is_reviewed_and_lost_rights_are_noticed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream's manifests do not let the server read roles and bindings."""
    monkeypatch.setattr("muster.transport.server.guard.SWEEP_INTERVAL", 0.2)
    monkeypatch.setattr("muster.runtime.auth.subject_access.SubjectAccess.UNSYNCED_TTL", 0.1)
    rules = tuple(one for one in SERVER_RULES if one["apiGroups"] != [GROUP])
    assert len(rules) < len(SERVER_RULES)
    async with served_hub(tmp_path, rules) as hub:
        await hub.accept("cluster1")
        channel = hub.channel(AGENT)
        async with listening(channel, WORKS) as works:
            await resync(channel, WORKS, resync_id="r1")
            await works.until(lambda event: resync_end(event) == "r1")
            assert hub.account.reviews
            async with listening(channel, WORKS, "cluster2") as others:
                assert others.ended == "PERMISSION_DENIED"
            await hub.admin.delete(CLUSTER_ROLE_BINDINGS, "agents-cluster1")
            assert await works.end() == "PERMISSION_DENIED"


async def test_a_certificate_that_ends_ends_its_streams(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT, lifetime=4.0)
    async with listening(channel, WORKS) as works:
        assert works.ended == ""
        assert await works.end() == "UNAUTHENTICATED"
        assert await code_of(resync(channel, WORKS)) == "UNAUTHENTICATED"


async def test_certificates_and_authorities_are_replaced_while_serving(hub: Served) -> None:
    await hub.accept("cluster1")
    old = hub.channel(AGENT)
    async with listening(old, WORKS) as works:
        now = datetime.now(UTC)
        hub.clients = CertificateAuthority.create("clients-2", now, timedelta(days=1))
        hub.serving = CertificateAuthority.create("serving-2", now, timedelta(days=1))
        hub.write_serving_pair(hub.serving.issue("hub", now, timedelta(days=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",)))
        (hub.directory / "ca.crt").write_bytes(hub.clients.pem)
        assert await works.end() == "UNAUTHENTICATED"
    async with listening(hub.channel(AGENT), WORKS) as works:
        assert works.ended == ""


async def test_stopping_is_announced_and_ends_streams_so_that_agents_go_elsewhere(hub: Served) -> None:
    await hub.accept("cluster1")
    later = hub.channel(AGENT)
    async with listening(hub.channel(AGENT), WORKS) as works:
        stopping = asyncio.create_task(hub.server.stop(60.0))
        assert await works.end() == "UNAVAILABLE"
        async with asyncio.timeout(20):
            await stopping
    assert await code_of(resync(later, WORKS)) == "UNAVAILABLE"


async def test_metrics_have_upstreams_names_and_no_stranger_makes_series(hub: Served) -> None:
    await hub.accept("cluster1")
    channel = hub.channel(AGENT)
    async with listening(channel, WORKS):
        await resync(channel, WORKS)
        stranger = hub.channel()
        await code_of(resync(stranger, WORKS))
        async with listening(channel, WORKS, "cluster-of-nobody"):
            pass
        await invite(hub)
        async with listening(hub.channel(token="boottoken"), CLUSTERS, "cluster-of-newcomer") as newcomer:
            assert newcomer.ended == ""
        text = hub.metrics.render().decode()
    labels = 'grpc_method="Publish",grpc_service="io.cloudevents.v1.CloudEventService",grpc_type="unary"'
    assert f'grpc_server_handled_total{{{labels},grpc_code="OK"}} 1' in text
    assert f'grpc_server_handled_total{{{labels},grpc_code="Unauthenticated"}} 1' in text
    assert 'grpc_server_ce_subscribers{consumer="cluster1",data_type="io.open-cluster-management.works' in text
    assert 'grpc_server_ce_processed_total{consumer="cluster1"' in text
    assert "grpc_server_ce_processing_duration_seconds_bucket" in text
    assert "cluster-of" not in text
    assert 'consumer="other"' in text
