"""What an agent may change of its own cluster."""

import pytest

from muster.api.agents import CLUSTER_SET_LABEL, DRIVER_ANNOTATION
from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.objects import Object
from muster.runtime.client.errors import Conflict, Forbidden, NotFound
from muster.transport.contract.rows import CLUSTERS
from tests.unit.transport.services.conftest import Hub, agent, data_of, publish, service_of, until
from tests.unit.transport.services.writes.verbs import changed, send, update


class TestOwnCluster:
    async def test_an_agent_tells_the_ways_to_its_api_server_in_one_request(self, hub: Hub) -> None:
        await hub.create_cluster("c1", annotations={"else": "s"}, labels={"env": "prod"})
        async with hub.serving() as services:
            hub.account.taken()
            after = await update(hub, services, spec={"managedClusterClientConfigs": [{"url": "https://a"}]})
            assert [method for method, _ in hub.account.taken()] == ["PUT"]
        assert after["spec"]["managedClusterClientConfigs"] == [{"url": "https://a"}]
        assert after["spec"]["hubAcceptsClient"] is True
        assert after["metadata"]["annotations"] == {"else": "s", DRIVER_ANNOTATION: "grpc"}
        assert after["metadata"]["labels"]["env"] == "prod"

    async def test_what_changes_nothing_is_not_written(self, hub: Hub) -> None:
        await hub.create_cluster("c1", annotations={DRIVER_ANNOTATION: "grpc"})
        async with hub.serving() as services:
            hub.account.taken()
            await update(hub, services)
            assert hub.account.taken() == []

    async def test_an_agent_may_leave_and_may_not_let_itself_in(self, hub: Hub) -> None:
        await hub.create_cluster("c1", accepted=True)
        async with hub.serving() as services:
            after = await update(hub, services, spec={"hubAcceptsClient": False})
            assert after["spec"]["hubAcceptsClient"] is False
            await until(lambda: data_of(service_of(services, CLUSTERS).list("c1")[0])["spec"]["hubAcceptsClient"] is False)
            with pytest.raises(Forbidden, match="HubAcceptsClient"):
                await update(hub, services, spec={"hubAcceptsClient": True})

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
                await update(hub, services, **parts)
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
                            await update(hub, services, **parts)
                    continue
                after = await update(hub, services, spec={"taints": taints}, metadata={"labels": {"env": "x"}})
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
