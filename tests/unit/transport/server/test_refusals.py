"""Who may ask for what: every refusal, for every data type, and that nothing was carried out."""

import pytest

from muster.runtime.client.errors import Conflict, Unreachable
from muster.transport.contract.event import CLUSTER, CloudEvent
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, ROWS, SIGNING_REQUEST_ROW, TOKENS, WORKS, Row
from muster.transport.contract.types import Action, Subresource
from muster.transport.contract.wire import encode_publish_request
from muster.transport.rpc.status import RpcError
from tests.unit.transport.server.fakes import FakeCall, agent, code_of, newcomer, object_of, published
from tests.unit.transport.server.hub import Listener, TestHub

EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.data_type.resource + row.data_type.version)
ASKED = [(row, *asked) for row in ROWS.values() for asked in sorted(row.accepts)]
EVERY_ASKED = pytest.mark.parametrize(
    ("row", "subresource", "action"), ASKED, ids=[f"{row.data_type}.{sub}.{action}" for row, sub, action in ASKED]
)


@EVERY_ASKED
async def test_an_agent_is_served_for_its_own_cluster(hub: TestHub, row: Row, subresource: Subresource, action: Action) -> None:
    await hub.accept("cluster1")
    who = agent("cluster1")
    await hub.publish(who, row, action, "cluster1", object_of(row, "cluster1", "u1"), subresource=subresource)
    ((_, caller),) = hub.services[row.data_type].handled
    assert (caller.user, caller.cluster, caller.is_agent) == (who.user, "cluster1", True)


@EVERY_ROW
async def test_an_agent_cannot_listen_to_another_cluster(hub: TestHub, row: Row) -> None:
    await hub.accept("cluster1")
    assert await hub.subscribe(agent("cluster1"), row.data_type, "cluster2").code() == "PERMISSION_DENIED"


@EVERY_ROW
async def test_an_agent_cannot_resync_another_cluster(hub: TestHub, row: Row) -> None:
    await hub.accept("cluster1")
    body: dict[str, list[str]] = {"resourceVersions": []}
    assert await code_of(hub.publish(agent("cluster1"), row, Action.RESYNC, "cluster2", body)) == "PERMISSION_DENIED"


@EVERY_ASKED
async def test_an_agent_cannot_speak_for_another_cluster(hub: TestHub, row: Row, subresource: Subresource, action: Action) -> None:
    await hub.accept("cluster1")
    obj = object_of(row, "cluster2", "u1")
    call = hub.publish(agent("cluster1"), row, action, "cluster2", obj, subresource=subresource)
    assert await code_of(call) == "PERMISSION_DENIED"
    assert hub.services[row.data_type].handled == []


@EVERY_ASKED
async def test_the_payload_cannot_be_another_clusters(hub: TestHub, row: Row, subresource: Subresource, action: Action) -> None:
    await hub.accept("cluster1")
    obj = object_of(row, "cluster2", "u1")
    call = hub.publish(agent("cluster1"), row, action, "cluster1", obj, subresource=subresource)
    assert await code_of(call) == "PERMISSION_DENIED"
    assert hub.services[row.data_type].handled == []


async def test_metadata_beside_the_payload_does_not_stand_for_it(hub: TestHub) -> None:
    await hub.accept("cluster1")
    obj = object_of(LEASE_ROW, "cluster2", "u1")
    call = hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", obj, metadata='{"namespace":"cluster1"}')
    assert await code_of(call) == "PERMISSION_DENIED"


@EVERY_ROW
async def test_an_agent_without_rights_is_denied(hub: TestHub, row: Row) -> None:
    assert await hub.subscribe(agent("cluster1"), row.data_type, "cluster1").code() == "PERMISSION_DENIED"


async def test_a_refusal_says_nothing_of_the_rules(hub: TestHub) -> None:
    with pytest.raises(RpcError) as refused:
        await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    assert refused.value.message == "not allowed for coordination.k8s.io.v1.leases of cluster 'cluster1'"


# Newcomers


