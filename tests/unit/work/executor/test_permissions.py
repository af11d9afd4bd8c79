"""Which manifests an executor may have applied, and how that is found out."""

import asyncio
from dataclasses import replace

import pytest

from muster.api.work.v1 import ExecutorServiceAccount, FeedbackRule
from muster.runtime.auth.rbac import CLUSTER_ROLES
from muster.runtime.client.errors import ServerFailure
from tests.unit.work.executor.conftest import FULL, USER, E, Stage, account, group, invalid_manifest, manifest, rule, several


async def test_an_executor_without_rights_is_refused_with_what_it_lacks(stage: Stage) -> None:
    refusals = await stage.gate().check(E, [manifest("cm1")], [])
    assert refusals[0].message == (
        f"not allowed to apply the resource  configmaps, app cm1, error: {USER} may not create, update, patch, get, delete it"
    )
    assert (refusals[0].verb, refusals[0].failure) == ("create", False)
    assert stage.recording.asked() == {"create": 1}


async def test_an_account_that_does_not_exist_may_what_is_bound_to_its_name(stage: Stage) -> None:
    await stage.grant("app", rule())
    assert await stage.gate().check(E, [manifest("cm1")], []) == {}


async def test_reviews_say_what_the_enhancement_says(stage: Stage) -> None:
    await stage.grant("app", rule())
    await stage.gate().check(E, [manifest("cm1")], [])
    assert [review["resourceAttributes"]["verb"] for review in stage.recording.reviews] == list(FULL)
    assert stage.recording.reviews[0] == {
        "user": USER,
        "groups": ["system:serviceaccounts", "system:authenticated", "system:serviceaccounts:sa-ns"],
        "resourceAttributes": {"verb": "create", "version": "v1", "resource": "configmaps", "namespace": "app", "name": "cm1"},
    }


