"""Kinds are found with few requests, a dead API hides no other, and new kinds are told of as soon as they are served."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR, Object
from muster.runtime.cache.restmapper import DynamicRESTMapper
from muster.runtime.client.builtin import API_SERVICES, CONFIG_MAPS, CRDS, NAMESPACES
from muster.runtime.client.errors import KubeError, ServerFailure, Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.client.restmapper import MISS_TTL, UNSERVED_TTL, NoKindMatch, RESTMapper
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import eventually
from tests.unit.runtime.dynamic.conftest import WIDGETS, Disturbed, definition, until_made


@asynccontextmanager
async def running(mapper: DynamicRESTMapper) -> AsyncIterator[list[str]]:
    told: list[str] = []
    mapper.on_change(told.append)
    task = asyncio.create_task(mapper.run())
    try:
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_group_version_is_asked_once_for_all_its_kinds(client: Disturbed) -> None:
    mapper = DynamicRESTMapper(client)
    assert mapper.known("v1", "ConfigMap") is None
    first, second = await asyncio.gather(mapper.mapping("v1", "ConfigMap"), mapper.mapping("v1", "Namespace"))
    assert (first, second) == (CONFIG_MAPS, NAMESPACES)
    assert await mapper.mapping("apps/v1", "Deployment") == GVR("apps/v1", "deployments", "Deployment")
    assert mapper.known("v1", "ConfigMap") == CONFIG_MAPS
    assert client.reads == ["/api/v1", "/apis/apps/v1"]


async def test_subresources_are_no_kinds_of_their_own(client: Disturbed) -> None:
    with pytest.raises(NoKindMatch):
        await DynamicRESTMapper(client).mapping("apps/v1", "Scale")


async def test_a_miss_says_what_is_missing_and_is_asked_again_only_after_a_while(client: Disturbed, clock: FakeClock) -> None:
    mapper = DynamicRESTMapper(client, clock=clock)
    for _ in range(3):
        with pytest.raises(NoKindMatch, match=r'^the server doesn\'t have a resource type "Widget"$'):
            await mapper.mapping("example.com/v1", "Widget")
    assert client.reads == ["/apis/example.com/v1"]
    await clock.advance(MISS_TTL)
    misses = await asyncio.gather(
        *(mapper.mapping("example.com/v1", kind) for kind in ("Widget", "Gadget")), return_exceptions=True
    )
    assert [type(miss) for miss in misses] == [NoKindMatch, NoKindMatch]
    assert len(client.reads) == 2


@pytest.mark.parametrize("api_version", ["", "/", "a/b/c", "../../api/v1", "apps/v1?x=y", "Apps/v1", "apps/", "v1\n"])
async def test_what_cannot_be_a_group_version_is_not_asked_for(client: Disturbed, api_version: str) -> None:
    with pytest.raises(NoKindMatch):
        await DynamicRESTMapper(client).mapping(api_version, "ConfigMap")
    assert client.reads == []


def api_service(group: str) -> Object:
    return {
        "apiVersion": API_SERVICES.api_version,
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "nobody", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    }


async def test_a_dead_api_says_so_and_hides_no_other(admin: InProcessClient, client: Disturbed) -> None:
    await admin.create(API_SERVICES, api_service("dead.example.com"))
    mapper = DynamicRESTMapper(client)
    with pytest.raises(NoKindMatch, match=r"Ghost.*discovery of dead\.example\.com/v1 failed"):
        await mapper.mapping("dead.example.com/v1", "Ghost")
    assert await mapper.mapping("v1", "ConfigMap") == CONFIG_MAPS


class Aggregated(Disturbed):
    """Serves an API that comes late."""

    late: bytes = b""

    @property
    def followed_services(self) -> int:
        return sum(path.endswith("/apiservices") for path, _ in self.watches)

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if path == "/apis/late.example.com/v1" and self.late:
            return self.late
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


async def test_aggregated_apis_are_followed_from_the_first_miss_on(admin: InProcessClient, client: Disturbed) -> None:
    served = Aggregated(client._client)
    mapper = DynamicRESTMapper(served, aggregated_on_miss=True)
    late = {"name": "lates", "kind": "Late", "namespaced": True, "verbs": ["get"]}

    async with running(mapper) as told:
        await mapper.mapping("v1", "ConfigMap")
        await eventually(lambda: all(source.has_synced for source in mapper._sources))
        assert served.followed_services == 0
        with pytest.raises(NoKindMatch):
            await mapper.mapping("late.example.com/v1", "Late")
        await eventually(lambda: served.followed_services == 1)
        await admin.create(API_SERVICES, api_service("late.example.com"))
        served.late = json.dumps({"kind": "APIResourceList", "groupVersion": "late.example.com/v1", "resources": [late]}).encode()
        # The server itself says otherwise right after that; a watch sees both.
        ready = {"type": "Available", "status": "True", "reason": "Passed", "message": "all checks passed"}
        await admin.patch(API_SERVICES, "v1.late.example.com", {"status": {"conditions": [ready]}}, subresource="status")
        await eventually(lambda: "late.example.com" in told)
        assert await mapper.mapping("late.example.com/v1", "Late") == GVR("late.example.com/v1", "lates", "Late")


class Away(Disturbed):
    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        raise Unreachable("managed", "no route to host")


async def test_a_cluster_that_is_away_is_no_cluster_without_kinds(client: Disturbed) -> None:
    with pytest.raises(Unreachable):
        await DynamicRESTMapper(Away(client._client)).mapping("v1", "ConfigMap")


class Failing(Disturbed):
    """Answers questions for kinds with the next of `failures`, once `go` is set."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.failures: list[KubeError] = []
        self.go = asyncio.Event()

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        await self.go.wait()
        if self.failures:
            self.reads.append(path)
            raise self.failures.pop(0)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


