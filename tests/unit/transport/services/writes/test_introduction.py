"""A cluster that comes for the first time: what it may say of itself, and what is marked."""

import pytest

from muster.api.agents import CLUSTER_SET_LABEL, DRIVER_ANNOTATION, REGISTER_GROUP
from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.objects import Object
from muster.runtime.client.errors import AlreadyExists, Forbidden, Unreachable
from muster.runtime.install import rule
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.rows import CLUSTERS
from tests.unit.transport.services.conftest import Hub, newcomer
from tests.unit.transport.services.writes.verbs import introduction, send


class TestIntroduction:
    async def test_a_newcomer_is_made_known_and_marked(self, hub: Hub) -> None:
        own = {"agent.open-cluster-management.io/site": "a"}
        event = introduction(metadata={"annotations": own}, managedClusterClientConfigs=[{"url": "https://a"}])
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
                await send(services, CLUSTERS, introduction(), newcomer("c1"))
            assert [method for method, _ in hub.account.taken()] == ["POST"]
        assert await hub.admin.get(CLUSTERS.resource, "c1") == before

    @pytest.mark.parametrize("running", [True, False])
    async def test_one_that_was_made_for_whoever_comes_is_marked_and_nothing_else_of_it_changes(
        self, hub: Hub, running: bool
    ) -> None:
        before = await hub.create_cluster("c1", accepted=True, annotations={"else": "s"}, labels={"env": "prod"})
        claims = {"annotations": {"agent.open-cluster-management.io/x": "y"}, "labels": {"env": "dev"}}
        async with hub.serving() as services:
            event = introduction(metadata=claims, managedClusterClientConfigs=[{"url": "https://a"}])
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
            await send(hub.idle(), CLUSTERS, introduction(), newcomer("c1"))
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
                await send(services, CLUSTERS, introduction(), newcomer("c1"))

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
                await send(services, CLUSTERS, introduction(metadata=metadata, **spec), newcomer("c1"))
        assert await hub.get(CLUSTERS, "c1") is None

    async def test_a_set_takes_the_right_to_join_it(self, hub: Hub) -> None:
        event = introduction(metadata={"labels": {CLUSTER_SET_LABEL: "prod"}})
        async with hub.serving() as services:
            with pytest.raises(Forbidden, match="ManagedClusterSet"):
                await send(services, CLUSTERS, event, newcomer("c1"))
            joining = rule("cluster.open-cluster-management.io", ["managedclustersets/join"], ["create"], ["prod"])
            await hub.allow("join", [joining], newcomer("c1").user.name)
            await send(services, CLUSTERS, event, newcomer("c1"))
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        assert cluster["metadata"]["labels"][CLUSTER_SET_LABEL] == "prod"

    async def test_with_the_gate_labels_take_the_right_to_accept(self, hub: Hub) -> None:
        event = introduction(metadata={"labels": {"env": "prod"}})
        async with hub.serving(rules=ClusterWriteRules(agent_restriction=True)) as services:
            with pytest.raises(Forbidden, match=r"metadata\.labels\[env\]"):
                await send(services, CLUSTERS, event, newcomer("c1"))
            await hub.allow("accept", [rule(REGISTER_GROUP, ["managedclusters/accept"], ["update"])], newcomer("c1").user.name)
            await send(services, CLUSTERS, event, newcomer("c1"))

    async def test_a_spec_that_cannot_be_read_is_invalid(self, hub: Hub) -> None:
        async with hub.serving() as services:
            with pytest.raises(InvalidEvent, match=r"spec\.taints"):
                await send(services, CLUSTERS, introduction(taints=[5]), newcomer("c1"))
