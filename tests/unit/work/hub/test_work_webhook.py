"""Who may write which works, on a hub whose API server really calls the webhook and really knows RBAC."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from muster.http import Response
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, VALIDATING_WEBHOOKS
from muster.runtime.client.errors import BadRequest, Invalid, ServerFailure
from muster.work.hub.install import WORK_VALIDATOR
from muster.work.hub.options import WorkHubOptions
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import REPLICA_SET_LABEL, WORK_FINALIZER
from tests.unit.work.hub.conftest import (
    EXEC1,
    EXEC2,
    RBAC,
    Broken,
    Hub,
    config_map,
    execute_as,
    executor,
    serving,
    spec,
    user_subject,
    work,
)

PREFIX = f'admission webhook "{WORK_VALIDATOR}" denied the request: '


def refusal(user: str, account: tuple[str, str] = EXEC1, namespace: str = "cluster1") -> str:
    where = f"executor {account[0]}/{account[1]} in namespace {namespace}"
    return f"{PREFIX}user {user} cannot manipulate the Manifestwork with {where}"


async def stored(hub: Hub, content: Object, name: str = "w") -> Object:
    return await hub.admin.create(MANIFEST_WORKS, work(name, content))


async def test_whoever_may_execute_as_the_executor_creates_its_work_by_one_review(hub: Hub) -> None:
    await hub.writer("dave")
    await hub.let_execute("dave", EXEC1)
    dave = hub.user("dave", "team", extra={"example.com/scopes": ("a", "b")})
    await dave.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1)))
    (review,) = hub.own.reviews
    assert review == {
        "user": "dave",
        "uid": "dave-uid",
        "groups": ["team", "system:authenticated"],
        "extra": {"example.com/scopes": ["a", "b"]},
        "resourceAttributes": {
            "verb": "execute-as",
            "group": "work.open-cluster-management.io",
            "version": "v1",
            "resource": "manifestworks",
            "namespace": "cluster1",
            "name": "system:serviceaccount:sa-ns:exec1",
        },
    }


async def test_whoever_may_not_is_refused_as_upstream_refuses(hub: Hub) -> None:
    bob = await hub.writer("bob")
    await hub.let_execute("bob", EXEC1, "cluster2")
    with pytest.raises(BadRequest) as refused:
        await bob.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1)))
    assert refused.value.message == refusal("bob")
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    await bob.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1), namespace="cluster2"))


async def test_a_grant_to_a_group_counts_and_a_new_grant_counts_at_once(hub: Hub) -> None:
    await hub.writer("carol")
    carol = hub.user("carol", "deployers")
    with pytest.raises(BadRequest):
        await carol.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1)))
    subject = {"apiGroup": RBAC, "kind": "Group", "name": "deployers"}
    await hub.let("deployers", subject, [execute_as(EXEC1)], "cluster1")
    await carol.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1)))


CHANGES: dict[str, Any] = {
    "workload": {"workload": {"manifests": [config_map(data={"a": "b"})]}},
    "manifestConfigs": {"manifestConfigs": [{"resourceIdentifier": {"resource": "configmaps", "name": "cm1"}}]},
    "deleteOption": {"deleteOption": {"propagationPolicy": "Orphan"}},
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_of_the_spec_needs_the_executor_though_the_executor_stays(hub: Hub, change: str) -> None:
    await stored(hub, spec(runs_as=EXEC1))
    bob = await hub.writer("bob")
    with pytest.raises(BadRequest) as refused:
        await bob.patch(MANIFEST_WORKS, "w", {"spec": CHANGES[change]}, "cluster1")
    assert refused.value.message == refusal("bob")
    await hub.let_execute("bob", EXEC1)
    await bob.patch(MANIFEST_WORKS, "w", {"spec": CHANGES[change]}, "cluster1")


async def test_true_is_not_one(hub: Hub) -> None:
    await stored(hub, spec(config_map(immutable=True), runs_as=EXEC1))
    bob = await hub.writer("bob")
    with pytest.raises(BadRequest):
        await bob.patch(MANIFEST_WORKS, "w", {"spec": {"workload": {"manifests": [config_map(immutable=1)]}}}, "cluster1")


async def test_what_leaves_the_spec_alone_is_accepted_without_a_review(hub: Hub) -> None:
    await stored(hub, spec(runs_as=EXEC1))
    hub.own.reviews.clear()
    bob = await hub.writer("bob")
    changes: list[Object] = [{"finalizers": [WORK_FINALIZER]}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}]
    for metadata in [*changes, {"finalizers": None}]:
        await bob.patch(MANIFEST_WORKS, "w", {"metadata": metadata}, "cluster1")
    await bob.patch(MANIFEST_WORKS, "w", {"status": {"conditions": []}}, "cluster1", subresource="status")
    assert hub.own.reviews == []


async def test_giving_a_work_to_a_replica_set_needs_its_executor(hub: Hub) -> None:
    # The set's controller would write it from then on, with rights of its own.
    await stored(hub, spec(runs_as=EXEC1))
    bob = await hub.writer("bob")
    given = {"metadata": {"labels": {REPLICA_SET_LABEL: "apps.bobs"}}}
    with pytest.raises(BadRequest) as refused:
        await bob.patch(MANIFEST_WORKS, "w", given, "cluster1")
    assert refused.value.message == refusal("bob")
    await hub.let_execute("bob", EXEC1)
    await bob.patch(MANIFEST_WORKS, "w", given, "cluster1")
    carol = await hub.writer("carol")
    await carol.patch(MANIFEST_WORKS, "w", {"metadata": {"labels": {"a": "b"}}}, "cluster1")
    for labels in ({REPLICA_SET_LABEL: None}, {REPLICA_SET_LABEL: "apps.carols"}, None):
        with pytest.raises(BadRequest) as refused:
            await carol.patch(MANIFEST_WORKS, "w", {"metadata": {"labels": labels}}, "cluster1")
        assert refused.value.message == refusal("carol")


async def test_another_executor_needs_both(hub: Hub) -> None:
    await stored(hub, spec(runs_as=EXEC1))
    bob = await hub.writer("bob")
    change = {"spec": {"executor": executor(EXEC2)}}
    with pytest.raises(BadRequest, match="executor sa-ns/exec2 in"):
        await bob.patch(MANIFEST_WORKS, "w", change, "cluster1")
    await hub.let_execute("bob", EXEC2)
    with pytest.raises(BadRequest, match="executor sa-ns/exec1 in"):
        await bob.patch(MANIFEST_WORKS, "w", change, "cluster1")
    await hub.let_execute("bob", EXEC1)
    await bob.patch(MANIFEST_WORKS, "w", change, "cluster1")


async def test_taking_the_executor_away_needs_it(hub: Hub) -> None:
    await stored(hub, spec(runs_as=EXEC1))
    bob = await hub.writer("bob")
    with pytest.raises(BadRequest, match="executor sa-ns/exec1 in"):
        await bob.patch(MANIFEST_WORKS, "w", {"spec": {"executor": None}}, "cluster1")
    await hub.let_execute("bob", EXEC1)
    await bob.patch(MANIFEST_WORKS, "w", {"spec": {"executor": None}}, "cluster1")


async def test_a_work_without_executor_takes_no_right_by_default(hub: Hub) -> None:
    bob = await hub.writer("bob")
    await bob.create(MANIFEST_WORKS, work())
    await bob.patch(MANIFEST_WORKS, "w", {"spec": CHANGES["workload"]}, "cluster1")
    assert hub.own.reviews == []


@pytest.fixture
async def strict() -> AsyncIterator[Hub]:
    async with serving(WorkHubOptions(nil_executor_validating=True)) as hub:
        yield hub


async def test_with_the_gate_a_work_without_executor_needs_the_agents_identity(strict: Hub) -> None:
    bob = await strict.writer("bob")
    with pytest.raises(BadRequest) as refused:
        await bob.create(MANIFEST_WORKS, work())
    assert refused.value.message == refusal("bob", ("", "klusterlet-work-sa"))
    role = "open-cluster-management:cluster-manager-work-executor-admin:webhook"
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": "bobs"}, "roleRef": reference, "subjects": [user_subject("bob")]}
    await strict.admin.create(CLUSTER_ROLE_BINDINGS, binding)
    await bob.create(MANIFEST_WORKS, work())
    await bob.patch(MANIFEST_WORKS, "w", {"spec": CHANGES["workload"]}, "cluster1")
    with pytest.raises(BadRequest, match="executor sa-ns/exec1"):
        await bob.patch(MANIFEST_WORKS, "w", {"spec": {"executor": executor(EXEC1)}}, "cluster1")


async def test_with_the_gate_taking_the_executor_away_needs_the_agents_identity_too(strict: Hub) -> None:
    await stored(strict, spec(runs_as=EXEC1))
    bob = await strict.writer("bob")
    await strict.let_execute("bob", EXEC1)
    with pytest.raises(BadRequest, match="executor /klusterlet-work-sa in"):
        await bob.patch(MANIFEST_WORKS, "w", {"spec": {"executor": None}}, "cluster1")


MALFORMED: dict[str, tuple[Any, str]] = {
    "empty": ({}, "the executor is malformed: spec.executor.subject is missing"),
    "without account": (
        {"subject": {"type": "ServiceAccount"}},
        "executor service account can not be nil: spec.executor.subject.serviceAccount is missing",
    ),
}


@pytest.mark.parametrize("how", MALFORMED)
async def test_what_is_no_executor_is_refused_and_the_field_is_named(hub: Hub, how: str) -> None:
    value, text = MALFORMED[how]
    with pytest.raises(BadRequest) as refused:
        await hub.admin.create(MANIFEST_WORKS, work("w", spec(executor=value)))
    assert refused.value.message == PREFIX + text


@pytest.mark.parametrize("name", ["B_d", "x" * 254, ""])
async def test_names_that_are_none_are_refused_by_the_definition(hub: Hub, name: str) -> None:
    with pytest.raises(Invalid):
        await hub.admin.create(MANIFEST_WORKS, work("w", spec(runs_as=("sa-ns", name))))


async def test_a_malformed_executor_that_was_stored_can_be_mended_and_let_go(hub: Hub) -> None:
    configured = await hub.admin.get(VALIDATING_WEBHOOKS, WORK_VALIDATOR)
    await hub.admin.delete(VALIDATING_WEBHOOKS, WORK_VALIDATOR)
    await stored(hub, spec(executor={}))
    await hub.admin.create(VALIDATING_WEBHOOKS, {**configured, "metadata": {"name": WORK_VALIDATOR}})
    bob = await hub.writer("bob")
    await bob.patch(MANIFEST_WORKS, "w", {"metadata": {"labels": {"a": "b"}}}, "cluster1")
    with pytest.raises(BadRequest, match=r"spec\.executor\.subject is missing"):
        await bob.patch(MANIFEST_WORKS, "w", {"spec": CHANGES["workload"]}, "cluster1")
    await hub.let_execute("bob", EXEC1)
    await bob.patch(MANIFEST_WORKS, "w", {"spec": {"executor": executor(EXEC1)}}, "cluster1")


async def test_an_expression_that_cannot_be_parsed_is_refused_where_it_is(hub: Hub) -> None:
    config = {
        "resourceIdentifier": {"resource": "configmaps", "name": "cm1"},
        "conditionRules": [{"type": "CEL", "condition": "Ready", "celExpressions": ["object.data.a == "]}],
    }
    with pytest.raises(BadRequest) as refused:
        await hub.admin.create(MANIFEST_WORKS, work("w", spec(manifestConfigs=[config])))
    assert "spec.manifestConfigs[0].conditionRules[0].celExpressions[0]: 'object.data.a == ' is no CEL" in refused.value.message


async def test_no_answer_to_a_review_is_no_yes() -> None:
    async with serving(WorkHubOptions(), Broken) as hub:
        with pytest.raises(ServerFailure, match="user admin may execute as system:serviceaccount:sa-ns:exec1 cannot be reviewed"):
            await hub.admin.create(MANIFEST_WORKS, work("w", spec(runs_as=EXEC1)))


async def test_a_manifest_without_the_namespace_it_needs_is_stored_with_a_warning(hub: Hub) -> None:
    homeless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "homeless"}}
    admin = hub.server.client(hub.server.clusters["hub"])
    body = orjson.dumps(work("w", spec(homeless)))
    answer = await admin.send("POST", MANIFEST_WORKS.path("cluster1"), {}, body)
    assert isinstance(answer, Response)
    assert answer.status == 201
    said = [value for name, value in answer.headers if name.lower() == "warning"]
    assert said == ['299 - "spec.workload.manifests[0]: ConfigMap homeless has no metadata.namespace and cannot be applied"']