@EVERY_ROW
async def test_a_newcomer_listens_to_its_cluster_and_requests_only(hub: TestHub, row: Row) -> None:
    await hub.invite("bootstrap")
    await hub.accept("cluster1")  # of what agents may nothing is for newcomers
    listener = hub.subscribe(newcomer(), row.data_type, "cluster1")
    if row in (CLUSTERS, SIGNING_REQUEST_ROW):
        await listener.started()
    else:
        assert await listener.code() == "PERMISSION_DENIED"


@pytest.mark.parametrize("row", [CLUSTERS, SIGNING_REQUEST_ROW], ids=["clusters", "requests"])
async def test_a_token_for_one_name_is_for_no_other(hub: TestHub, row: Row) -> None:
    await hub.invite("bootstrap", ["cluster1"])
    for cluster, expected in (("cluster1", ""), ("cluster2", "PERMISSION_DENIED")):
        create = hub.publish(newcomer(), row, Action.CREATE, cluster, object_of(row, cluster, "u1"))
        assert await code_of(create) == expected
    assert await hub.subscribe(newcomer(), row.data_type, "cluster2").code() == "PERMISSION_DENIED"
    resync = hub.publish(newcomer(), row, Action.RESYNC, "cluster2", {"resourceVersions": []})
    assert await code_of(resync) == "PERMISSION_DENIED"
    assert [caller.cluster for _, caller in hub.services[row.data_type].handled] == ["cluster1"]
    assert not hub.services[row.data_type].handled[0][1].is_agent


@pytest.mark.parametrize("cluster", ["", "UPPER", "a.b", "x" * 64, "managed-clusters", "../c", "c\n"])
async def test_what_is_no_clusters_name_is_refused_before_anybody_is_asked(hub: TestHub, cluster: str) -> None:
    await hub.invite("bootstrap")
    listening = await hub.subscribe(newcomer(), CLUSTERS.data_type, cluster).code()
    assert listening == ("PERMISSION_DENIED" if cluster else "INVALID_ARGUMENT")
    call = hub.publish(newcomer(), CLUSTERS, Action.CREATE, cluster, object_of(CLUSTERS, cluster, "u"))
    assert await code_of(call) == "PERMISSION_DENIED"
    assert hub.client.reviews == []


# What is no question


async def test_a_source_is_refused(hub: TestHub) -> None:
    await hub.accept("cluster1")
    listener = hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1", source="maestro")
    assert await listener.code() == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    "type_",
    [
        "",
        "nodots",
        "a.b.c",
        "coordination.k8s.io.v1.leases.foo.update_request",
        "coordination.k8s.io.v1.leases.spec.delete_request",
        "coordination.k8s.io.v1.leases.spec.watch_request",
        "coordination.k8s.io.v1.leases.spec.resync_response",
        "coordination.k8s.io.v1.leases.status.resync_request",
        "coordination.k8s.io.v1.leases.status.update_request",
        "io.open-cluster-management.works.v1alpha1.manifestbundles.spec.update_request",
        "v1.v1.secrets.spec.create_request",
        "io.open-cluster-management.cloudevents.heartbeat",
    ],
)
async def test_what_nobody_can_ask_for_is_an_invalid_argument(hub: TestHub, type_: str) -> None:
    await hub.accept("cluster1")
    event = CloudEvent(id="1", source="s", type=type_, attributes={CLUSTER: "cluster1"}, data=b"{}")
    assert await code_of(hub.service.publish(FakeCall(agent("cluster1")), encode_publish_request(event))) == "INVALID_ARGUMENT"
    assert hub.client.reviews == []


@pytest.mark.parametrize(
    "message",
    [b"", b"\x0a\x00", b"\xff\xff", b"\x0a\x02\x0a", published(LEASE_ROW, Action.UPDATE, "cluster1", None)],
    ids=["nothing", "empty event", "garbage", "truncated", "no data"],
)
async def test_what_is_no_event_is_an_invalid_argument(hub: TestHub, message: bytes) -> None:
    await hub.accept("cluster1")
    assert await code_of(hub.service.publish(FakeCall(agent("cluster1")), message)) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("data", [b"[]", b"{", b"null", b'{"metadata":[]}', b'{"metadata":{"labels":{"a":1}}}', b"[" * 100_000])