async def test_one_review_per_verb_answers_for_all_objects_that_rbac_allows_alike(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate = stage.gate()
    works = [several(*(manifest(f"w{work}-{index}") for index in range(10))) for work in range(50)]
    assert await asyncio.gather(*(gate.check(E, work, []) for work in works)) == [{}] * 50
    assert stage.recording.asked() == dict.fromkeys(FULL, 1)
    assert await gate.check(E, works[0], []) == {}
    assert len(stage.recording.reviews) == 5


async def test_each_object_is_reviewed_where_that_is_wanted(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate = stage.gate(review_all=True)
    assert await gate.check(E, several(manifest("a"), manifest("b")), []) == {}
    assert stage.recording.asked() == dict.fromkeys(FULL, 2)


@pytest.mark.parametrize("verb", FULL)
async def test_a_single_missing_verb_is_named(stage: Stage, verb: str) -> None:
    await stage.grant("app", rule(tuple(one for one in FULL if one != verb)))
    refusals = await stage.gate().check(E, [manifest("cm1")], [])
    assert refusals[0].message.endswith(f"error: {USER} may not {verb} it")
    assert refusals[0].verb == verb


async def test_a_refusal_says_that_a_bound_role_is_missing(stage: Stage) -> None:
    await stage.bind("app", "gone")
    refusals = await stage.gate().check(E, [manifest("cm1")], [])
    assert refusals[0].message.endswith('delete it (RBAC: role.rbac.authorization.k8s.io "gone" not found)')


async def test_delete_is_needed_only_for_what_goes_with_the_work(stage: Stage) -> None:
    await stage.grant("app", rule(FULL[:-1]))
    gate = stage.gate(strict=False)
    refusals = await gate.check(E, several(manifest("kept", owned=False), manifest("cm2")), [])
    assert {ordinal: refusal.verb for ordinal, refusal in refusals.items()} == {1: "delete"}


@pytest.mark.parametrize(
    ("strategy", "verbs", "owned"),
    [("ReadOnly", ("get",), True), ("CreateOnly", ("create", "get", "delete"), True), ("CreateOnly", ("create", "get"), False)],
)
async def test_a_strategy_needs_the_verbs_it_takes(stage: Stage, strategy: str, verbs: tuple[str, ...], owned: bool) -> None:
    await stage.grant("app", rule(verbs))
    asked = [manifest("cm1", strategy=strategy, owned=owned)]
    assert await stage.gate().check(E, asked, []) == {}
    assert 0 in await stage.gate(every_verb=True).check(E, asked, [])
    await stage.grant("app", rule(verbs[:-1] or ("list",)))
    gate = stage.gate()
    assert 0 in await gate.check(E, asked, [])


async def test_one_refusal_withholds_the_whole_work(stage: Stage) -> None:
    await stage.grant("app", rule(names=("p1",)))
    refusals = await stage.gate().check(E, several(manifest("p1"), manifest("p2")), [])
    assert refusals[0].message == (
        "withheld because manifest 1 (configmaps app/p2) of the work is not allowed: "
        "with an executor a work is applied as a whole or not at all"
    )
    assert refusals[0].verb == ""
    assert refusals[1].verb == "create"


async def test_per_manifest_only_the_refused_are_held_back(stage: Stage) -> None:
    await stage.grant("app", rule(names=("p1",)))
    refusals = await stage.gate(strict=False).check(E, several(manifest("p1"), manifest("p2")), [])
    assert set(refusals) == {1}


async def test_a_manifest_that_fits_nowhere_withholds_the_others(stage: Stage) -> None:
    await stage.grant("app", rule())
    refusals = await stage.gate().check(E, [manifest("p1")], [invalid_manifest(1)])
    assert refusals[0].message.startswith("withheld because manifest 1 (Unknown x) of the work cannot be applied")
    assert await stage.gate(strict=False).check(E, [manifest("p1")], [invalid_manifest(1)]) == {}


async def test_names_in_a_role_count(stage: Stage) -> None:
    await stage.grant("app", rule(names=("cm1", "cm3")))
    refusals = await stage.gate(strict=False).check(E, several(manifest("cm1"), manifest("cm2"), manifest("cm3")), [])
    assert set(refusals) == {1}


async def test_objects_without_namespace_are_reviewed_without_one(stage: Stage) -> None:
    asked = [manifest("extra", plural="namespaces")]
    await stage.grant("app", rule(resources="namespaces"))
    gate = stage.gate()
    assert set(await gate.check(E, asked, [])) == {0}
    assert "namespace" not in stage.recording.reviews[0]["resourceAttributes"]
    await stage.grant("", rule(resources="namespaces"))
    assert await stage.gate().check(E, asked, []) == {}


@pytest.mark.parametrize("name", ["system:serviceaccounts:sa-ns", "system:serviceaccounts", "system:authenticated"])
async def test_what_its_groups_may_the_executor_may(stage: Stage, name: str) -> None:
    await stage.grant("app", rule(), to=group(name))
    assert await stage.gate().check(E, [manifest("cm1")], []) == {}


async def test_executors_are_told_apart(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate, asked = stage.gate(), [manifest("cm1")]
    other = ExecutorServiceAccount(namespace="sa-ns", name="exec2")
    assert await gate.check(E, asked, []) == {}
    assert set(await gate.check(other, asked, [])) == {0}
    assert await gate.check(E, asked, []) == {}


@pytest.mark.parametrize(
    ("namespace", "name"), [("sa-ns", "B_d"), ("sa-ns", "x" * 254), ("sa:ns", "exec1"), ("", "exec1"), ("a", "b:c")]
)
async def test_a_name_that_cannot_be_one_is_refused_without_asking(stage: Stage, namespace: str, name: str) -> None:
    await stage.bind("", "cluster-admin", group("system:serviceaccounts"))
    malformed = ExecutorServiceAccount(namespace=namespace, name=name)
    gate = stage.gate()
    first, second = [await gate.check(malformed, several(manifest("a"), manifest("b")), []) for _ in range(2)]
    assert set(first) == {0, 1}
    assert "of the executor's service account" in first[0].message
    assert first == second
    assert stage.recording.reviews == []


async def test_a_failure_to_ask_is_no_denial_and_is_not_remembered(stage: Stage) -> None:
    await stage.grant("app", rule())
    gate = stage.gate()
    stage.recording.failing = ServerFailure(500, "InternalError", "etcd is away")
    refusals = await gate.check(E, several(manifest("a"), manifest("b")), [])
    assert {refusal.failure for refusal in refusals.values()} == {True}
    assert refusals[0].message == f"cannot find out whether {USER} may have configmaps app/a applied: etcd is away"
    stage.recording.failing = None
    assert await gate.check(E, several(manifest("a"), manifest("b")), []) == {}


async def test_an_authorizer_beside_rbac_may_allow(stage: Stage, settled: None) -> None:
    stage.recording.answer = lambda spec: {"allowed": spec["resourceAttributes"]["name"] == "webhook", "reason": "because"}
    gate = stage.gate(strict=False)
    assert set(await gate.check(E, several(manifest("webhook"), manifest("cm2")), [])) == {1}


async def test_an_authorizer_beside_rbac_may_refuse_and_is_asked_about_every_object_then(stage: Stage, settled: None) -> None:
    await stage.grant("app", rule())
    gate = stage.gate(strict=False)
    gate_ready = await gate.check(E, [manifest("warm-up", "other")], [])
    assert set(gate_ready) == {0}
    stage.recording.answer = lambda spec: {"allowed": spec["resourceAttributes"]["name"] == "good", "denied": True}
    refusals = await gate.check(E, several(manifest("first"), manifest("good"), manifest("third")), [])
    assert set(refusals) == {0, 2}


async def test_an_allowance_that_is_not_rbacs_does_not_stand_for_other_objects(stage: Stage, settled: None) -> None:
    await stage.grant("app", rule())
    stage.recording.answer = lambda spec: {"allowed": spec["resourceAttributes"]["name"] != "third", "reason": "by name"}
    refusals = await stage.gate(strict=False).check(E, several(manifest("first"), manifest("second"), manifest("third")), [])
    assert set(refusals) == {2}


async def test_an_agent_that_may_not_list_roles_has_every_object_reviewed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 0.05)
    reviews = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"]}
    await stage.admin.create(CLUSTER_ROLES, {"metadata": {"name": "reviewing"}, "rules": [reviews]})
    await stage.bind("", "reviewing", {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "agent"})
    await stage.grant("app", rule(names=("a", "b")))
    client = stage.as_agent("agent")
    refusals = await stage.gate(client, strict=False).check(E, several(manifest("a"), manifest("b"), manifest("c")), [])
    assert set(refusals) == {2}
    assert client.asked() == {"create": 3, "update": 2, "patch": 2, "get": 2, "delete": 2}


async def test_an_agent_that_may_not_even_review_refuses(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 0.05)
    await stage.grant("app", rule(), to=account())
    refusals = await stage.gate(stage.as_agent("nobody")).check(E, [manifest("a")], [])
    assert refusals[0].failure


async def test_what_may_not_be_read_is_hidden_and_what_is_only_withheld_is_not(stage: Stage) -> None:
    asking = (FeedbackRule(type="WellKnownStatus"),)
    a, b, c = (replace(manifest(name), feedback=asking) for name in "abc")
    await stage.grant("app", rule(("get",), names=("a",)), rule(names=("c",)))
    refusals = await stage.gate().check(E, several(a, b, c), [])
    assert {ordinal: refusal.hidden for ordinal, refusal in refusals.items()} == {0: "", 1: f"{USER} may not get it", 2: ""}


async def test_what_cannot_be_found_out_is_hidden(stage: Stage) -> None:
    await stage.grant("app", rule())
    stage.recording.failing = ServerFailure(500, "InternalError", "no luck")
    refusals = await stage.gate().check(E, [manifest("a")], [])
    assert refusals[0].failure
    assert refusals[0].hidden
