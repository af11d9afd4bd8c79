"""Executors and particular objects: without namespace, by name, roles and bindings, of unknown kinds; and when asking fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from muster.api.work.v1 import ExecutorServiceAccount
from muster.machinery.objects import Object
from muster.runtime.auth.rbac import CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.builtin import SECRETS as SECRETS_KIND
from muster.runtime.client.errors import KubeError, ServerFailure, TooManyRequests, Unreachable
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo
from muster.runtime.client.rest import JSON, Query
from muster.work.kinds import MANIFEST_WORKS
from tests.support.executing import FULL, GROUP, Keeper, binding, role, rule, sars
from tests.support.gates import LoneGate
from tests.support.manifests import manifest
from tests.support.working import SERVICE_ACCOUNTS, Counting, Workplace, condition, config_map, identifier

SOON = 5.0
WITHHELD = "withheld because manifest"
SECRETS = rule(("get",), "secrets")
TOKEN = "c2VjcmV0"


def intercept(monkeypatch: pytest.MonkeyPatch, client: Counting, meddle: Callable[[str, str], KubeError | None]) -> None:
    """Requests that fail as `meddle` says; the others go their way."""
    passing = client.exchange

    async def exchange(
        method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        fate = meddle(method, path)
        if fate is not None:
            client.asked.append((method, path))
            raise fate
        return await passing(method, path, query, body, media, idempotent=idempotent)

    monkeypatch.setattr(client, "exchange", exchange)


async def test_objects_of_the_whole_cluster_need_permissions_for_the_whole_cluster(place: Workplace, keeper: Keeper) -> None:
    group = f"{place.name}.example.com"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # A namespace here says nothing: there is none for such objects.
        "metadata": {"name": f"things.{group}", "namespace": place.namespace},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    manifests: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": keeper.wide("made")}},
        {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": keeper.wide("made")}, "rules": [rule(("get",))]},
        definition,
    ]
    rules = [
        rule(FULL, "namespaces"),
        rule(FULL, "clusterroles", GROUP),
        rule(FULL, "customresourcedefinitions", "apiextensions.k8s.io"),
        rule(("get",)),
    ]
    await keeper.grant("here", *rules)
    async with place.agent():
        await place.create("w", *manifests, executor=keeper.executor())
        await keeper.wait_refused(
            "w",
            f"the resource  namespaces,  {keeper.wide('made')}, error",
            f"the resource {GROUP} clusterroles,  {keeper.wide('made')}, error",
            f"the resource apiextensions.k8s.io customresourcedefinitions,  things.{group}, error",
        )
        await keeper.grant("everywhere", *rules, namespace="")
        await place.wait_applied("w", timeout=SOON)
        for resource, name in (
            (NAMESPACES, keeper.wide("made")),
            (CLUSTER_ROLES, keeper.wide("made")),
            (CRDS, f"things.{group}"),
        ):
            assert await place.find(resource, name) is not None
        await place.delete("w")
        await place.wait_gone("w", timeout=40)


async def test_permission_for_names_is_permission_for_those_names(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("named", rule(names=("cm1",)), rule(FULL, "roles", GROUP, names=("r1",)))
    async with place.agent():
        await place.create("one", config_map("cm1", place.namespace), executor=keeper.executor())
        await place.create("two", config_map("cm2", place.namespace), executor=keeper.executor())
        # It could not be created by the account itself, which has no permission to create roles of any name.
        await place.create("role", role("r1", place.namespace), executor=keeper.executor())
        await place.wait_applied("one")
        await place.wait_applied("role")
        await keeper.wait_refused("two", f"configmaps, {place.namespace} cm2")
        assert await place.data("cm2") is None


async def test_no_work_grants_more_than_its_executor_has(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("managing", rule(FULL, "roles,rolebindings", GROUP), rule())
    await keeper.role("exists", rule(("get",)))
    space = place.namespace
    works = {
        "new": role("new", space, SECRETS),
        "exists": role("exists", space, rule(("get",)), SECRETS),
        "admin": binding("admin", space, "cluster-admin", keeper.account("anybody"), kind="ClusterRole"),
    }
    async with place.agent():
        for name, document in works.items():
            await place.create(name, document, executor=keeper.executor())
        await place.create(
            "fine", role("fine", space, rule()), binding("fine", space, "fine", keeper.account("x")), executor=keeper.executor()
        )
        await place.wait_applied("fine")
        for name in works:
            messages = await keeper.wait_refused(name, "permission escalation")
            assert keeper.user() in messages[0]
        assert await place.find(ROLES, "new", space) is None
        assert await place.find(ROLE_BINDINGS, "admin", space) is None
        existing = await place.find(ROLES, "exists", space)
        assert existing is not None
        assert len(existing["rules"]) == 1

        await keeper.role(
            "managing",
            rule((*FULL, "escalate", "bind"), "roles,rolebindings", GROUP),
            rule(("bind",), "clusterroles", GROUP, names=("cluster-admin",)),
            rule(),
        )
        for name in works:
            await place.wait_applied(name, timeout=SOON)


async def test_an_administrators_role_is_not_kept_up_by_a_work_that_repeats_it(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("managing", rule(FULL, "roles", GROUP))
    await keeper.role("strong", SECRETS)
    async with place.agent():
        await place.create("w", role("strong", place.namespace, SECRETS), executor=keeper.executor())
        await keeper.wait_refused("w", "permission escalation")
        await keeper.role("strong")

        async def restored() -> bool:
            found = await place.find(ROLES, "strong", place.namespace)
            return bool(found and found.get("rules"))

        await keeper.never(restored, "the agent gave back what was taken", 1.0)


@pytest.mark.parametrize("lacks", ["impersonation", "roles", "both"])
async def test_an_agent_with_fewer_rights_lets_no_more_through(
    place: Workplace, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.setattr("muster.work.agent.executor.gate.SYNC_TIMEOUT", 5.0 if lacks == "impersonation" else 0.5)
    rights = [rule(("create",), "subjectaccessreviews", "authorization.k8s.io")]
    if lacks == "impersonation":
        rights.append(rule(("get", "list", "watch"), "roles,rolebindings,clusterroles,clusterrolebindings", GROUP))
    if lacks == "roles":
        rights.append(rule(("impersonate",), "serviceaccounts"))
    weak = {"name": "weak", "namespace": place.agent_namespace}
    await place.admin.create(SERVICE_ACCOUNTS, {"metadata": weak})
    await keeper.grant("weak", *rights, to={"kind": "ServiceAccount", **weak}, namespace="")
    await keeper.grant("managing", rule((*FULL, "bind"), "roles,rolebindings", GROUP), rule())
    await keeper.role("secrets", SECRETS)
    await keeper.bind("admins", keeper.account("admin"), kind="ClusterRole", ref="cluster-admin")
    issued = await place.admin.create(SERVICE_ACCOUNTS, {"spec": {}}, place.agent_namespace, name="weak", subresource="token")
    client = HttpClient(replace(place.config, identity=AuthInfo(token=issued["status"]["token"])))
    gate = LoneGate(client)
    running = asyncio.create_task(gate.run())
    executor = ExecutorServiceAccount(namespace=keeper.home, name="exec1")
    space = place.namespace
    try:
        assert await gate.check(executor, [manifest(config_map("cm", space))], []) == {}
        assert set(await gate.check(executor, [manifest(config_map("cm", "default"))], [])) == {0}
        harmless = await gate.check(executor, [manifest(role("r1", space, rule(("get",))))], [])
        assert (harmless == {}) is (lacks != "both")
        assert all(refusal.failure for refusal in harmless.values())
        strong = await gate.check(executor, [manifest(role("r2", space, SECRETS))], [])
        assert set(strong) == {0}
        assert strong[0].failure is (lacks == "both")
        # What a manifest leaves unsaid of an object that is there stays as it is, and counts as it is.
        metadata = {"name": "secrets", "namespace": space, "labels": {"a": "b"}}
        labelled = manifest({**role("secrets", space), "metadata": metadata}, type="ServerSideApply")
        unsaid = replace(labelled, document={key: value for key, value in labelled.document.items() if key != "rules"})
        joining = binding("admins", space, "cluster-admin", keeper.account(), kind="ClusterRole")
        partly = replace(manifest(joining), document={key: value for key, value in joining.items() if key != "roleRef"})
        for one in (unsaid, partly):
            assert set(await gate.check(executor, [one], [])) == {0}, one.ref
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_what_an_executor_may_not_read_is_not_told_to_the_hub(place: Workplace, keeper: Keeper) -> None:
    """Neither by values nor by conditions, be the manifest refused, only to be read, or said to have reached its end."""
    space = place.namespace
    asked = {
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "token", "path": ".data.token"}]}],
        "conditionRules": [
            {"condition": "Told", "type": "CEL", "celExpressions": ["true"], "messageExpression": "object.data.token"},
            {"condition": "Complete", "type": "CEL", "celExpressions": ["has(object.data)"]},
        ],
    }

    def secret(name: str, **more: object) -> Object:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": space}, **more}

    async def told(work: str) -> str:
        entry = await place.manifest(work, 0)
        rules = [condition(entry, kind) for kind in ("Told", "Complete")]
        return f"{entry.get('statusFeedback')} {rules}"

    for name in ("theirs", "ours"):
        await place.admin.create(SECRETS_KIND, secret(name, data={"token": TOKEN}))
    await keeper.grant("writing", rule(("create", "update", "patch", "delete"), "secrets"), rule())
    await keeper.grant("reading", rule(("get",), "secrets", names=("ours",)))
    writing, reading = secret("theirs"), {**asked, "updateStrategy": {"type": "ReadOnly"}}
    async with place.agent() as agent:
        for work, config in (("written", asked), ("read", reading)):
            configs = [identifier(writing, "secrets", **config)]
            await place.create(work, writing, executor=keeper.executor(), manifestConfigs=configs)
            await keeper.wait_refused(work, f"secrets, {space} theirs, error: {keeper.user()} may not get it")
            assert TOKEN not in await told(work)
            synced = condition(await place.manifest(work, 0), "StatusFeedbackSynced")
            assert (synced["status"], keeper.user() in synced["message"]) == ("False", True)
            assert condition(await place.manifest(work, 0), "Available")["status"] == "True"
            assert condition(await place.manifest(work, 0), "Complete") == {}

        # Whoever may write statuses on the hub does not thereby read the managed cluster.
        said = {
            "status": "True",
            "reason": "Said",
            "observedGeneration": 1,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        forged = {"status": {"conditions": [{"type": kind, **said} for kind in ("Applied", "Complete")]}}
        await place.admin.patch(MANIFEST_WORKS, "read", forged, place.name, subresource="status")
        await agent.quiet(0.4)
        assert TOKEN not in await told("read")

        # What is only withheld, or may be read, is told of; what is told stays when the right goes, and grows no older news.
        ours = secret("ours")
        rules = {"feedbackRules": asked["feedbackRules"], "updateStrategy": {"type": "ReadOnly"}}
        configs = [identifier(ours, "secrets", **rules)]
        await place.create("fine", ours, writing, executor=keeper.executor(), manifestConfigs=configs)
        await keeper.wait_refused("fine", WITHHELD, "may not get it")
        assert TOKEN in await told("fine")
        await keeper.revoke("reading")
        await keeper.wait_refused("fine", "may not get it", "may not get it", timeout=SOON)
        await place.admin.patch(SECRETS_KIND, "ours", {"data": {"token": "bmV3"}}, space)
        await agent.quiet(0.4)
        assert "bmV3" not in await told("fine")


@pytest.mark.parametrize("executor", [{}, {"subject": {"type": "ServiceAccount"}}])
async def test_an_executor_that_names_nobody_gets_nothing(place: Workplace, keeper: Keeper, executor: Object) -> None:
    async with place.agent() as agent:
        await place.create("w", config_map("cm", place.namespace), executor=executor)
        await keeper.wait_refused("w", "the executor" if executor else "only support ServiceAccount type for the executor")
        await agent.quiet(0.4)
        requests = len(agent.hub.asked)
        await agent.quiet(1.0)
        assert len(agent.hub.asked) == requests
        assert await place.data("cm") is None


@pytest.mark.parametrize(
    "failure",
    [
        ServerFailure(500, "InternalError", "no luck"),
        TooManyRequests(429, "TooManyRequests", "later"),
        Unreachable("spoke", "timeout"),
    ],
)
async def test_a_review_that_fails_is_no_verdict(
    place: Workplace, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, failure: KubeError
) -> None:
    await keeper.grant("app", rule())
    failing = True
    async with place.agent() as agent:
        intercept(monkeypatch, agent.spoke, lambda _, path: failure if failing and path.endswith("accessreviews") else None)
        await place.create("w", config_map("cm", place.namespace), executor=keeper.executor())
        messages = await keeper.wait_refused("w", f"cannot find out whether {keeper.user()} may have configmaps")
        assert "not allowed" not in messages[0]
        assert await place.data("cm") is None
        failing = False
        await place.wait_applied("w", timeout=40)


async def test_a_kind_that_nobody_serves_withholds_the_work_until_it_is_gone(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("app", rule())
    unknown = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "x", "namespace": place.namespace}}
    async with place.agent():
        await place.create("w", config_map("a", place.namespace), config_map("b", place.namespace), executor=keeper.executor())
        await place.wait_applied("w")
        await place.change("w", config_map("a", place.namespace, v="2"), unknown)
        await keeper.wait_refused("w", "withheld because manifest 1 (Thing x)", "")
        assert (await place.data("a"), await place.data("b")) == ({}, {})
        await place.change("w", unknown)
        await keeper.wait_refused("w", "Thing")
        assert (await place.data("a"), await place.data("b")) == ({}, {})
        await place.change("w", config_map("a", place.namespace, v="2"))
        await place.wait_applied("w")
        assert await place.data("a") == {"v": "2"}

        async def pruned() -> bool:
            return await place.data("b") is None

        await place.wait(pruned, "b to go")


async def test_many_works_of_one_executor_cost_few_reviews(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("app", rule())
    works = 30
    async with place.agent() as agent:
        for number in range(works):
            manifests = [config_map(f"c{number}-{index}", place.namespace) for index in range(10)]
            await place.create(f"w{number}", *manifests, executor=keeper.executor())
        for number in range(works):
            await place.wait_applied(f"w{number}")
        assert sars(agent) == 5

        await agent.quiet(0.4)
        agent.forget()
        await keeper.role("app", rule((*FULL, "list")))
        await place.wait(lambda: _counted(agent.spoke), "the change to be looked at")
        await agent.quiet(0.4)
        assert sars(agent) == 5
        assert len(agent.spoke.writes) == 5, "reviews are all that a harmless change costs"
        assert agent.hub.writes == []


async def _counted(client: Counting) -> int:
    return len(client.writes)


@pytest.mark.parametrize("moment", ["between review and write", "between write and status"])
async def test_an_agent_that_dies_in_between_leaves_nothing_double_and_nothing_lost(
    place: Workplace, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await keeper.grant("app", rule())
    dead = asyncio.Event()

    def die(method: str, path: str) -> KubeError | None:
        """At the moment, and for ever after: whatever the agent still wants, it is powerless."""
        writing = method == "POST" and path.endswith("/configmaps")
        reporting = method == "PATCH" and path.endswith("/manifestworks/w/status")
        if writing if moment == "between review and write" else reporting:
            dead.set()
        return Unreachable("everything", "dead", sent=False) if dead.is_set() else None

    async with place.agent() as agent:
        intercept(monkeypatch, agent.spoke, die)
        intercept(monkeypatch, agent.hub, die)
        await place.create("w", config_map("cm", place.namespace, v="1"), executor=keeper.executor())
        async with asyncio.timeout(20):
            await dead.wait()
    before = await place.data("cm")
    assert (before is None) is (moment == "between review and write")

    async with place.agent() as agent:
        began = time.monotonic()
        await place.wait_applied("w")
        assert time.monotonic() - began < 2 * SOON
        record = await place.record(agent, "w")
        assert record is not None
        tracked = record["status"]["appliedResources"]
        assert [one["name"] for one in tracked] == ["cm"]
        await place.wait_condition("w", "Available")
        assert condition(await place.manifest("w", 0), "Applied")["status"] == "True"
        await place.delete("w")
        await place.wait_gone("w")
        assert await place.data("cm") is None
