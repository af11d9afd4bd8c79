"""Who and what, asked of the cluster and remembered for a moment."""

import asyncio
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import GVR
from muster.runtime.auth.delegation import AccessReviewer, TokenReviewer
from muster.runtime.client.errors import Forbidden, KubeError, Unreachable
from muster.runtime.client.rest import JSON, Query
from tests.support.fake_clock import FakeClock

BINDINGS = GVR("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ACCOUNTS = GVR("v1", "serviceaccounts", "ServiceAccount")
SELF_REVIEWS = GVR("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SECRETS_OF_DEFAULT = AccessAttributes("get", resource="secrets", namespace="default", name="s")
ALICE = UserInfo("alice", groups=("system:authenticated",))


class Counting(InProcessClient):
    requests = 0
    failing = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.requests += 1
        await asyncio.sleep(0)
        if self.failing:
            raise Unreachable(self.server, "away")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


@pytest.fixture
def counting(client: InProcessClient) -> Counting:
    return Counting(client._client)


async def grant(client: InProcessClient, name: str, kind: str = "User") -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    await client.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


async def test_a_token_is_known_for_a_moment(client: InProcessClient, counting: Counting, clock: FakeClock) -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
    issued = await client.create(ACCOUNTS, {"spec": {}}, "default", name="robot", subresource="token")
    token = issued["status"]["token"]
    reviewer = TokenReviewer(counting, clock=clock)
    who = await reviewer.authenticate(token)
    assert who is not None
    assert who.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in who.groups
    assert await reviewer.authenticate(token) == who
    assert counting.requests == 1
    await clock.advance(11)
    await reviewer.authenticate(token)
    assert counting.requests == 2


async def test_an_unknown_token_is_nobody_and_an_empty_one_is_not_even_asked_for(counting: Counting, clock: FakeClock) -> None:
    reviewer = TokenReviewer(counting, clock=clock)
    assert await reviewer.authenticate("made up") is None
    assert await reviewer.authenticate("") is None
    assert counting.requests == 1


async def test_a_token_for_another_audience_is_nobody(client: InProcessClient, clock: FakeClock) -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
    issued = await client.create(ACCOUNTS, {"spec": {"audiences": ["gateway"]}}, "default", name="robot", subresource="token")
    token = issued["status"]["token"]
    assert await TokenReviewer(client, audiences=("gateway",), clock=clock).authenticate(token) is not None
    assert await TokenReviewer(client, audiences=("other",), clock=clock).authenticate(token) is None


async def test_permissions_are_those_of_the_cluster(client: InProcessClient, clock: FakeClock) -> None:
    await grant(client, "alice")
    reviewer = AccessReviewer(client, clock=clock)
    assert (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    assert not (await reviewer.authorize(UserInfo("bob"), SECRETS_OF_DEFAULT)).allowed
    assert not (await reviewer.authorize(ALICE, AccessAttributes("get", path="/metrics"))).allowed
    assert (await reviewer.authorize(UserInfo("x", groups=("system:masters",)), AccessAttributes("get", path="/metrics"))).allowed


async def test_a_grant_and_its_end_are_seen_when_the_memory_fades(client: InProcessClient, clock: FakeClock) -> None:
    reviewer = AccessReviewer(client, clock=clock)
    assert not (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    await grant(client, "alice")
    assert not (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    await clock.advance(5.1)
    assert (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    await client.delete(BINDINGS, "alice")
    await clock.advance(10.1)
    assert not (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed


async def test_many_who_ask_at_once_cost_one_request_even_if_one_goes_away(counting: Counting, clock: FakeClock) -> None:
    reviewer = AccessReviewer(counting, clock=clock)
    asking = [asyncio.create_task(reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()
    answers = await asyncio.gather(*asking[1:])
    assert len(answers) == 19
    assert counting.requests == 1


async def test_a_cluster_that_cannot_be_asked_is_an_error_that_is_not_remembered(counting: Counting, clock: FakeClock) -> None:
    reviewer = AccessReviewer(counting, clock=clock)
    counting.failing = True
    for _ in range(2):
        with pytest.raises(KubeError):
            await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)
    counting.failing = False
    assert not (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    assert counting.requests == 3


async def test_the_memory_is_bounded_and_forgets_the_least_recent(counting: Counting, clock: FakeClock) -> None:
    reviewer = AccessReviewer(counting, clock=clock, limit=3)
    people: list[Any] = [UserInfo(f"user-{number}") for number in range(4)]
    for who in [*people[:3], people[0], people[3]]:
        await reviewer.authorize(who, SECRETS_OF_DEFAULT)
    assert len(reviewer.cache) == 3
    before = counting.requests
    await reviewer.authorize(people[0], SECRETS_OF_DEFAULT)
    assert counting.requests == before
    await reviewer.authorize(people[1], SECRETS_OF_DEFAULT)
    assert counting.requests == before + 1


async def test_one_who_may_not_ask_gets_no_answer(server: ApiServer, clock: FakeClock) -> None:
    nobody = InProcessClient(server.client(server.clusters["default"], UserInfo("nobody")))
    with pytest.raises(KubeError):
        await AccessReviewer(nobody, clock=clock).authorize(ALICE, SECRETS_OF_DEFAULT)


async def test_a_client_in_the_process_acts_as_somebody_else_only_with_the_permission_to(
    server: ApiServer, client: InProcessClient
) -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
    await grant(client, "system:serviceaccounts:default", "Group")
    robot = client.as_user("system:serviceaccount:default:robot")
    review = await robot.create(SELF_REVIEWS, {})
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    assert (await robot.get(ACCOUNTS, "robot", "default"))["metadata"]["name"] == "robot"
    alice = InProcessClient(server.client(server.clusters["default"], UserInfo("alice", groups=("system:authenticated",))))
    with pytest.raises(Forbidden) as refused:
        await alice.as_user("system:serviceaccount:default:robot").get(ACCOUNTS, "robot", "default")
    assert refused.value.details["kind"] == "serviceaccounts"


async def test_a_question_of_any_length_is_asked_but_only_a_short_one_is_remembered(counting: Counting, clock: FakeClock) -> None:
    reviewer = AccessReviewer(counting, clock=clock)
    long = AccessAttributes("list", resource="secrets", label_selector="a" * 20_000)
    for _ in range(2):
        assert not (await reviewer.authorize(ALICE, long)).allowed
        assert not (await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)).allowed
    assert counting.requests == 3
    assert len(reviewer.cache) == 1
    assert (reviewer.cache.hits, reviewer.cache.misses) == (1, 1)


async def test_selectors_make_another_question_and_are_ignored_by_rbac(
    client: InProcessClient, counting: Counting, clock: FakeClock
) -> None:
    await grant(client, "alice")
    reviewer = AccessReviewer(counting, clock=clock)
    asked = AccessAttributes("list", resource="secrets", namespace="default")
    selecting = AccessAttributes("list", resource="secrets", namespace="default", field_selector="a=b", label_selector="!c")
    assert (await reviewer.authorize(ALICE, asked)).allowed
    assert (await reviewer.authorize(ALICE, selecting)).allowed
    assert counting.requests == 2


async def test_how_long_a_review_took_and_whether_it_was_answered_is_told(counting: Counting, clock: FakeClock) -> None:
    told: list[bool] = []
    reviewer = AccessReviewer(counting, clock=clock, reviewed=lambda seconds, answered: told.append(answered and seconds >= 0))
    await reviewer.authorize(ALICE, SECRETS_OF_DEFAULT)
    counting.failing = True
    with pytest.raises(Unreachable):
        await reviewer.authorize(ALICE, AccessAttributes("get", resource="pods"))
    assert told == [True, False]
