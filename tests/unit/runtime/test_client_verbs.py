"""The verbs do the same for documents and for typed kinds, and tell of a server what no object tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar

import pytest

from muster.api.cluster.v1 import ManagedCluster, ManagedClusterSpec
from muster.api.crds import HUB, definitions
from muster.api.resource import MalformedObject, ObjectMeta
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS
from muster.runtime.client.delegating_client import DelegatingClient
from muster.runtime.client.errors import Forbidden, KubeError, NotFound, StatusError
from muster.runtime.client.rest import JSON, Query
from muster.runtime.client.typed import gvr_of, served
from tests.unit.runtime.scripted import ScriptedClient


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, port=0))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture(params=["direct", "delegated"])
def client(server: ApiServer, request: pytest.FixtureRequest) -> KubeClient:
    direct = InProcessClient(server.client(server.clusters["default"]))
    return direct if request.param == "direct" else DelegatingClient(direct)


@pytest.fixture
async def hub(client: KubeClient) -> KubeClient:
    (definition,) = (one for one in definitions(HUB) if one["spec"]["names"]["kind"] == "ManagedCluster")
    await client.create(CRDS, definition)
    while not await _serves(client):  # noqa: ASYNC110  # nothing but asking tells
        await asyncio.sleep(0.01)
    return client


async def _serves(client: KubeClient) -> bool:
    try:
        return served(ManagedCluster) in await client.api_resources(ManagedCluster.resource.api_version)
    except NotFound:
        return False


def cluster(name: str) -> ManagedCluster:
    return ManagedCluster(metadata=ObjectMeta(name=name), spec=ManagedClusterSpec(hub_accepts_client=False))


async def test_objects_of_a_typed_kind_are_of_that_type(hub: KubeClient) -> None:
    made = await hub.create(ManagedCluster, cluster("c1"))
    assert isinstance(made, ManagedCluster)
    assert made.metadata.uid
    assert (await hub.get(ManagedCluster, "c1")).metadata.uid == made.metadata.uid
    patched = await hub.patch(ManagedCluster, "c1", {"spec": {"hubAcceptsClient": True}})
    assert patched.spec.hub_accepts_client
    applied = await hub.apply(ManagedCluster, {"metadata": {"name": "c2", "labels": {"a": "b"}}}, manager="test")
    assert applied.metadata.labels == {"a": "b"}
    updated = await hub.update(ManagedCluster, {**applied.document(), "spec": {"hubAcceptsClient": True}})
    assert updated.spec.hub_accepts_client
    listed = await hub.list(ManagedCluster)
    assert [one.metadata.name for one in listed.items] == ["c1", "c2"]
    await hub.delete(ManagedCluster, "c1")
    with pytest.raises(NotFound):
        await hub.get(ManagedCluster, "c1")


async def test_a_typed_object_is_applied_as_it_is(hub: KubeClient) -> None:
    applied = await hub.apply(ManagedCluster, cluster("c1"), manager="test")
    assert applied.metadata.name == "c1"


async def test_documents_stay_documents(hub: KubeClient) -> None:
    await hub.create(ManagedCluster, cluster("c1"))
    found = await hub.get(served(ManagedCluster), "c1")
    assert isinstance(found, dict)
    assert found["kind"] == "ManagedCluster"


async def test_an_event_of_a_watch_gives_its_object(hub: KubeClient) -> None:
    await hub.create(ManagedCluster, cluster("c1"))
    events = hub.watch(ManagedCluster, initial_events=True)
    async for event in events:
        assert event.type == "ADDED"
        assert event.object.metadata.name == "c1"
        break
    await events.aclose()


async def test_an_answer_that_the_type_cannot_hold_names_the_object() -> None:
    client = ScriptedClient()
    client.answers = [{"metadata": {"name": "c1", "labels": {"a": 1}}}]
    with pytest.raises(MalformedObject, match="ManagedCluster c1"):
        await client.get(ManagedCluster, "c1")


async def test_what_is_served_of_a_group_version_comes_without_subresources(client: KubeClient) -> None:
    assert CONFIG_MAPS in await client.api_resources("v1")
    assert not [one for one in await client.api_resources("v1") if "/" in one.plural]
    assert await client.api_versions("apps") == ["apps/v1"]
    with pytest.raises(NotFound):
        await client.api_resources("nobody.example.io/v1")


async def test_discovery_that_is_something_else_is_an_error_of_the_server() -> None:
    client = ScriptedClient()
    client.answers = [{"resources": [{"no": "name"}]}]
    with pytest.raises(StatusError, match="/apis/apps/v1"):
        await client.api_resources("apps/v1")


async def test_a_server_tells_its_version_and_that_it_is_well(client: KubeClient) -> None:
    assert (await client.server_version()).startswith("v1.")
    await client.check_health()


class Ailing(InProcessClient):
    """Answers the paths of health as it is told to; the others have no answer."""

    answers: dict[str, KubeError | None]

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        error = self.answers[path]
        if error is not None:
            raise error
        return b"ok"


@pytest.fixture
def ailing(server: ApiServer) -> Callable[[dict[str, KubeError | None]], Ailing]:
    def make(answers: dict[str, KubeError | None]) -> Ailing:
        made = Ailing(server.client(server.clusters["default"]))
        made.answers = answers
        return made

    return make


async def test_health_is_asked_for_by_its_old_name_where_the_new_one_does_not_answer(
    ailing: Callable[[dict[str, KubeError | None]], Ailing],
) -> None:
    await ailing({"/livez": Forbidden(403, "Forbidden", "no"), "/healthz": None}).check_health()
    with pytest.raises(StatusError, match="etcd"):
        await ailing({"/livez": StatusError(500, "", "etcd failed")}).check_health()


def test_what_is_no_kind_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="neither a GVR nor a kind"):
        gvr_of(ObjectMeta)  # type: ignore[arg-type]


class TestFieldValidation:
    """What the server does about a field that the kind does not have, by each verb that writes."""

    WRITES: ClassVar[dict[str, Callable[[KubeClient, Any], Awaitable[Any]]]] = {
        "create": lambda client, how: client.create(CONFIG_MAPS, _misspelt("new"), field_validation=how),
        "update": lambda client, how: client.update(CONFIG_MAPS, _misspelt("there"), field_validation=how),
        "patch": lambda client, how: client.patch(CONFIG_MAPS, "there", {"dta": {}}, "default", field_validation=how),
    }

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    async def test_strict_refuses_it_and_names_it(
        self, client: KubeClient, write: Callable[[KubeClient, Any], Awaitable[Any]]
    ) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "there", "namespace": "default"}})
        with pytest.raises(StatusError, match='strict decoding error: unknown field "dta"') as refused:
            await write(client, "Strict")
        assert refused.value.code in (400, 422)

    @pytest.mark.parametrize("how", ["", "Warn", "Ignore"])
    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    async def test_others_drop_it(self, client: KubeClient, write: Callable[[KubeClient, Any], Awaitable[Any]], how: str) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "there", "namespace": "default"}})
        assert "dta" not in await write(client, how)

    @pytest.mark.parametrize("wrapped", [False, True])
    async def test_it_is_a_word_of_the_query_and_left_out_where_nothing_is_said(self, wrapped: bool) -> None:
        scripted = ScriptedClient()
        scripted.answers = [{}] * 3
        client: KubeClient = DelegatingClient(scripted) if wrapped else scripted
        await client.create(CONFIG_MAPS, _misspelt("new"), field_validation="Strict")
        await client.apply(CONFIG_MAPS, _misspelt("new"), manager="me", field_validation="Ignore")
        await client.create(CONFIG_MAPS, _misspelt("new"))
        assert [query.get("fieldValidation") for query in scripted.asked] == ["Strict", "Ignore", None]


def _misspelt(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "dta": {"k": "v"}}
