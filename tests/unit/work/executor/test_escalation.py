"""Works that hold roles and bindings give nobody more than their executor has."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from muster.runtime.auth.rbac import CLUSTER_ROLES, ROLES
from muster.runtime.client.errors import Forbidden
from muster.runtime.client.rest import JSON, Query
from muster.work.agent.interfaces import Manifest
from tests.unit.work.executor.conftest import FULL, GROUP, USER, E, Recording, Stage, account, manifest, rule, several

SECRETS = rule(("get",), "secrets")
READ = rule(("get",))


def role(name: str, *rules: Any, **options: Any) -> Manifest:
    return manifest(name, plural="roles", rules=list(rules), **options)


def binding(name: str, ref: str, kind: str = "Role", **options: Any) -> Manifest:
    reference = {"apiGroup": GROUP, "kind": kind, "name": ref}
    return manifest(name, plural="rolebindings", roleRef=reference, subjects=[account("anybody")], **options)


def managing(*more: Any, names: tuple[str, ...] = ()) -> list[Any]:
    return [rule(FULL, "roles,rolebindings", GROUP, names), rule(), *more]


@pytest.fixture
async def ready(stage: Stage) -> Stage:
    """The executor may write roles and bindings and manage ConfigMaps, and no more."""
    await stage.grant("app", *managing())
    return stage


async def test_a_role_with_rights_the_executor_lacks_is_escalation(ready: Stage) -> None:
    refusals = await ready.gate().check(E, [role("r", READ, SECRETS)], [])
    assert refusals[0].message == (
        "not allowed to apply the resource rbac.authorization.k8s.io roles, app r, error: permission escalation: "
        f'{USER} does not hold {{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}}'
    )
    assert refusals[0].verb == "escalate"


async def test_a_role_with_rights_the_executor_has_is_none(ready: Stage) -> None:
    assert await ready.gate().check(E, [role("r", READ)], []) == {}


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("strategy", ["Update", "CreateOnly", "ServerSideApply"])
async def test_by_whatever_strategy_more_rights_are_escalation(ready: Stage, strategy: str, owned: bool) -> None:
    asked = several(
        role("r", SECRETS, strategy=strategy, owned=owned),
        binding("b", "cluster-admin", "ClusterRole", strategy=strategy, owned=owned),
        role("fine", READ, strategy=strategy, owned=owned),
    )
    refusals = await ready.gate(strict=False).check(E, asked, [])
    assert {ordinal: refusal.verb for ordinal, refusal in refusals.items()} == {0: "escalate", 1: "escalate"}


async def test_a_role_that_exists_with_fewer_rules_changes_nothing_about_it(ready: Stage) -> None:
    await ready.role("app", "r", READ)
    assert set(await ready.gate().check(E, [role("r", READ, SECRETS)], [])) == {0}


async def test_a_role_that_somebody_else_made_alike_is_escalation_too(ready: Stage) -> None:
    # The server lets everybody write what is there already. The agent would restore it after an administrator took it back.
    await ready.role("app", "r", SECRETS)
    assert set(await ready.gate().check(E, [role("r", SECRETS)], [])) == {0}


async def test_whoever_may_escalate_writes_any_role(ready: Stage) -> None:
    await ready.grant("app", *managing(rule(("escalate",), "roles", GROUP)))
    assert await ready.gate().check(E, [role("r", SECRETS)], []) == {}


async def test_binding_a_stronger_role_is_escalation(ready: Stage) -> None:
    asked = [binding("b", "cluster-admin", "ClusterRole")]
    refusals = await ready.gate().check(E, asked, [])
    assert "permission escalation" in refusals[0].message
    await ready.grant("app", *managing(rule(("bind",), "clusterroles", GROUP, ("cluster-admin",))))
    assert await ready.gate().check(E, asked, []) == {}


async def test_a_role_and_its_binding_in_one_work_are_judged_by_the_roles_rules(ready: Stage) -> None:
    assert await ready.gate().check(E, several(role("r", READ), binding("b", "r")), []) == {}
    refusals = await ready.gate(strict=False).check(E, several(role("r", SECRETS), binding("b", "r")), [])
    assert set(refusals) == {0, 1}


@pytest.mark.parametrize("strategy", ["Update", "CreateOnly", "ServerSideApply"])
async def test_a_weak_role_in_the_work_does_not_hide_a_strong_one_of_its_name(ready: Stage, strategy: str) -> None:
    await ready.role("app", "strong", SECRETS)
    work = several(role("strong", READ, strategy="CreateOnly"), binding("b", "strong", strategy=strategy))
    refusals = await ready.gate(strict=False).check(E, work, [])
    assert 1 in refusals


async def test_a_role_that_nobody_knows_cannot_be_judged(ready: Stage) -> None:
    refusals = await ready.gate().check(E, [binding("b", "nowhere")], [])
    assert refusals[0].failure
    assert "the role that it binds does not exist" in refusals[0].message


async def test_names_in_the_executors_role_do_not_look_like_escalation(stage: Stage) -> None:
    await stage.grant("app", rule(FULL, "roles", GROUP, ("r1",)))
    assert await stage.gate().check(E, [role("r1")], []) == {}


async def test_a_role_that_gathers_others_needs_everything(stage: Stage) -> None:
    await stage.grant("", rule(FULL, "clusterroles", GROUP))
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    asked = [manifest("sum", plural="clusterroles", aggregationRule=aggregation)]
    assert "permission escalation" in (await stage.gate().check(E, asked, []))[0].message
    await stage.bind("", "cluster-admin")
    assert await stage.gate().check(E, asked, []) == {}


async def test_roles_that_are_only_read_grant_nothing(ready: Stage) -> None:
    assert await ready.gate().check(E, [role("r", SECRETS, strategy="ReadOnly")], []) == {}


async def test_a_role_for_a_namespace_that_the_work_itself_brings_is_judged_too(stage: Stage) -> None:
    await stage.grant("", *managing(rule(FULL, "namespaces")))
    new = manifest("new", plural="namespaces")
    good = manifest("r", "new", "roles", rules=[READ])
    bad = manifest("r", "new", "roles", rules=[SECRETS])
    assert await stage.gate().check(E, several(new, good), []) == {}
    assert set(await stage.gate(strict=False).check(E, several(new, bad), [])) == {1}


async def test_a_rehearsal_is_remembered_until_the_manifest_or_rbac_changes(ready: Stage) -> None:
    gate = ready.gate()
    for _ in range(3):
        assert await gate.check(E, [role("r", READ)], []) == {}
    await gate.check(E, [role("r", READ, rule(("patch",)))], [])
    # As it would be sent.
    assert [method for method, path in ready.recording.writes if "/roles" in path] == ["POST", "POST"]
    # Nothing was written by it.
    assert [one["metadata"]["name"] for one in (await ready.admin.list(ROLES, "app")).items] == ["grant"]


ONLY_CREATING = ("create", "get", "delete")


@pytest.mark.parametrize(
    ("verbs", "names", "rehearsed"),
    [(ONLY_CREATING, (), ["POST"]), (ONLY_CREATING, ("r",), []), (FULL, ("r",), ["PATCH"]), (FULL, (), ["POST"])],
)
async def test_what_is_created_is_rehearsed_in_a_way_that_the_executor_has(
    stage: Stage, verbs: tuple[str, ...], names: tuple[str, ...], rehearsed: list[str]
) -> None:
    await stage.grant("app", rule(verbs, "roles", GROUP, names), READ)
    assert await stage.gate().check(E, [role("r", READ, strategy="CreateOnly")], []) == {}
    assert [method for method, path in stage.recording.writes if "/roles" in path] == rehearsed


async def test_a_right_to_escalate_certain_names_is_not_lost_to_a_creation_without_name(ready: Stage) -> None:
    await ready.grant("app", *managing(rule(("escalate",), "roles", GROUP, ("r",))))
    assert await ready.gate().check(E, [role("r", SECRETS)], []) == {}
    assert set(await ready.gate().check(E, [role("other", SECRETS)], [])) == {0}


async def test_what_would_not_be_written_is_not_rehearsed(ready: Stage) -> None:
    await ready.role("app", "r", READ)
    gate = ready.gate()
    assert await gate.check(E, [role("r", READ, owned=False)], []) == {}
    assert [path for _, path in ready.recording.writes if "/roles" in path] == []


async def agent_without(stage: Stage, *rules: Any) -> Any:
    await stage.admin.create(CLUSTER_ROLES, {"metadata": {"name": "agent"}, "rules": list(rules)})
    await stage.bind("", "agent", {"kind": "User", "apiGroup": GROUP, "name": "agent"})
    return stage.as_agent("agent")


REVIEWING = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"]}
FOLLOWING = {"verbs": ["get", "list", "watch"], "apiGroups": [GROUP], "resources": ["*"]}
IMPERSONATING = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]}


async def test_an_agent_that_may_not_impersonate_decides_by_the_rules(ready: Stage) -> None:
    client = await agent_without(ready, REVIEWING, FOLLOWING)
    gate = ready.gate(client, strict=False)
    assert set(await gate.check(E, several(role("r1", READ), role("r2", SECRETS)), [])) == {1}


async def test_an_agent_that_may_not_follow_rbac_decides_by_the_rehearsal(ready: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 0.05)
    client = await agent_without(ready, REVIEWING, IMPERSONATING)
    refusals = await ready.gate(client, strict=False).check(E, several(role("r1", READ), role("r2", SECRETS)), [])
    assert set(refusals) == {1}
    assert "permission escalation" in refusals[1].message


async def test_an_agent_that_may_neither_refuses(ready: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 0.05)
    client = await agent_without(ready, REVIEWING)
    refusals = await ready.gate(client).check(E, [role("r1", READ)], [])
    assert refusals[0].failure
    assert "RBAC cannot be followed, and the work agent may not impersonate" in refusals[0].message


async def test_a_server_that_hears_later_of_a_change_is_asked_again(ready: Stage) -> None:
    stale = [2]

    class Late(Recording):
        async def exchange(
            self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            if query.get("dryRun") and stale[0]:
                stale[0] -= 1
                raise Forbidden(403, "Forbidden", "not yet", {"kind": "roles"})
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    client = Late(ready.server.client(ready.cluster))
    assert await ready.gate(client).check(E, [role("r", READ)], []) == {}
    assert stale == [0]


async def test_what_the_server_refuses_for_its_own_reasons_is_told(ready: Stage, settled: None) -> None:
    class Policed(Recording):
        async def exchange(
            self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            if query.get("dryRun"):
                raise Forbidden(403, "Forbidden", "a policy forbids it", {"kind": "roles"})
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    refusals = await ready.gate(Policed(ready.server.client(ready.cluster))).check(E, [role("r", READ)], [])
    assert refusals[0].message.endswith(f"error: the cluster refuses it to {USER}: a policy forbids it")


AGGREGATED = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}


def labelled(name: str, plural: str, labels: dict[str, str], **content: Any) -> Manifest:
    one = manifest(name, plural=plural, **content)
    return replace(one, document={**one.document, "metadata": {**one.document["metadata"], "labels": labels}})


async def test_a_role_that_is_only_labelled_counts_with_the_rules_it_has(stage: Stage) -> None:
    # Whoever has it gathered into another role gives its rules away.
    await stage.grant("", rule(FULL, "clusterroles", GROUP))
    await stage.role("", "strong", SECRETS)
    client = await agent_without(stage, REVIEWING, FOLLOWING)
    applied = labelled("strong", "clusterroles", AGGREGATED, strategy="ServerSideApply")
    refusals = await stage.gate(client).check(E, [applied], [])
    assert "permission escalation" in refusals[0].message
    # By this strategy a role has no rules but those that are said: they go.
    assert await stage.gate(client).check(E, [labelled("strong", "clusterroles", AGGREGATED)], []) == {}
    assert await stage.gate(client).check(E, [labelled("new", "clusterroles", AGGREGATED)], []) == {}


async def test_a_rehearsal_of_a_role_that_was_weak_does_not_count_once_it_is_strong(stage: Stage) -> None:
    await stage.grant("", rule(FULL, "clusterroles", GROUP))
    await stage.role("", "growing")
    gate, asked = stage.gate(), [labelled("growing", "clusterroles", AGGREGATED, strategy="ServerSideApply")]
    assert await gate.check(E, asked, []) == {}
    await stage.role("", "growing", SECRETS)
    async with asyncio.timeout(10):
        while not (refusals := await gate.check(E, asked, [])):  # noqa: ASYNC110 - nobody tells when a cache has it
            await asyncio.sleep(0.01)
    assert "permission escalation" in refusals[0].message


async def test_a_role_that_gathers_others_is_not_written_without_everything(stage: Stage) -> None:
    await stage.grant("", rule(FULL, "clusterroles", GROUP))
    gathering = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    await stage.admin.create(CLUSTER_ROLES, {"metadata": {"name": "sum"}, "aggregationRule": gathering})
    client = await agent_without(stage, REVIEWING, FOLLOWING)
    refusals = await stage.gate(client).check(E, [labelled("sum", "clusterroles", {"x": "y"}, rules=[])], [])
    assert "permission escalation" in refusals[0].message
    # What is there already is not written by this strategy, whatever it gathers.
    assert await stage.gate(client).check(E, [labelled("sum", "clusterroles", {}, rules=[], strategy="CreateOnly")], []) == {}


@pytest.mark.parametrize("said", [{}, {"roleRef": {"name": "cluster-admin"}}, {"roleRef": {"kind": "ClusterRole"}}])
async def test_a_binding_that_does_not_say_what_it_binds_counts_with_what_it_does_bind(ready: Stage, said: Any) -> None:
    await ready.grant("app", *managing(rule(("bind",), "roles", GROUP)))
    await ready.bind("app", "cluster-admin", account("somebody"), name="admins", kind="ClusterRole")
    client = await agent_without(ready, REVIEWING, FOLLOWING)
    refusals = await ready.gate(client).check(E, [manifest("admins", plural="rolebindings", subjects=[account()], **said)], [])
    assert "permission escalation" in refusals[0].message


ODD_RULES: tuple[object, ...] = (
    *(5, "all", {"verbs": ["get"]}, [5], [{"verbs": 5}]),
    [{"verbs": [{}], "apiGroups": [""], "resources": ["pods"]}],
    [{"verbs": ["get"], "apiGroups": [[]], "resources": [{}], "resourceNames": [{}]}],
    [{"verbs": ["get"], "nonResourceURLs": [5]}],
    [{"verbs": "get", "apiGroups": {}, "resources": None}],
)


@pytest.mark.parametrize("rules", ODD_RULES)
async def test_rules_that_are_none_are_judged_and_stop_nobody(ready: Stage, rules: Any) -> None:
    asked = several(manifest("odd", plural="roles", rules=rules), manifest("cm"))
    refusals = await ready.gate(strict=False).check(E, asked, [])
    assert 1 not in refusals
    aggregated = manifest("odd", plural="roles", rules=rules, aggregationRule=rules)
    await ready.gate(strict=False).check(E, [aggregated, replace(binding("b", "odd"), ordinal=1)], [])


@pytest.mark.parametrize("odd", [{"labels": 5, "annotations": ["x"]}, {"labels": {"a": {}}, "finalizers": 5, "ownerReferences": 5}])
async def test_metadata_that_is_none_is_judged_and_stops_nobody(ready: Stage, odd: Any) -> None:
    plain = role("odd", READ)
    asked = replace(plain, document={**plain.document, "metadata": {**plain.document["metadata"], **odd}})
    refusals = await ready.gate(strict=False).check(E, several(asked, manifest("cm")), [])
    assert 1 not in refusals
