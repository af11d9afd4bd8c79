"""What agents ask to have written, verb by verb: what arrives on the hub, and what is refused before anything does."""

from typing import Any

import msgspec
import orjson
import pytest

from muster.api.agents import (
    CLUSTER_LABEL,
    CLUSTER_SET_LABEL,
    CSR_USER,
    DRIVER_ANNOTATION,
    GRPC_SIGNER,
    LEASE,
    REGISTER_GROUP,
)
from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.objects import Object
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.runtime.client.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, StatusError, Unreachable
from muster.runtime.install import rule
from muster.transport.contract.event import CLUSTER, RESOURCE_ID, CloudEvent, InvalidEvent
from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    EVENT_ROW,
    LEASE_ROW,
    ROWS,
    SIGNING_REQUEST_ROW,
    TOKENS,
    Row,
)
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.writes.events import MOST_BYTES
from muster.transport.services.writes.table import VERBS
from tests.unit.transport.services.conftest import (
    AgentCaller,
    Hub,
    agent,
    data_of,
    newcomer,
    publish,
    service_of,
    signing_request_spec,
    until,
)

CREATE, STATUS = Action.CREATE, Subresource.STATUS
RENEWED = "2026-02-03T04:05:06.000000Z"
CONFIGS = [{"resource": "configmaps", "group": "", "name": "c", "namespace": "c1"}]


async def send(services: dict, row: Row, event: CloudEvent, caller: AgentCaller) -> CloudEvent | None:
    return await service_of(services, row).handle_status_update(event, caller)


def changed(obj: Object, **parts: Any) -> Object:
    """A copy with other metadata, spec or status fields."""
    copy: Object = orjson.loads(orjson.dumps(obj))
    for part, fields in parts.items():
        copy[part] = {**(copy.get(part) or {}), **fields}
    return copy


def test_every_row_has_a_verb_for_what_it_accepts_and_no_other() -> None:
    accepted = {(data_type, *pair) for data_type, row in ROWS.items() for pair in row.accepts}
    assert set(VERBS) == accepted


class TestWhatNobodyCanAskFor:
    @pytest.mark.parametrize("row", ROWS.values(), ids=str)
    async def test_other_actions_are_refused_in_words_that_name_what_there_is(self, hub: Hub, row: Row) -> None:
        async with hub.serving() as services:
            for subresource in Subresource:
                for action in (Action.DELETE, Action.CREATE, Action.UPDATE, Action.RESYNC_RESPONSE):
                    if (subresource, action) in row.accepts:
                        continue
                    event = CloudEvent(id="1", source="a", type=str(EventType(row.data_type, subresource, action)))
                    with pytest.raises(StatusError) as refusal:
                        await send(services, row, event, agent("c1"))
                    assert refusal.value.code == 405
                    assert str(next(iter(row.accepts))[1]) in refusal.value.message

    async def test_a_caller_without_a_cluster_is_refused_whatever_the_event_says(self, hub: Hub) -> None:
        nobody = AgentCaller(agent("c1").user, "")
        services = hub.idle()
        for row, subresource, action, obj in payloads("c1"):
            for cluster in ("c1", ""):
                event = with_attribute(publish(row, obj, subresource, action), CLUSTER, cluster)
                with pytest.raises(Forbidden):
                    await send(services, row, event, nobody)
        assert hub.account.taken() == []

    async def test_an_event_of_another_row_is_refused(self, hub: Hub) -> None:
        event = publish(LEASE_ROW, {"metadata": {"name": LEASE, "namespace": "c1"}})
        async with hub.serving() as services:
            with pytest.raises(StatusError):
                await send(services, CLUSTERS, event, agent("c1"))


