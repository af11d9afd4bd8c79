"""Those whom a hub does not know, those who ask for what is not theirs, and what is no event at all, at a gRPC server as it is run.

Newcomers hear of their own requests and of nothing else; a credential is good for its cluster alone, with each data type; what
cannot be understood is refused, and the server goes on. Agents that wait, or are told of another hub, do so without a crowd of
requests.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import yaml

from muster.api.agents import GRPC_SIGNER
from muster.kube.certificates import generate_key
from muster.transport.codecs.resync import KnownObject
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, ROWS, SIGNING_REQUEST_ROW, WORKS
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import PUBLISH, encode_publish_request
from muster.transport.rpc.status import Code, RpcError
from tests.e2e.transport.conftest import BOOTSTRAP, GrpcServer, Site
from tests.e2e.transport.test_events import change_work, content, let_in, make_work
from tests.support.administrator import service_account_token
from tests.support.http2_client import Connection, Frame, Target, client_tls, frame
from tests.support.pki import Authority, Pair
from tests.support.wire_agent import CREATE, UPDATE, WireAgent, next_event
from tests.unit.transport.services.store.hubs import signing_request

NOBODY = (Code.UNAUTHENTICATED,)
REFUSED = (Code.PERMISSION_DENIED, Code.UNAUTHENTICATED)
LIMIT = 4 * 2**20


@asynccontextmanager
async def stranger(
    server: GrpcServer, authority: Authority, cluster: str, token: str = "", credential: Pair | None = None
) -> AsyncIterator[WireAgent]:
    agent = WireAgent(server.port, authority, cluster, token, credential)
    try:
        yield agent
    finally:
        await agent.close()


async def refusal(work: Any) -> Code:
    with pytest.raises(RpcError) as refused:
        await work
    return refused.value.code


async def listening(agent: WireAgent, row: Any) -> None:
    async with agent.subscribed(row) as events:
        with suppress(TimeoutError):
            await next_event(events, 0.2)


async def alive(site: Site) -> None:
    """Others are served as ever."""
    async with let_in(site) as (name, (agent,)):
        lease = site.hub.lease(name)
        assert lease is not None
        await agent.publish(LEASE_ROW, *UPDATE, lease)


# R3, R5, R6, R10


async def test_a_newcomer_hears_of_its_own_requests_alone(site: Site) -> None:
    token = service_account_token(site.hub.admin, *BOOTSTRAP)
    async with stranger(site.servers[0], site.signer, "newcomer", token) as agent:
        for row in ROWS.values():
            if row in (CLUSTERS, SIGNING_REQUEST_ROW):
                await listening(agent, row)
            else:
                assert await refusal(listening(agent, row)) is Code.PERMISSION_DENIED, row
        async with agent.subscribed(SIGNING_REQUEST_ROW) as told, let_in(site):
            await agent.publish(CLUSTERS, *CREATE, {"metadata": {"name": "newcomer"}, "spec": {"hubAcceptsClient": False}})
            await agent.publish(SIGNING_REQUEST_ROW, *CREATE, signing_request("newcomer", "newcomer-own"))
            heard = content(await next_event(told))
            assert heard["metadata"]["name"] == "newcomer-own", "another cluster joined meanwhile, and it heard nothing of that"


def test_a_cluster_that_was_there_before_its_agent_is_joined(site: Site) -> None:
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    body = {**kind, "metadata": {"name": "prepared"}, "spec": {"hubAcceptsClient": True}}
    made = site.hub.admin.post("/apis/cluster.open-cluster-management.io/v1/managedclusters", body).expect(201)
    site.joined("prepared")
    found = site.hub.find("prepared")
    assert found is not None
    assert found["metadata"]["uid"] == made["metadata"]["uid"]


def test_an_agent_whose_request_is_denied_waits_and_floods_nobody(site: Site) -> None:
    hub = site.hub
    site.agent("unwanted", token=yaml.safe_load(hub.token_kubeconfig())["users"][0]["user"]["token"])
    (request,) = hub.wait(lambda: hub.pending("unwanted"), "the request of the agent")
    hub.decide(request, "Denied")
    other = site.joined("wanted")
    assert "tls.crt" in other.secret
    assert len(hub.requests("unwanted")) <= 2, "by the time another cluster has joined"


def test_an_agent_that_is_told_of_another_address_goes_there(site: Site) -> None:
    if not site.has_several_servers:
        pytest.skip("SQLite is for one server")
    first, second = site.server("before"), site.server("after")
    agent = site.joined("moving", first)
    site.hub.patch("moving", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    place = f"/api/v1/namespaces/{agent.namespace}/secrets/bootstrap-hub-kubeconfig"
    config = yaml.safe_dump(site.bootstrap(f"127.0.0.1:{second.port}"))
    site.spoke.admin.patch(place, {"stringData": {"config.yaml": config}}).expect(200)
    site.hub.wait(lambda: str(second.port).encode() in agent.secret.get("config.yaml", b"") or None, "the new way", timeout=60)
    site.end(first)
    site.hub.wait_renewed("moving", times=2, timeout=30)
    site.end(second)


# A1, A2, A9


async def test_who_has_no_good_credential_is_nobody(site: Site) -> None:
    server = site.servers[0]
    elsewhere = service_account_token(site.hub.admin, "default", "default")
    for token, expected in (("", NOBODY), ("nonsense", NOBODY), (elsewhere[:-8] + "AAAAAAAA", NOBODY), (elsewhere, REFUSED)):
        async with stranger(server, site.signer, "nobody", token) as agent:
            created = agent.publish(CLUSTERS, *CREATE, {"metadata": {"name": "nobody"}, "spec": {}})
            assert await refusal(created) in expected
            assert await refusal(listening(agent, SIGNING_REQUEST_ROW)) in expected
    assert site.hub.find("nobody") is None
    await alive(site)


async def test_certificates_that_are_over_early_or_anothers_are_no_credential(site: Site, tmp_path_factory: Any) -> None:
    directory = tmp_path_factory.mktemp("foreign")
    names = ("system:open-cluster-management:c:a", ("system:open-cluster-management:c",))
    foreign = Authority(directory, "foreign").issue(names[0], organizations=names[1], file="foreign")
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    over = site.signer.issue(names[0], organizations=names[1], file="over", valid=(now - 2 * day, now - day))
    early = site.signer.issue(names[0], organizations=names[1], file="early", valid=(now + day, now + 2 * day))
    for credential in (foreign, over, early):
        async with stranger(site.servers[0], site.signer, "c", credential=credential) as agent:
            with pytest.raises((RpcError, ssl.SSLError, OSError)) as refused:
                await listening(agent, WORKS)
            if isinstance(refused.value, RpcError):
                assert refused.value.code in (Code.UNAVAILABLE, Code.UNAUTHENTICATED)
    await alive(site)


# A3, A5, A6, A8


async def test_no_data_type_of_another_cluster_is_told_or_taken(site: Site) -> None:
    async with let_in(site) as (_, (agent,)), let_in(site) as (theirs, _others):
        own, agent.cluster = agent.cluster, theirs
        for row in ROWS.values():
            assert await refusal(listening(agent, row)) in REFUSED, row
            assert await refusal(agent.resync(row, [KnownObject(resource_id="any", version=1)])) in REFUSED, row
        agent.cluster = own
        await listening(agent, WORKS)


async def test_what_nobody_does_is_refused_and_the_server_goes_on(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        lease = site.hub.lease(name)
        asked: list[CloudEvent] = []
        for text in (
            str(EventType(WORKS.data_type, Subresource.SPEC, Action.DELETE)),
            f"{LEASE_ROW.data_type}.spec.burn_request",
            f"{LEASE_ROW.data_type}.foo.update_request",
            "io.open-cluster-management.works.v9.nothing.spec.create_request",
            "nodots",
        ):
            event = CloudEvent(id="1", source=name, type=text)
            event.attributes["clustername"] = name
            asked.append(event)
        for event in asked:
            code = await refusal(agent.send(event))
            assert code not in (Code.OK, Code.UNAVAILABLE, Code.UNKNOWN), event.type
        assert lease is not None
        await agent.publish(LEASE_ROW, *UPDATE, lease)


async def test_requests_for_more_than_an_agent_has_are_not_approved(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        wanted = signing_request(name, f"{name}-server")
        wanted["spec"]["usages"] = ["digital signature", "key encipherment", "server auth"]
        foreign = signing_request("somebody", f"{name}-foreign", generate_key())
        foreign["metadata"]["labels"]["open-cluster-management.io/cluster-name"] = name
        kube = signing_request(name, f"{name}-kube")
        kube["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client"
        for request in (wanted, foreign, kube):
            with suppress(RpcError):
                await agent.publish(SIGNING_REQUEST_ROW, *CREATE, request)
        # One that is good is approved meanwhile, so the others have been looked at.
        await agent.publish(SIGNING_REQUEST_ROW, *CREATE, signing_request(name, f"{name}-good"))
        hub = site.hub

        def signed() -> set[str]:
            return {one["metadata"]["name"] for one in hub.requests(name) if (one.get("status") or {}).get("certificate")}

        await asyncio.to_thread(hub.wait, lambda: f"{name}-good" in signed() or None, "the good one")
        assert not signed() & {f"{name}-server", f"{name}-foreign", f"{name}-kube"}
        assert all(one["spec"]["signerName"] == GRPC_SIGNER for one in hub.requests(name) if one["metadata"]["name"] in signed())


# X1, X2, X3, X5


async def test_what_is_no_event_is_refused_and_the_server_goes_on(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        channel = agent._channel
        good = CloudEvent(id="1", source=name, type=str(EventType(LEASE_ROW.data_type, *UPDATE)), data=b"{garbage")
        good.attributes["clustername"] = name
        bad_version = CloudEvent(id="1", source=name, type=good.type, data=b"{}")
        bad_version.attributes["clustername"], bad_version.attributes["resourceversion"] = name, "abc"
        messages = [
            b"",
            b"\x0a\x00",
            b"\x0a\x02\x0a\x00",
            b"\x0a\x05\x0a\x03\xff\xfe\xfd",
            b"\xff" * 20,
            encode_publish_request(good),
            encode_publish_request(bad_version),
        ]
        for message in messages:
            code = await refusal(channel.unary(PUBLISH, message, timeout=30))
            assert code not in (Code.OK, Code.UNAVAILABLE, Code.UNKNOWN), message[:20]
        lease = site.hub.lease(name)
        assert lease is not None
        await agent.publish(LEASE_ROW, *UPDATE, lease)


async def test_a_message_that_is_too_long_costs_its_sender_the_call(site: Site) -> None:
    async with let_in(site) as (name, (agent,)):
        event = CloudEvent(id="1", source=name, type=str(EventType(LEASE_ROW.data_type, *UPDATE)), data=b"x" * (LIMIT + 1))
        event.attributes["clustername"] = name
        assert await refusal(agent.send(event)) is Code.RESOURCE_EXHAUSTED
        await listening(agent, WORKS)


async def test_who_does_not_read_costs_nobody_else_anything(site: Site) -> None:
    """Some 25 MB for a reader that does not read, while another is told of each of its own changes."""
    async with let_in(site) as (slow, (idle,)), let_in(site) as (quick, (reader,)):
        admin = site.hub.admin
        await asyncio.to_thread(make_work, admin, slow, "big", v="0")
        await asyncio.to_thread(make_work, admin, quick, "small", v="0")
        async with idle.subscribed(WORKS) as unread, reader.subscribed(WORKS) as told:
            took = []
            for number in range(1, 61):
                await asyncio.to_thread(change_work, admin, slow, "big", v=f"{number}" + "x" * 400_000)
                began = time.monotonic()
                await asyncio.to_thread(change_work, admin, quick, "small", v=str(number))
                while content(await next_event(told))["manifests"][0]["data"]["v"] != str(number):
                    pass
                took.append(time.monotonic() - began)
            assert sorted(took)[len(took) // 2] < 2
            # What it has not read is merged, or it is cut off and begins anew: in the end it knows the last one.
            try:
                async with asyncio.timeout(20):
                    while not content(await anext(unread))["manifests"][0]["data"]["v"].startswith("60x"):
                        pass
            except RpcError:
                async with idle.subscribed(WORKS) as again:
                    answers = await idle.resynced(WORKS, again)
                    assert [content(one)["manifests"][0]["data"]["v"][:3] for one in answers] == ["60x"]


async def test_who_pings_all_the_time_is_told_to_calm_down(site: Site) -> None:
    server = site.servers[0]
    tls = client_tls(site.signer.pair.cert)
    connection = await Connection.open(Target("127.0.0.1", server.port, tls))
    try:
        async with asyncio.timeout(20):
            number = 0
            while not connection.goaway and not connection.closed:
                number += 1
                connection.write(frame(Frame.PING, 0, 0, struct.pack(">Q", number)))
                await connection.flush()
                await asyncio.sleep(0.05)
        assert connection.goaway == "ENHANCE_YOUR_CALM"
    finally:
        await connection.close()
    await alive(site)
