"""RBAC decided over informers: the server's answers, and who is told of a change."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube.rbac import Subject
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.auth.delegation import AccessReviewer
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RbacAuthorizer
from tests.support.rbac_truth import World, account, differences
from tests.unit.runtime.conftest import eventually

GROUP = "rbac.authorization.k8s.io"
READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
ROBOT = account("default", "robot")
GET = AccessAttributes("get", resource="configmaps", namespace="default", name="a")


@pytest.fixture
async def authorizer(client: InProcessClient) -> AsyncIterator[RbacAuthorizer]:
    made = RbacAuthorizer(client)
    running = asyncio.create_task(made.run())
    assert await made.synced(10)
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Told:
    """Collects whose rights changed."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self.subjects: set[Subject] = set()
        authorizer.on_change(self.subjects.update)

    async def of(self, *subjects: Subject) -> None:
        await eventually(lambda: self.subjects >= set(subjects), f"{subjects} of {self.subjects}")
        assert self.subjects == set(subjects)
        self.subjects.clear()


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "rules": list(rules)}


def binding(name: str, ref: str, *subjects: dict[str, Any], kind: str = "Role") -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": ref}
    return {"metadata": {"name": name, "namespace": "default"}, "roleRef": reference, "subjects": list(subjects)}


def robot(name: str = "robot") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "namespace": "default", "name": name}


def user(name: str) -> Subject:
    return "User", f"system:serviceaccount:default:{name}"


@pytest.mark.parametrize("seed", range(6))
async def test_random_questions_have_the_servers_answers(client: InProcessClient, authorizer: RbacAuthorizer, seed: int) -> None:
    world = World(client, Random(seed), f"truth{seed}")
    await world.prepare()
    reviewer = AccessReviewer(client)
    allowed = 0
    for _ in range(25):
        for _ in range(3):
            await world.change()
        asked = [world.question() for _ in range(20)]
        assert await differences(authorizer, reviewer, asked, 5.0) == []
        allowed += sum(authorizer.decide(*question).allowed for question in asked)
    assert 50 < allowed < 450, "the questions must be worth asking"


async def test_the_reason_is_the_servers(client: InProcessClient, authorizer: RbacAuthorizer) -> None:
    await client.create(ROLES, role("reader", READ))
    await client.create(ROLE_BINDINGS, binding("b", "reader", robot()))
    await eventually(lambda: authorizer.decide(ROBOT, GET).allowed)
    assert authorizer.decide(ROBOT, GET) == await AccessReviewer(client).review(ROBOT, GET)


async def test_whoever_gains_or_loses_by_a_binding_is_told(client: InProcessClient, authorizer: RbacAuthorizer) -> None:
    told = Told(authorizer)
    await client.create(ROLES, role("reader", READ))
    made = await client.create(ROLE_BINDINGS, binding("b", "reader", robot()))
    await told.of(user("robot"))
    # Taken away by an update: the one who lost is told as well as the one who gained, the one who stays is not.
    made["subjects"] = [robot("other"), {"kind": "Group", "apiGroup": GROUP, "name": "team"}]
    made = await client.update(ROLE_BINDINGS, made)
    await told.of(user("robot"), user("other"), ("Group", "team"))
    made["subjects"] = [robot("other")]
    await client.update(ROLE_BINDINGS, made)
    await told.of(("Group", "team"))
    await client.delete(ROLE_BINDINGS, "b", "default")
    await told.of(user("other"))


async def test_whoever_is_bound_to_a_role_is_told_when_its_rules_change(
    client: InProcessClient, authorizer: RbacAuthorizer
) -> None:
    told = Told(authorizer)
    await client.create(ROLE_BINDINGS, binding("b", "reader", robot()))
    await told.of(user("robot"))
    made = await client.create(ROLES, role("reader", READ))
    await told.of(user("robot"))
    made["metadata"]["labels"] = {"only": "a-label"}
    made = await client.update(ROLES, made)
    made["rules"] = [{**READ, "verbs": ["get", "list"]}]
    await client.update(ROLES, made)
    await told.of(user("robot"))
    await client.delete(ROLES, "reader", "default")
    await told.of(user("robot"))
    assert not authorizer.decide(ROBOT, GET).allowed


async def test_a_change_that_changes_nobodys_rights_tells_nobody(client: InProcessClient, authorizer: RbacAuthorizer) -> None:
    await client.create(ROLES, role("reader", READ))
    made = await client.create(ROLE_BINDINGS, binding("b", "reader", robot()))
    await eventually(lambda: authorizer.decide(ROBOT, GET).allowed)
    told = Told(authorizer)
    made["metadata"]["labels"] = {"only": "a-label"}
    await client.update(ROLE_BINDINGS, made)
    await client.create(ROLES, role("bound-by-nobody", READ))
    await client.create(ROLE_BINDINGS, binding("last", "reader", robot("last")))
    await told.of(user("last"))


async def test_rules_that_the_server_aggregates_count(client: InProcessClient, authorizer: RbacAuthorizer) -> None:
    told = Told(authorizer)
    selector = {"matchLabels": {"gather": "yes"}}
    await client.create(
        CLUSTER_ROLES, {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    )
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "sum"}
    await client.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [robot()]})
    await told.of(user("robot"))
    await client.create(CLUSTER_ROLES, {"metadata": {"name": "part", "labels": {"gather": "yes"}}, "rules": [READ]})
    await eventually(lambda: authorizer.decide(ROBOT, GET).allowed)
    await told.of(user("robot"))


async def test_who_may_not_list_roles_cannot_rely_on_answers(server: ApiServer) -> None:
    stranger = InProcessClient(server.client(server.clusters["default"], UserInfo("stranger", groups=("system:authenticated",))))
    authorizer = RbacAuthorizer(stranger)
    running = asyncio.create_task(authorizer.run())
    await eventually(lambda: authorizer.outage)
    assert not authorizer.followed
    assert not await authorizer.synced(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