def payloads(cluster: str) -> list[tuple[Row, Subresource, Action, Object]]:
    """For each verb something that is good but for whose it is."""
    inside = {"name": "x", "namespace": cluster, "uid": "u", "resourceVersion": "1"}
    csr = {"name": f"{cluster}-x", "labels": {CLUSTER_LABEL: cluster}}
    spec = {"signerName": GRPC_SIGNER, "request": "", "usages": []}
    return [
        (CLUSTERS, Subresource.SPEC, CREATE, {"metadata": {"name": cluster}, "spec": {}}),
        (CLUSTERS, Subresource.SPEC, Action.UPDATE, {"metadata": {"name": cluster}, "spec": {}}),
        (CLUSTERS, STATUS, Action.UPDATE, {"metadata": {"name": cluster, "resourceVersion": "1"}, "status": {}}),
        (SIGNING_REQUEST_ROW, Subresource.SPEC, CREATE, {"metadata": csr, "spec": spec}),
        (ADDONS_ALPHA, STATUS, Action.UPDATE, {"metadata": inside, "status": {}}),
        (ADDONS_BETA, STATUS, Action.UPDATE, {"metadata": inside, "status": {}}),
        (ADDONS_BETA, Subresource.SPEC, Action.UPDATE, {"metadata": inside, "status": {}}),
        (LEASE_ROW, Subresource.SPEC, Action.UPDATE, {"metadata": {**inside, "name": LEASE}, "spec": {"renewTime": RENEWED}}),
        (EVENT_ROW, Subresource.SPEC, CREATE, {"metadata": inside, "note": "n"}),
        (EVENT_ROW, Subresource.SPEC, Action.UPDATE, {"metadata": inside, "series": {"count": 2}}),
        (TOKENS, Subresource.SPEC, CREATE, {"metadata": inside, "spec": {}}),
    ]


class TestWhoseObjectItIs:
    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_an_object_of_another_cluster_is_refused_and_nothing_is_asked(self, hub: Hub, case: int) -> None:
        row, subresource, action, theirs = payloads("c2")[case]
        async with hub.serving() as services:
            hub.account.taken()
            for event in (
                publish(row, theirs, subresource, action),
                publish(row, theirs, subresource, action, cluster="c1"),
                publish(row, payloads("c1")[case][3], subresource, action, cluster="c2"),
            ):
                with pytest.raises(Forbidden) as refusal:
                    await send(services, row, event, agent("c1"))
                assert "c2" in refusal.value.message
                assert refusal.value.reason == "Forbidden"
            assert hub.account.taken() == []

    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_what_is_no_object_is_invalid(self, hub: Hub, case: int) -> None:
        row, subresource, action, good = payloads("c1")[case]
        event, services = publish(row, good, subresource, action), hub.idle()
        wrong_kind = orjson.dumps({**good, "kind": "Pod"})
        broken = [None, b"", b"[]", b"{", b'"x"', b"\xff", b'{"metadata":[]}', b"{}", b"[" * 5000, wrong_kind]
        spoiled: tuple[Object, ...] = (
            {"name": ""},
            {"name": ".."},
            {"name": "a/b"},
            {"name": 5},
            {"namespace": []},
            {"labels": {"a": 1}},
            {"annotations": [1]},
            {"uid": {}},
            {"resourceVersion": 7},
        )
        for metadata in spoiled:
            broken.append(orjson.dumps(changed(good, metadata=metadata)))
        for data in broken:
            # A name that is another cluster's is forbidden, where it says whose an object is.
            with pytest.raises((InvalidEvent, Forbidden)):
                await send(services, row, msgspec.structs.replace(event, data=data), agent("c1"))
        assert hub.account.taken() == []

    async def test_the_id_of_the_event_is_that_of_the_object(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = await hub.lease("c1")
        event = publish(LEASE_ROW, changed(lease, spec={"renewTime": RENEWED}))
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="resourceid"):
                await send(services, LEASE_ROW, with_attribute(event, RESOURCE_ID, "another"), agent("c1"))
            # Agents of OCM 1.2 say the name.
            await send(services, LEASE_ROW, with_attribute(event, RESOURCE_ID, LEASE), agent("c1"))


def with_attribute(event: CloudEvent, name: str, value: Any) -> CloudEvent:
    return msgspec.structs.replace(event, attributes={**event.attributes, name: value})


