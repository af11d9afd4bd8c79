"""Where templates read: followed, directly, or from files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import ClassVar

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.policy.dependencies import DirectSource, FollowingSource, LocalSource
from muster.policy.resolver import ResolveError, Resolver
from muster.runtime.cache.selections import FollowedSelections, Selection
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import Forbidden, ServerFailure, Unreachable
from muster.runtime.client.restmapper import NoKindMatch, RESTMapper
from tests.support.in_process import serving

A, B, GONE = (Selection(CONFIG_MAPS, "default", name) for name in ("a", "b", "gone"))


def config_map(name: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": labels, "managedFields": []}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": name}}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default") as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> InProcessClient:
    made = InProcessClient(server.client(server.clusters["default"]))
    for name in ("b", "a"):
        await made.create(CONFIG_MAPS, config_map(name, team="x"))
    return made


def nobody(server: ApiServer) -> InProcessClient:
    """Somebody without any rights."""
    return InProcessClient(server.client(server.clusters["default"], UserInfo("nobody", groups=("system:authenticated",))))


@asynccontextmanager
async def following(client: InProcessClient) -> AsyncIterator[FollowedSelections]:
    selections = FollowedSelections(client)
    task = asyncio.create_task(selections.run())
    try:
        yield selections
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class TestFollowing:
    async def test_a_run_that_went_well_leaves_exactly_what_it_read_followed(self, client: InProcessClient) -> None:
        async with following(client) as selections:
            for reads, expected in (((A, GONE), {A, GONE}), ((B,), {B}), ((), set())):
                source = FollowingSource(selections, RESTMapper(client), "policy")
                for selection in reads:
                    await source.read(selection)
                source.commit()
                assert selections.selections_of("policy") == expected

    async def test_a_run_that_failed_drops_nothing(self, client: InProcessClient) -> None:
        async with following(client) as selections:
            for selection in (A, B):
                source = FollowingSource(selections, RESTMapper(client), "policy")
                await source.read(selection)
                source.keep()
            assert selections.selections_of("policy") == {A, B}

    async def test_a_template_that_fails_half_way_has_said_what_it_read(self, client: InProcessClient) -> None:
        template = (
            '{{ fromConfigMap "default" "a" "k" }}{{ fromConfigMap "default" "gone" "k" }}{{ fromConfigMap "default" "b" "k" }}'
        )
        async with following(client) as selections:
            source = FollowingSource(selections, RESTMapper(client), "policy")
            with pytest.raises(ResolveError):
                await Resolver().resolve({"v": template}, source)
            source.keep()
            assert source.selections == selections.selections_of("policy") == {A, GONE}

    async def test_a_refusal_says_which_rights_are_needed(self, server: ApiServer) -> None:
        client = nobody(server)
        labelled = Selection(CONFIG_MAPS, "default", "", "team=x")
        async with following(client) as selections:
            source = FollowingSource(selections, RESTMapper(client), "policy")
            with pytest.raises(Forbidden) as raised:
                await source.read(A)
            assert str(raised.value).startswith('configmaps "a" is forbidden: User "nobody" cannot list')
            assert str(raised.value).endswith(
                ": ensure the client has the list and watch permissions for the query: "
                "GroupVersion=v1, Kind=ConfigMap, Namespace=default, Name=a"
            )
            with pytest.raises(Forbidden, match="Name=, Selector=team=x"):
                await source.read(labelled)
            assert source.selections == {A, labelled}

    async def test_the_group_of_a_kind_that_does_not_exist_is_remembered(self, client: InProcessClient) -> None:
        async with following(client) as selections:
            source = FollowingSource(selections, RESTMapper(client), "policy")
            with pytest.raises(NoKindMatch):
                await source.mapping("example.com/v1", "Widget")
            assert source.absent_groups == {"example.com"}


class Failing(InProcessClient):
    async def api_resources(self, api_version: str) -> list[GVR]:
        raise ServerFailure(503, "ServiceUnavailable", "the load balancer has nobody")

    async def get(self, *_args: object, **_options: object) -> Object:  # type: ignore[override]
        await asyncio.Event().wait()
        raise AssertionError


class TestDirectly:
    async def test_objects_come_in_order_without_bookkeeping(self, client: InProcessClient) -> None:
        source = DirectSource(client, RESTMapper(client))
        everywhere = await source.read(Selection(CONFIG_MAPS, "", "", "team=x"))
        assert [obj["metadata"]["name"] for obj in everywhere] == ["a", "b"]
        (found,) = await source.read(A)
        assert found["data"] == {"k": "a"}
        assert "managedFields" not in found["metadata"]
        assert [obj["metadata"]["namespace"] for obj in await source.read(Selection(CONFIG_MAPS, "", "a"))] == ["default"]
        assert await source.read(GONE) == []

    async def test_cluster_scoped_objects_are_read_by_name(self, client: InProcessClient) -> None:
        source = DirectSource(client, RESTMapper(client))
        (found,) = await source.read(Selection(NAMESPACES, "", "default"))
        assert found["kind"] == "Namespace"

    async def test_a_group_that_cannot_be_asked_is_no_missing_kind(self, server: ApiServer) -> None:
        client = Failing(server.client(server.clusters["default"]))
        for source in (
            DirectSource(client, RESTMapper(client)),
            FollowingSource(FollowedSelections(client), RESTMapper(client), "p"),
        ):
            with pytest.raises(ServerFailure, match="nobody"):
                await source.mapping("example.com/v1", "Widget")

    async def test_a_server_that_does_not_answer_is_given_up(self, server: ApiServer) -> None:
        client = Failing(server.client(server.clusters["default"]))
        source = DirectSource(client, RESTMapper(client), timeout=0.01)
        with pytest.raises(Unreachable, match=r"no answer within 0\.01 s"):
            await source.read(A)


class TestLocally:
    DEFINITION: ClassVar[Object] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Gadget", "plural": "gadgetz"},
            "versions": [{"name": "v1"}],
        },
    }
    POLICY: ClassVar[Object] = {"apiVersion": "example.com/v1", "kind": "Policy", "metadata": {"name": "p", "namespace": "n"}}

    async def test_kinds_are_those_of_kubernetes_and_ocm_and_of_the_objects(self) -> None:
        source = LocalSource([self.DEFINITION, self.POLICY])
        assert await source.mapping("v1", "ConfigMap") == CONFIG_MAPS
        assert (await source.mapping("cluster.open-cluster-management.io/v1", "ManagedCluster")).plural == "managedclusters"
        assert await source.mapping("example.com/v1", "Gadget") == GVR("example.com/v1", "gadgetz", "Gadget", False)
        assert await source.mapping("example.com/v1", "Policy") == GVR("example.com/v1", "policies", "Policy", True)
        with pytest.raises(NoKindMatch):
            await source.mapping("example.com/v1", "Widget")

    async def test_objects_are_selected_by_namespace_name_and_labels(self) -> None:
        source = LocalSource([config_map("b", team="x"), config_map("a", team="x"), config_map("c", team="y")])

        async def names(*selection: str) -> list[str]:
            return [obj["metadata"]["name"] for obj in await source.read(Selection(CONFIG_MAPS, *selection))]

        assert await names("default") == ["a", "b", "c"]
        assert await names("", "", "team=x") == ["a", "b"]
        assert await names("default", "c") == ["c"]
        assert await names("other") == []
