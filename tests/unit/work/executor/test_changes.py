"""Permissions that change: who is told, and that no answer from before a change is taken for one from after it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import pytest

from muster.api.work.v1 import ExecutorServiceAccount
from muster.runtime.auth.rbac import CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.rest import JSON, Query
from muster.work.agent.interfaces import Manifest
from tests.support.gates import LoneGate
from tests.unit.work.executor.conftest import FULL, USER, E, Recording, Stage, account, group, manifest, rule, several

OTHER = ExecutorServiceAccount(namespace="other-ns", name="exec2")


class Told:
    def __init__(self, gate: LoneGate) -> None:
        self.accounts: list[ExecutorServiceAccount] = []
        self.news = asyncio.Event()
        gate.on_change(self._note)

    def _note(self, who: ExecutorServiceAccount) -> None:
        self.accounts.append(who)
        self.news.set()

    async def within(self, seconds: float) -> list[ExecutorServiceAccount]:
        async with asyncio.timeout(seconds):
            await self.news.wait()
        self.news.clear()
        told, self.accounts = self.accounts, []
        return told


async def verdict(gate: LoneGate, asked: list[Manifest]) -> bool:
    return await gate.check(E, asked, []) == {}


async def grant_role_binding(stage: Stage) -> None:
    await stage.grant("app", rule())


async def grant_cluster_role_binding(stage: Stage) -> None:
    await stage.grant("", rule())


async def grant_cluster_role_in_namespace(stage: Stage) -> None:
    await stage.bind("app", "admin", kind="ClusterRole")


async def grant_group(stage: Stage) -> None:
    await stage.grant("app", rule(), to=group("system:serviceaccounts:sa-ns"))


async def grant_by_rules(stage: Stage) -> None:
    await stage.role("app", "empty", rule())


async def grant_by_subject(stage: Stage) -> None:
    await stage.bind("app", "granted", account("somebody-else"), account(), name="existing")


async def grant_by_aggregation(stage: Stage) -> None:
    metadata = {"name": "part", "labels": {"gather": "yes"}}
    await stage.put(CLUSTER_ROLES, {"metadata": metadata, "rules": [rule()]})


@pytest.mark.parametrize(
    "grant",
    [
        grant_role_binding,
        grant_cluster_role_binding,
        grant_cluster_role_in_namespace,
        grant_group,
        grant_by_rules,
        grant_by_subject,
        grant_by_aggregation,
    ],
)
async def test_whatever_way_permission_is_given_the_executor_is_told_and_allowed(stage: Stage, grant: Any) -> None:
    await stage.grant("app", name="empty")
    await stage.role("app", "granted", rule())
    await stage.bind("app", "granted", account("somebody-else"), name="existing")
    selector = {"matchLabels": {"gather": "yes"}}
    sum_role = {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    await stage.put(CLUSTER_ROLES, sum_role)
    await stage.bind("", "sum")
    gate = stage.gate()
    told, asked = Told(gate), [manifest("cm1")]
    assert not await verdict(gate, asked)
    await grant(stage)
    assert E in await told.within(20)
    assert await verdict(gate, asked)


async def revoke_binding(stage: Stage) -> None:
    await stage.revoke("app")


async def revoke_role(stage: Stage) -> None:
    await stage.admin.delete(ROLES, "grant", "app")


async def revoke_by_rules(stage: Stage) -> None:
    await stage.role("app", "grant", rule(FULL[:-1]))


async def revoke_by_subject(stage: Stage) -> None:
    await stage.bind("app", "grant", account("somebody-else"), name="grant")


@pytest.mark.parametrize("review_all", [False, True])
@pytest.mark.parametrize("revoke", [revoke_binding, revoke_role, revoke_by_rules, revoke_by_subject])
async def test_whatever_way_permission_is_taken_the_executor_is_told_and_refused(
    stage: Stage, revoke: Any, review_all: bool
) -> None:
    await stage.grant("app", rule())
    gate = stage.gate(review_all=review_all)
    told, asked = Told(gate), [manifest("cm1")]
    assert await verdict(gate, asked)
    await revoke(stage)
    assert await told.within(20) == [E]
    assert not await verdict(gate, asked)


async def test_what_changed_before_rbac_was_taken_in_is_told_when_it_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # A cluster with very many bindings, or a slow one.
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 0.05)
    ready = asyncio.Event()
    pages, lines = stage.recording.exchange, stage.recording.lines

    async def exchange(method: str, path: str, *arguments: Any, **options: Any) -> bytes:
        if method == "GET" and path.endswith("/rolebindings"):
            await ready.wait()
        return await pages(method, path, *arguments, **options)

    async def slow_lines(path: str, *arguments: Any) -> AsyncGenerator[bytes, None]:
        if path.endswith("/rolebindings"):
            await ready.wait()
        async for line in lines(path, *arguments):
            yield line

    monkeypatch.setattr(stage.recording, "exchange", exchange)
    monkeypatch.setattr(stage.recording, "lines", slow_lines)
    gate = stage.gate()
    told, asked = Told(gate), [manifest("cm1")]
    assert not await verdict(gate, asked)
    await stage.grant("app", rule())
    ready.set()
    assert await told.within(20) == [E]
    assert await verdict(gate, asked)


async def test_a_change_that_touches_somebody_else_costs_and_tells_nothing(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate = stage.gate()
    told, asked = Told(gate), [manifest("cm1")]
    assert await verdict(gate, asked)
    assert await gate.check(OTHER, asked, []) != {}
    reviews = len(stage.recording.reviews)
    await stage.grant("app", rule(), to=account("exec2", "other-ns"), name="another")
    assert await told.within(20) == [OTHER]
    assert await verdict(gate, asked)
    assert len(stage.recording.reviews) == reviews


async def test_many_changes_at_once_are_told_once(stage: Stage) -> None:
    gate = stage.gate()
    told = Told(gate)
    assert not await verdict(gate, [manifest("cm1")])
    for index in range(20):
        await stage.grant("app", rule(names=(f"n{index}",)), name=f"g{index}")
    assert await told.within(20) == [E]
    with pytest.raises(TimeoutError):
        await told.within(0.5)


class Behind(Recording):
    """A server whose reviews have not heard of the last change yet."""

    stale: int = 0
    answer_before: bool = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if path.endswith("/subjectaccessreviews") and self.stale:
            self.stale -= 1
            return orjson.dumps({"status": {"allowed": self.answer_before, "reason": "RBAC: allowed by what was"}})
        return answer


async def test_a_server_that_hears_later_of_a_change_is_asked_again(stage: Stage) -> None:
    client = Behind(stage.server.client(stage.cluster))
    gate = stage.gate(client)
    told, asked = Told(gate), several(*(manifest(f"cm{index}") for index in range(10)))
    assert not await verdict(gate, asked)
    await stage.grant("app", rule())
    await told.within(20)
    client.stale, client.answer_before = 2, False
    reviews = len(client.reviews)
    assert await verdict(gate, asked)
    # Asked again, but not about every object: that the answers differed for a moment is no doubt.
    assert len(client.reviews) - reviews == 5 + 2
    await stage.revoke("app")
    await told.within(20)
    client.stale, client.answer_before = 1, True
    assert not await verdict(gate, asked)


@pytest.mark.parametrize("review_all", [False, True])
async def test_an_answer_from_before_a_change_does_not_count_after_it(stage: Stage, review_all: bool) -> None:
    await stage.grant("app", rule())

    hold, asked_about = asyncio.Event(), asyncio.Event()

    class Slow(Recording):
        async def exchange(
            self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
            if path.endswith("/subjectaccessreviews") and body is not None and b'"delete"' in body:
                asked_about.set()
                await hold.wait()
            return answer

    client = Slow(stage.server.client(stage.cluster))
    gate = stage.gate(client, review_all=review_all)
    told = Told(gate)
    checking = asyncio.create_task(verdict(gate, [manifest("cm1")]))
    await asked_about.wait()
    await stage.revoke("app")
    await told.within(20)
    hold.set()
    assert not await checking
    assert not await verdict(gate, [manifest("cm1")])


async def test_what_other_authorizers_say_is_looked_at_again(stage: Stage, settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.runtime.auth.subject_access.SubjectAccess.ALLOWED_TTL", 0.2)
    client = stage.recording
    client.answer = lambda spec: {"allowed": True, "reason": "a webhook likes it"}
    gate = stage.gate()
    told, asked = Told(gate), [manifest("cm1")]
    assert await verdict(gate, asked)
    client.answer = lambda spec: {"allowed": False}
    assert await told.within(20) == [E]
    assert not await verdict(gate, asked)


async def test_subjects_of_a_binding_with_the_same_members_tell_nobody(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate = stage.gate()
    told = Told(gate)
    assert await verdict(gate, [manifest("cm1")])
    await stage.admin.patch(ROLE_BINDINGS, "grant", {"metadata": {"labels": {"a": "b"}}}, "app")
    await stage.grant("other", rule(), to=account("exec1"))
    assert await told.within(20) == [E]
    with pytest.raises(TimeoutError):
        await told.within(0.4)


async def test_permissions_that_do_not_stop_changing_are_no_permission(stage: Stage) -> None:
    await stage.grant("app", rule())

    class Restless(Recording):
        """Every review is overtaken by a change of permissions."""

        async def exchange(
            self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
            if path.endswith("/subjectaccessreviews"):
                await asyncio.sleep(0)
                gate._changed(frozenset({("User", USER)}))
            return answer

    gate = stage.gate(Restless(stage.server.client(stage.cluster)))
    refusals = await gate.check(E, [manifest("cm1")], [])
    assert refusals[0].failure
    assert "do not stop changing" in refusals[0].message