class TestIntroduction:
    def introduction(self, cluster: str = "c1", metadata: Object | None = None, **spec: Any) -> CloudEvent:
        body = {
            "metadata": {"name": cluster, **(metadata or {})},
            "spec": {"hubAcceptsClient": False, **spec},
            "status": {"conditions": None, "version": {}},
        }
        return publish(CLUSTERS, body, Subresource.SPEC, CREATE)

    async def test_a_newcomer_is_made_known_and_marked(self, hub: Hub) -> None:
        own = {"agent.open-cluster-management.io/site": "a"}
        event = self.introduction(metadata={"annotations": own}, managedClusterClientConfigs=[{"url": "https://a"}])
        async with hub.serving() as services:
            assert await send(services, CLUSTERS, event, newcomer("c1")) is None
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        assert cluster["metadata"]["annotations"] == {**own, DRIVER_ANNOTATION: "grpc"}
        assert cluster["spec"]["hubAcceptsClient"] is False
        assert cluster["spec"]["managedClusterClientConfigs"] == [{"url": "https://a"}]
        assert "status" not in cluster

    async def test_one_that_exists_already_is_told_so_and_stays(self, hub: Hub) -> None:
        before = await hub.create_cluster("c1", accepted=True, annotations={DRIVER_ANNOTATION: "csr"})
        async with hub.serving() as services:
            hub.account.taken()
            with pytest.raises(AlreadyExists):
                await send(services, CLUSTERS, self.introduction(), newcomer("c1"))
            assert [method for method, _ in hub.account.taken()] == ["POST"]
        assert await hub.admin.get(CLUSTERS.resource, "c1") == before

    @pytest.mark.parametrize("running", [True, False])
    async def test_one_that_was_made_for_whoever_comes_is_marked_and_nothing_else_of_it_changes(
        self, hub: Hub, running: bool
    ) -> None:
        before = await hub.create_cluster("c1", accepted=True, annotations={"else": "s"}, labels={"env": "prod"})
        claims = {"annotations": {"agent.open-cluster-management.io/x": "y"}, "labels": {"env": "dev"}}
        async with hub.serving() as services:
            event = self.introduction(metadata=claims, managedClusterClientConfigs=[{"url": "https://a"}])
            with pytest.raises(AlreadyExists):
                await send(services if running else hub.idle(), CLUSTERS, event, newcomer("c1"))
        after = await hub.admin.get(CLUSTERS.resource, "c1")
        assert after["metadata"]["annotations"] == {"else": "s", DRIVER_ANNOTATION: "grpc"}
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert after["spec"] == before["spec"]

    @pytest.mark.parametrize("claim", ["joined", "annotated", "going"])
    async def test_one_that_is_an_agents_already_is_not_marked(self, hub: Hub, claim: str) -> None:
        own = {"agent.open-cluster-management.io/managed-cluster-arn": "a"} if claim == "annotated" else {}
        await hub.create_cluster("c1", annotations=own, finalizers=["a.example/b"])
        if claim == "joined":
            joined = {"type": "ManagedClusterJoined", "status": "True", "reason": "R", "message": ""}
            status = {"status": {"conditions": [{**joined, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
            await hub.admin.patch(CLUSTERS.resource, "c1", status, subresource="status")
        if claim == "going":
            await hub.admin.delete(CLUSTERS.resource, "c1")
        with pytest.raises(AlreadyExists):
            await send(hub.idle(), CLUSTERS, self.introduction(), newcomer("c1"))
        after = await hub.admin.get(CLUSTERS.resource, "c1")
        assert DRIVER_ANNOTATION not in after["metadata"].get("annotations", {})

    async def test_whoever_comes_is_told_the_same_where_marking_fails(self, hub: Hub) -> None:
        await hub.create_cluster("c1")

        async def refuse(method: str, path: str) -> None:
            if method == "PUT":
                raise Unreachable("hub", "away")

        async with hub.serving() as services:
            hub.account.before = refuse
            with pytest.raises(AlreadyExists):
                await send(services, CLUSTERS, self.introduction(), newcomer("c1"))

    @pytest.mark.parametrize(
        ("metadata", "spec", "field"),
        [
            ({}, {"hubAcceptsClient": True}, "hubAcceptsClient"),
            ({"finalizers": ["a.example/b"]}, {}, "metadata.finalizers"),
            ({"ownerReferences": [{"name": "x"}]}, {}, "metadata.ownerReferences"),
            ({"generateName": "c"}, {}, "metadata.generateName"),
            ({"annotations": {"open-cluster-management.io/automatically-accepted-on": "x"}}, {}, "automatically-accepted-on"),
        ],
        ids=lambda value: str(value)[:30],
    )
    async def test_what_no_newcomer_may_say_is_refused_by_name(self, hub: Hub, metadata: Object, spec: Object, field: str) -> None:
        await hub.allow("all", [rule("*", ["*"], ["*"])], newcomer("c1").user.name)
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match=field):
                await send(services, CLUSTERS, self.introduction(metadata=metadata, **spec), newcomer("c1"))
        assert await hub.get(CLUSTERS, "c1") is None

    async def test_a_set_takes_the_right_to_join_it(self, hub: Hub) -> None:
        event = self.introduction(metadata={"labels": {CLUSTER_SET_LABEL: "prod"}})
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match="ManagedClusterSet"):
                await send(services, CLUSTERS, event, newcomer("c1"))
            joining = rule("cluster.open-cluster-management.io", ["managedclustersets/join"], ["create"], ["prod"])
            await hub.allow("join", [joining], newcomer("c1").user.name)
            await send(services, CLUSTERS, event, newcomer("c1"))
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        assert cluster["metadata"]["labels"][CLUSTER_SET_LABEL] == "prod"

    async def test_with_the_gate_labels_take_the_right_to_accept(self, hub: Hub) -> None:
        event = self.introduction(metadata={"labels": {"env": "prod"}})
        async with hub.serving(rules=ClusterWriteRules(agent_restriction=True)) as services:
            with pytest.raises(Forbidden, match=r"metadata\.labels\[env\]"):
                await send(services, CLUSTERS, event, newcomer("c1"))
            await hub.allow("accept", [rule(REGISTER_GROUP, ["managedclusters/accept"], ["update"])], newcomer("c1").user.name)
            await send(services, CLUSTERS, event, newcomer("c1"))

    async def test_a_spec_that_cannot_be_read_is_invalid(self, hub: Hub) -> None:
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match=r"spec\.taints"):
                await send(services, CLUSTERS, self.introduction(taints=[5]), newcomer("c1"))


class TestOwnCluster:
    async def update(self, hub: Hub, services: dict, **parts: Any) -> Object:
        """The cluster after its agent has sent a copy with other parts."""
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        await until(lambda: service_of(services, CLUSTERS).list("c1"))
        await send(services, CLUSTERS, publish(CLUSTERS, changed(cluster, **parts)), agent("c1"))
        return await hub.admin.get(CLUSTERS.resource, "c1")

    async def test_an_agent_tells_the_ways_to_its_api_server_in_one_request(self, hub: Hub) -> None:
        await hub.create_cluster("c1", annotations={"else": "s"}, labels={"env": "prod"})
        async with hub.serving() as services:
            hub.account.taken()
            after = await self.update(hub, services, spec={"managedClusterClientConfigs": [{"url": "https://a"}]})
            assert [method for method, _ in hub.account.taken()] == ["PUT"]
        assert after["spec"]["managedClusterClientConfigs"] == [{"url": "https://a"}]
        assert after["spec"]["hubAcceptsClient"] is True
        assert after["metadata"]["annotations"] == {"else": "s", DRIVER_ANNOTATION: "grpc"}
        assert after["metadata"]["labels"]["env"] == "prod"

    async def test_what_changes_nothing_is_not_written(self, hub: Hub) -> None:
        await hub.create_cluster("c1", annotations={DRIVER_ANNOTATION: "grpc"})
        async with hub.serving() as services:
            hub.account.taken()
            await self.update(hub, services)
            assert hub.account.taken() == []

    async def test_an_agent_may_leave_and_may_not_let_itself_in(self, hub: Hub) -> None:
        await hub.create_cluster("c1", accepted=True)
        async with hub.serving() as services:
            after = await self.update(hub, services, spec={"hubAcceptsClient": False})
            assert after["spec"]["hubAcceptsClient"] is False
            await until(lambda: data_of(service_of(services, CLUSTERS).list("c1")[0])["spec"]["hubAcceptsClient"] is False)
            with pytest.raises(Forbidden, match="HubAcceptsClient"):
                await self.update(hub, services, spec={"hubAcceptsClient": True})

    @pytest.mark.parametrize(
        ("parts", "field"),
        [
            ({"metadata": {"labels": {}}}, "metadata.labels[env]"),
            ({"metadata": {"annotations": {}}}, "metadata.annotations[else]"),
            ({"metadata": {"annotations": {"else": "other"}}}, "metadata.annotations[else]"),
            ({"metadata": {"annotations": {"else": "s", "new": "x"}}}, "metadata.annotations[new]"),
            ({"metadata": {"finalizers": []}}, "metadata.finalizers"),
            ({"metadata": {"ownerReferences": [{"name": "x"}]}}, "metadata.ownerReferences"),
            ({"spec": {"leaseDurationSeconds": 5000}}, "spec.leaseDurationSeconds"),
            ({"spec": {"unheard": "of"}}, "spec.unheard"),
            ({"metadata": {"labels": {"env": "prod", CLUSTER_SET_LABEL: "prod"}}}, "ManagedClusterSet"),
        ],
        ids=lambda value: str(value)[:40],
    )
    async def test_what_is_not_the_agents_is_refused_by_name(self, hub: Hub, parts: Object, field: str) -> None:
        before = await hub.create_cluster("c1", annotations={"else": "s"}, labels={"env": "prod"}, finalizers=["a.example/b"])
        async with hub.serving() as services:
            with pytest.raises(Forbidden) as refusal:
                await self.update(hub, services, **parts)
            assert field in refusal.value.message
        assert await hub.admin.get(CLUSTERS.resource, "c1") == before

    async def test_taints_and_labels_are_the_agents_by_default_and_not_with_the_gate(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        taints = [{"key": "a", "effect": "NoSelect"}]
        for restricted in (True, False):
            async with hub.serving(rules=ClusterWriteRules(agent_restriction=restricted)) as services:
                if restricted:
                    for parts in ({"spec": {"taints": taints}}, {"metadata": {"labels": {"env": "x"}}}):
                        with pytest.raises(Forbidden, match="agents of a cluster cannot change"):
                            await self.update(hub, services, **parts)
                    continue
                after = await self.update(hub, services, spec={"taints": taints}, metadata={"labels": {"env": "x"}})
                assert after["spec"]["taints"][0]["key"] == "a"
                assert after["metadata"]["labels"]["env"] == "x"

    async def test_an_older_copy_is_a_conflict_and_costs_no_request(self, hub: Hub) -> None:
        old = await hub.create_cluster("c1")
        await hub.admin.patch(CLUSTERS.resource, "c1", {"metadata": {"labels": {"a": "b"}}})
        async with hub.serving() as services:
            hub.account.taken()
            with pytest.raises(Conflict):
                await send(services, CLUSTERS, publish(CLUSTERS, old), agent("c1"))
            assert hub.account.taken() == []

    async def test_a_copy_that_is_newer_than_what_is_known_here_is_looked_up(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        services = hub.idle()
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        copy = changed(cluster, spec={"managedClusterClientConfigs": [{"url": "https://a"}]})
        hub.account.taken()
        await send(services, CLUSTERS, publish(CLUSTERS, copy), agent("c1"))
        assert [method for method, _ in hub.account.taken()] == ["GET", "PUT"]

    async def test_a_cluster_that_is_not_there_is_not_found(self, hub: Hub) -> None:
        async with hub.serving() as services:
            with pytest.raises(NotFound):
                await send(services, CLUSTERS, publish(CLUSTERS, {"metadata": {"name": "c1"}, "spec": {}}), agent("c1"))


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


class TestLeases:
    async def test_a_renewal_is_one_request_and_changes_the_time_alone(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        before = await hub.lease("c1")
        forged = changed(before, spec={"renewTime": RENEWED, "leaseDurationSeconds": 9999}, metadata={"labels": {}})
        async with hub.serving() as services:
            hub.account.taken()
            await send(services, LEASE_ROW, publish(LEASE_ROW, forged), agent("c1"))
            assert [method for method, _ in hub.account.taken()] == ["PUT"]
        after = await hub.lease("c1")
        assert after["spec"] == {**before["spec"], "renewTime": RENEWED}
        assert after["metadata"]["labels"] == {CLUSTER_LABEL: "c1"}

    async def test_an_older_version_is_a_conflict(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        event = publish(LEASE_ROW, changed(await hub.lease("c1"), spec={"renewTime": RENEWED}))
        async with hub.serving() as services:
            await send(services, LEASE_ROW, event, agent("c1"))
            with pytest.raises(Conflict):
                await send(services, LEASE_ROW, event, agent("c1"))

    async def test_a_lease_that_is_not_there_is_not_found_and_not_made(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = await hub.lease("c1")
        await hub.admin.delete(LEASE_ROW.resource, LEASE, "c1")
        async with hub.serving() as services:
            with pytest.raises(NotFound):
                await send(services, LEASE_ROW, publish(LEASE_ROW, changed(lease, spec={"renewTime": RENEWED})), agent("c1"))
        assert await hub.get(LEASE_ROW, LEASE, "c1") is None

    async def test_a_lease_that_was_made_anew_is_another_one(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        lease = changed(await hub.lease("c1"), spec={"renewTime": RENEWED}, metadata={"resourceVersion": ""})
        await hub.admin.delete(LEASE_ROW.resource, LEASE, "c1")
        await hub.create_lease("c1")
        async with hub.serving() as services:
            with pytest.raises(Conflict):
                await send(services, LEASE_ROW, publish(LEASE_ROW, lease), agent("c1"))

    async def test_another_lease_of_the_namespace_is_not_the_agents(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        other = await hub.create_lease("c1", "other")
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match=LEASE):
                await send(services, LEASE_ROW, publish(LEASE_ROW, changed(other, spec={"renewTime": RENEWED})), agent("c1"))

    @pytest.mark.parametrize("when", [None, "", 5])
    async def test_a_renewal_without_a_time_is_invalid(self, hub: Hub, when: Any) -> None:
        await hub.create_cluster("c1")
        event = publish(LEASE_ROW, changed(await hub.lease("c1"), spec={"renewTime": when}))
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match="renewTime"):
                await send(services, LEASE_ROW, event, agent("c1"))


class TestEvents:
    def event(self, action: Action = CREATE, **fields: Any) -> CloudEvent:
        body = {
            "metadata": {"name": "e1", "namespace": "c1", "finalizers": ["a.example/b"]},
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingController": "agent",
            "reportingInstance": "a1",
            "action": "Act",
            "reason": "Reason",
            "type": "Normal",
            "note": "n",
            "regarding": {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"},
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            **fields,
        }
        return publish(EVENT_ROW, body, Subresource.SPEC, action)

    async def test_an_event_is_made_and_then_counted_on(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        series = {"count": 3, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}
        async with hub.serving() as services:
            await send(services, EVENT_ROW, self.event(), agent("c1"))
            made = await hub.admin.get(EVENT_ROW.resource, "e1", "c1")
            assert made["note"] == "n"
            assert "finalizers" not in made["metadata"]
            await send(services, EVENT_ROW, self.event(Action.UPDATE, series=series, note="forged"), agent("c1"))
        after = await hub.admin.get(EVENT_ROW.resource, "e1", "c1")
        assert after["series"] == series
        assert after["note"] == "n"

    async def test_one_that_the_hub_has_forgotten_is_nobodys_failure(self, hub: Hub) -> None:
        await hub.create_cluster("c1")
        async with hub.serving() as services:
            event = self.event(Action.UPDATE, series={"count": 3, "lastObservedTime": "2026-01-02T03:05:05.000000Z"})
            assert await send(services, EVENT_ROW, event, agent("c1")) is None
            with pytest.raises(InvalidEvent, match="series"):
                await send(services, EVENT_ROW, self.event(Action.UPDATE), agent("c1"))

    async def test_a_large_one_is_refused_before_it_is_read(self, hub: Hub) -> None:
        async with hub.serving() as services:
            hub.account.taken()
            with pytest.raises(StatusError) as refusal:
                await send(services, EVENT_ROW, self.event(note="x" * MOST_BYTES), agent("c1"))
            assert refusal.value.code == 413
            assert hub.account.taken() == []


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


class TestOutages:
    @pytest.mark.parametrize("case", range(len(payloads("c"))))
    async def test_a_hub_that_is_away_reaches_the_caller_as_the_error_it_is(self, hub: Hub, case: int) -> None:
        row, subresource, action, good = payloads("c1")[case]
        services = hub.idle()
        hub.account.outage = Unreachable("hub", "away")
        with pytest.raises(KubeError) as failure:
            await send(services, row, publish(row, good, subresource, action), agent("c1"))
        assert isinstance(failure.value, Unreachable)