async def test_a_payload_that_is_no_object_is_an_invalid_argument(hub: TestHub, data: bytes) -> None:
    await hub.accept("cluster1")
    type_ = "coordination.k8s.io.v1.leases.spec.update_request"
    event = CloudEvent(id="1", source="s", type=type_, attributes={CLUSTER: "cluster1"}, data=data)
    assert await code_of(hub.service.publish(FakeCall(agent("cluster1")), encode_publish_request(event))) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("data_type", ["", "leases", "v1.v1.secrets", "coordination.k8s.io.v1.leases.spec"])
async def test_an_unknown_data_type_cannot_be_listened_to(hub: TestHub, data_type: str) -> None:
    await hub.accept("cluster1")
    assert await hub.subscribe(agent("cluster1"), data_type, "cluster1").code() == "INVALID_ARGUMENT"


async def test_a_subscription_that_is_no_message_is_an_invalid_argument(hub: TestHub) -> None:
    assert await Listener(hub, FakeCall(agent("cluster1")), b"\xff").code() == "INVALID_ARGUMENT"


# What goes wrong behind


async def test_a_services_refusal_arrives_as_its_status(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[LEASE_ROW.data_type].failure = Conflict(409, "Conflict", "the lease has been modified")
    with pytest.raises(RpcError) as failed:
        await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    assert failed.value.code.name == "FAILED_PRECONDITION"
    assert failed.value.message.startswith('{"ErrStatus":{')
    assert '"reason":"Conflict"' in failed.value.message


async def test_a_failure_of_ours_is_internal_and_keeps_its_text_to_itself(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[LEASE_ROW.data_type].failure = RuntimeError("password=hunter2")
    with pytest.raises(RpcError) as failed:
        await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    assert failed.value.code.name == "INTERNAL"
    assert "hunter2" not in str(failed.value)


async def test_where_rights_cannot_be_reviewed_the_caller_is_to_try_again(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.client.failing = Unreachable("https://hub.internal", "connection refused")
    with pytest.raises(RpcError) as failed:
        await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    assert failed.value.code.name == "UNAVAILABLE"
    assert "internal" not in failed.value.message
    hub.client.failing = None
    await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))


async def test_a_caller_whose_deadline_has_passed_is_not_begun(hub: TestHub) -> None:
    await hub.accept("cluster1")
    call = FakeCall(agent("cluster1"), deadline=0.0)
    asked = hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"), call=call)
    assert await code_of(asked) == "DEADLINE_EXCEEDED"
    assert hub.services[LEASE_ROW.data_type].handled == []


async def test_a_renewal_that_was_confirmed_costs_no_review(hub: TestHub) -> None:
    await hub.accept("cluster1")
    await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    hub.client.reviews.clear()
    for _ in range(10):
        await hub.publish(agent("cluster1"), LEASE_ROW, Action.UPDATE, "cluster1", object_of(LEASE_ROW, "cluster1", "u"))
    assert hub.client.reviews == []


async def test_tokens_are_asked_for_by_the_accounts_name(hub: TestHub) -> None:
    who = agent("cluster1")
    limited = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": ["addon1"]}
    await hub.grant("tokens", {"kind": "User", "name": who.user.name}, limited)
    for account, expected in (("addon1", ""), ("other", "PERMISSION_DENIED")):
        assert (
            await code_of(hub.publish(who, TOKENS, Action.CREATE, "cluster1", object_of(TOKENS, "cluster1", account))) == expected
        )


async def test_a_connection_has_so_many_streams_and_no_more(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.transport.server.service.MAX_SUBSCRIPTIONS", 2)
    await hub.accept("cluster1")
    call = FakeCall(agent("cluster1"))
    for _ in range(2):
        await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1", call=call).started()
    assert await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1", call=call).code() == "RESOURCE_EXHAUSTED"
    await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