@pytest.fixture
def failing(client: Disturbed) -> Failing:
    return Failing(client._client)


UNAVAILABLE = ServerFailure(503, "ServiceUnavailable", "starting")


async def test_an_answer_that_is_a_failure_is_told_apart_from_no_such_kind_and_not_remembered(failing: Failing) -> None:
    failing.go.set()
    failing.failures = [UNAVAILABLE]
    mapper = RESTMapper(failing)
    with pytest.raises(NoKindMatch) as unknown:
        await mapper.mapping("v1", "ConfigMap")
    assert unknown.value.error is UNAVAILABLE
    assert await mapper.mapping("v1", "ConfigMap") == CONFIG_MAPS
    with pytest.raises(NoKindMatch) as absent:
        await mapper.mapping("v1", "Nothing")
    assert absent.value.error is None


@pytest.mark.parametrize("failure", [UNAVAILABLE, Unreachable("managed", "no route to host")])
async def test_a_failure_is_told_to_all_who_waited_for_it_and_asked_for_again_by_who_comes_later(
    failing: Failing, failure: KubeError
) -> None:
    failing.failures = [failure] * 3
    mapper = RESTMapper(failing)
    waiting = [asyncio.create_task(mapper.mapping("v1", "ConfigMap")) for _ in range(3)]
    await settle()
    failing.go.set()
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {NoKindMatch if failure is UNAVAILABLE else Unreachable}
    assert len(failing.reads) == 1
    failing.failures.clear()
    assert await mapper.mapping("v1", "ConfigMap") == CONFIG_MAPS


async def test_a_question_takes_no_longer_than_its_timeout(failing: Failing, clock: FakeClock) -> None:
    asking = asyncio.create_task(RESTMapper(failing, clock=clock, timeout=5).mapping("v1", "ConfigMap"))
    await clock.advance(5)
    assert isinstance(asking.exception(), Unreachable)


async def test_a_new_kind_is_told_of_when_it_is_served_and_found_without_asking_again(
    admin: InProcessClient, client: Disturbed
) -> None:
    mapper = DynamicRESTMapper(client)
    async with running(mapper) as told:
        with pytest.raises(NoKindMatch):
            await mapper.mapping("example.com/v1", "Widget")
        await admin.create(CRDS, definition())
        await eventually(lambda: told == ["example.com"])
        client.reads.clear()
        assert await mapper.mapping("example.com/v1", "Widget") == WIDGETS
        assert client.reads == []


async def test_versions_that_are_not_served_are_forgotten_when_nobody_asks_any_more(client: Disturbed, clock: FakeClock) -> None:
    mapper = DynamicRESTMapper(client, clock=clock)
    await mapper.mapping("v1", "ConfigMap")
    for number in range(100):
        with pytest.raises(NoKindMatch):
            await mapper.mapping(f"made.up{number}/v1", "Nothing")
    await clock.advance(UNSERVED_TTL / 2)
    with pytest.raises(NoKindMatch):
        await mapper.mapping("made.up7/v1", "Nothing")
    await clock.advance(UNSERVED_TTL / 2)
    with pytest.raises(NoKindMatch):
        await mapper.mapping("another/v1", "Nothing")
    assert mapper._listings.keys() == {"v1", "made.up7/v1", "another/v1"}
    assert mapper.known("v1", "ConfigMap") == CONFIG_MAPS


async def test_a_kind_that_went_is_told_of_and_found_no_longer(admin: InProcessClient, client: Disturbed) -> None:
    mapper = DynamicRESTMapper(client)
    async with running(mapper) as told:
        with pytest.raises(NoKindMatch):
            await mapper.mapping("example.com/v1", "Widget")
        await admin.create(CRDS, definition())
        await eventually(lambda: told == ["example.com"])
        await admin.delete(CRDS, "widgets.example.com")
        await eventually(lambda: told == ["example.com"] * 2)
        assert mapper.known("example.com/v1", "Widget") is None


async def test_definitions_that_nobody_uses_are_nobodys_news(admin: InProcessClient, client: Disturbed) -> None:
    mapper = DynamicRESTMapper(client)
    async with running(mapper) as told:
        await mapper.mapping("v1", "ConfigMap")
        await admin.create(CRDS, definition())
        other = definition()
        other["metadata"]["name"] = "gadgets.used.com"
        other["spec"] |= {"group": "used.com", "names": {"plural": "gadgets", "kind": "Gadget"}}
        with pytest.raises(NoKindMatch):
            await mapper.mapping("used.com/v1", "Gadget")
        await admin.create(CRDS, other)
        await eventually(lambda: told)
        assert told == ["used.com"]
        assert "/apis/example.com/v1" not in client.reads


async def test_the_first_sight_of_definitions_in_use_is_no_news(admin: InProcessClient, client: Disturbed) -> None:
    await until_made(admin, CRDS, definition())
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}}
    await until_made(admin, WIDGETS, widget)
    probe = DynamicRESTMapper(client)
    await probe.mapping("example.com/v1", "Widget")
    async with running(probe) as told:
        await eventually(lambda: all(source.has_synced for source in probe._sources))
        await asyncio.sleep(0.05)
        assert told == []
