"""Works with an executor: applied as far as a service account of the managed cluster may, and no further.

Whether something was written is asked of the cluster, and what the agent asked for is counted. Grants and revocations must be
noticed within `SOON`.
"""

from __future__ import annotations

import time

import pytest

from muster.machinery.objects import GVR
from muster.runtime.auth.rbac import CLUSTER_ROLES, ROLE_BINDINGS
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.executor import ExecutorOptions
from tests.support.executing import FULL, GROUP, Keeper, binding, role, rule, sars
from tests.support.working import Workplace, condition, config_map, identifier

SOON = 5.0
ACCOUNTS = GVR("v1", "serviceaccounts", "ServiceAccount")
WITHHELD = "withheld because manifest"


async def owners(place: Workplace, name: str, namespace: str = "") -> list[str]:
    found = await place.find(CONFIG_MAPS, name, namespace or place.namespace)
    assert found is not None
    return [owner["name"] for owner in found["metadata"].get("ownerReferences") or ()]


async def test_without_an_executor_nothing_is_reviewed_and_with_one_it_keeps_to_its_own(place: Workplace, keeper: Keeper) -> None:
    second = await keeper.namespace("g2")
    await keeper.grant("g1", rule())
    await keeper.grant("g2", rule(), to=keeper.account("exec2"), namespace=second)
    async with place.agent() as agent:
        await place.create("nobodys", config_map("nobodys", place.namespace))
        await place.wait_applied("nobodys")
        assert sars(agent) == 0
        assert not any("rbac" in path for _, path in agent.spoke.asked)

        await place.create("firsts", config_map("firsts", place.namespace), executor=keeper.executor())
        await place.create("seconds", config_map("seconds", second), executor=keeper.executor("exec2"))
        await place.create("strays", config_map("strays", second), executor=keeper.executor())
        for name in ("firsts", "seconds"):
            await place.wait_applied(name)
        await keeper.wait_refused("strays", f"configmaps, {second} strays")

        assert await place.find(CONFIG_MAPS, "strays", second) is None
        assert await owners(place, "nobodys") == [f"{agent.hub_hash}-nobodys"]
        assert await owners(place, "firsts") == [f"{agent.hub_hash}-firsts"]
        assert await owners(place, "seconds", second) == [f"{agent.hub_hash}-seconds"]


async def test_an_executor_is_held_to_its_permissions_until_they_are_widened_and_after_they_are_taken(
    place: Workplace, keeper: Keeper
) -> None:
    other = await keeper.namespace("other")
    await keeper.grant("app", rule())
    async with place.agent() as agent:
        await place.create("w", config_map("cm1", other, a="1"), executor=keeper.executor())
        message = (
            f"Failed to apply manifest: not allowed to apply the resource  configmaps, {other} cm1, "
            f"error: {keeper.user()} may not create, update, patch, get, delete it"
        )
        assert await keeper.wait_refused("w", message) == [message]
        work = await place.work("w")
        assert work is not None
        assert condition(work["status"], "Applied") | {"lastTransitionTime": ""} == {
            "type": "Applied",
            "status": "False",
            "reason": "AppliedManifestWorkFailed",
            "message": "Failed to apply manifest work",
            "observedGeneration": 1,
            "lastTransitionTime": "",
        }
        assert condition(await place.manifest("w", 0), "Applied")["reason"] == "AppliedManifestFailed"
        assert await place.find(CONFIG_MAPS, "cm1", other) is None
        assert sars(agent) == 1
        await agent.quiet(0.4)
        assert sars(agent) == 1, "what RBAC refuses is not asked again while RBAC stays as it is"

        began = time.monotonic()
        await keeper.grant("other", rule(), namespace=other)
        await place.wait_applied("w", timeout=SOON)
        assert time.monotonic() - began < SOON
        assert await place.find(CONFIG_MAPS, "cm1", other) is not None

        # The account itself is nobody's business, whether it comes or goes.
        await agent.quiet(0.4)
        agent.forget()
        await keeper.namespace("accounts")
        account = {"metadata": {"name": "exec1", "namespace": keeper.wide("accounts")}}
        await place.admin.create(ACCOUNTS, account)
        await place.admin.delete(ACCOUNTS, "exec1", keeper.wide("accounts"))
        await agent.quiet(0.4)
        assert agent.spoke.writes == []

        began = time.monotonic()
        await keeper.revoke("other", other)
        await keeper.wait_refused("w", "may not create", timeout=SOON)
        assert time.monotonic() - began < SOON
        assert await place.find(CONFIG_MAPS, "cm1", other) is not None
        assert condition(await place.manifest("w", 0), "Available")["status"] == "True"


async def test_however_permission_is_given_the_work_goes_on(place: Workplace, keeper: Keeper) -> None:
    ways = ("binding", "wide", "rules", "aggregated", "clusterrole")
    await keeper.grant("rules", rule(("get",), "pods"), to=keeper.account("rules"))
    selector = {"matchLabels": {keeper.wide("gather"): "yes"}}
    summed = {"metadata": {"name": keeper.wide("sum")}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    await place.admin.create(CLUSTER_ROLES, summed)
    await keeper.bind("sum", keeper.account("aggregated"), kind="ClusterRole", ref=keeper.wide("sum"))
    async with place.agent() as agent:
        for way in ways:
            await place.create(way, config_map(way, place.namespace), executor=keeper.executor(way))
        for way in ways:
            await keeper.wait_refused(way, f"configmaps, {place.namespace} {way}, error: {keeper.user(way)} may not create")
        assert sars(agent) == len(ways)
        assert [await place.data(way) for way in ways] == [None] * len(ways)

        began = time.monotonic()
        await keeper.grant("binding", rule(), to=keeper.account("binding"))
        await keeper.grant("wide", rule(), to=keeper.account("wide"), namespace="")
        await keeper.role("rules", rule())
        part = {"name": keeper.wide("part"), "labels": {keeper.wide("gather"): "yes"}}
        await place.admin.create(CLUSTER_ROLES, {"metadata": part, "rules": [rule()]})
        await keeper.bind("admin", keeper.account("clusterrole"), kind="ClusterRole", ref="admin")
        for way in ways:
            await place.wait_applied(way, timeout=SOON)
        assert time.monotonic() - began < SOON
        for name in ("sum", "part"):
            await place.admin.delete(CLUSTER_ROLES, keeper.wide(name))


async def test_a_work_is_applied_as_a_whole_or_not_at_all(place: Workplace, keeper: Keeper) -> None:
    def of(name: str, value: str = "1") -> dict[str, object]:
        return config_map(name, place.namespace, v=value)

    await keeper.grant("some", rule(names=("p1",)))
    async with place.agent():
        await place.create("w", of("p1"), of("p2"), executor=keeper.executor())
        await keeper.wait_refused("w", WITHHELD, "not allowed to apply the resource  configmaps")
        assert (await place.data("p1"), await place.data("p2")) == (None, None)

        await keeper.role("some", rule(names=("p1", "p2")))
        await place.wait_applied("w", timeout=SOON)
        assert (await place.data("p1"), await place.data("p2")) == ({"v": "1"}, {"v": "1"})

        # A later refusal leaves everything as it was: nothing is written, and nothing that was dropped is removed.
        await place.change("w", of("p1", "2"), of("p3"))
        await keeper.wait_refused("w", WITHHELD, "not allowed to apply")
        assert (await place.data("p1"), await place.data("p2"), await place.data("p3")) == ({"v": "1"}, {"v": "1"}, None)
        assert condition(await place.manifest("w", 0), "Available")["status"] == "True"

        await keeper.role("some", rule(names=("p1", "p2", "p3")))
        await place.wait_applied("w", timeout=SOON)
        assert (await place.data("p1"), await place.data("p3")) == ({"v": "2"}, {"v": "1"})
        assert await place.wait(lambda: _gone(place, "p2"), "p2 to go")


async def _gone(place: Workplace, name: str) -> bool:
    return await place.data(name) is None


@pytest.mark.parametrize("strict", [True, False])
async def test_a_work_that_brings_its_executors_own_permissions(place: Workplace, keeper: Keeper, strict: bool) -> None:
    await keeper.grant("rbac", rule((*FULL, "escalate", "bind"), "roles,rolebindings", GROUP))
    manifests = (
        role("own", place.namespace, rule()),
        binding("own", place.namespace, "own", keeper.account()),
        config_map("cm", place.namespace),
    )
    async with place.agent(executor=ExecutorOptions(strict=strict)):
        await place.create("w", *manifests, executor=keeper.executor())
        if strict:
            await keeper.wait_refused("w", WITHHELD, WITHHELD, "not allowed to apply the resource  configmaps")
            assert await place.find(ROLE_BINDINGS, "own", place.namespace) is None
        else:
            await place.wait_applied("w", timeout=SOON)
        assert (await place.data("cm") is None) is strict


async def test_delete_is_needed_for_what_goes_with_the_work_only(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("most", rule(FULL[:-1]))
    orphaning = {"propagationPolicy": "Orphan"}
    rules = [{"group": "", "resource": "configmaps", "namespace": place.namespace, "name": "s1"}]
    selective = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}}

    def of(name: str) -> dict[str, object]:
        return config_map(name, place.namespace)

    async with place.agent():
        await place.create("foreground", of("f"), executor=keeper.executor())
        await place.create("orphaned", of("o"), executor=keeper.executor(), deleteOption=orphaning)
        await place.create("selective", of("s1"), of("s2"), executor=keeper.executor(), deleteOption=selective)
        await keeper.wait_refused("foreground", f"error: {keeper.user()} may not delete it")
        await keeper.wait_refused("selective", WITHHELD, f"error: {keeper.user()} may not delete it")
        await place.wait_applied("orphaned")
        assert await owners(place, "o") == []
        assert [await place.data(name) for name in ("f", "s1", "s2")] == [None, None, None]


async def test_each_verb_that_is_missing_refuses_and_is_named(place: Workplace, keeper: Keeper) -> None:
    for verb in FULL:
        await keeper.grant(f"all-but-{verb}", rule([one for one in FULL if one != verb]), to=keeper.account(f"no-{verb}"))
    async with place.agent():
        for verb in FULL:
            await place.create(verb, config_map(f"for-{verb}", place.namespace), executor=keeper.executor(f"no-{verb}"))
        for verb in FULL:
            await keeper.wait_refused(verb, f"error: {keeper.user(f'no-{verb}')} may not {verb} it")
            assert await place.data(f"for-{verb}") is None


async def test_what_was_applied_is_removed_though_permission_is_gone(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("app", rule())
    async with place.agent() as agent:
        await place.create("w", config_map("a", place.namespace), config_map("b", place.namespace), executor=keeper.executor())
        await place.wait_applied("w")
        await keeper.revoke("app")
        await keeper.wait_refused("w", "may not create", "may not create", timeout=SOON)

        # While it is refused, what was dropped from the work stays: nothing of it is written.
        await place.change("w", config_map("a", place.namespace))
        await keeper.wait_refused("w", "may not create")
        assert await place.data("b") is not None

        await agent.quiet(0.4)
        agent.forget()
        await place.delete("w")
        await place.wait_gone("w")
        assert (await place.data("a"), await place.data("b")) == (None, None)
        assert sars(agent) == 0


async def test_another_executor_is_judged_by_its_own_permissions(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("app", rule())
    async with place.agent() as agent:
        await place.create("w", config_map("cm", place.namespace, v="1"), executor=keeper.executor())
        await place.wait_applied("w")
        await place.change("w", config_map("cm", place.namespace, v="2"), executor=keeper.executor("nobody"))
        await keeper.wait_refused("w", f"error: {keeper.user('nobody')} may not create")
        assert await place.data("cm") == {"v": "1"}
        assert await owners(place, "cm") == [f"{agent.hub_hash}-w"]
        record = await place.record(agent, "w")
        assert record is not None
        assert [one["name"] for one in record["status"]["appliedResources"]] == ["cm"]

        await place.change("w", executor=keeper.executor())
        await place.wait_applied("w")
        assert await place.data("cm") == {"v": "2"}

        await agent.quiet(0.4)
        agent.forget()
        await place.change("w", config_map("cm", place.namespace, v="3"), executor=None)
        await place.wait_applied("w")
        assert await place.data("cm") == {"v": "3"}
        assert sars(agent) == 0


async def test_permissions_of_groups_come_and_go(place: Workplace, keeper: Keeper) -> None:
    await keeper.role("shared", rule())
    async with place.agent():
        await place.create("w", config_map("cm", place.namespace), executor=keeper.executor())
        await keeper.wait_refused("w", "may not create")
        for name in (f"system:serviceaccounts:{keeper.home}", "system:serviceaccounts", "system:authenticated"):
            await keeper.bind("shared", keeper.group(name))
            await place.wait_applied("w", timeout=SOON)
            await keeper.revoke("shared")
            await keeper.wait_refused("w", "may not create", timeout=SOON)


async def test_who_is_taken_out_of_a_binding_is_refused_from_then_on(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("app", rule())
    async with place.agent():
        await place.create("w", config_map("cm", place.namespace, v="1"), executor=keeper.executor())
        await place.wait_applied("w")
        await keeper.bind("app", keeper.account("somebody-else"))
        await keeper.wait_refused("w", "may not create", timeout=SOON)
        await place.change("w", config_map("cm", place.namespace, v="2"))
        await keeper.wait_refused("w", "may not create")
        assert await place.data("cm") == {"v": "1"}


async def test_a_strategy_needs_the_verbs_it_takes(place: Workplace, keeper: Keeper) -> None:
    await keeper.grant("read", rule(("get",)), to=keeper.account("reader"))
    await keeper.grant("make", rule(("create", "get", "delete")), to=keeper.account("maker"))
    watched = config_map("watched", place.namespace, v="1")
    made = config_map("made", place.namespace, v="1")
    await place.admin.create(CONFIG_MAPS, watched)

    def strategy(manifest: dict[str, object], name: str) -> list[dict[str, object]]:
        return [identifier(manifest, "configmaps", updateStrategy={"type": name})]

    async with place.agent():
        await place.create("reading", watched, executor=keeper.executor("reader"), manifestConfigs=strategy(watched, "ReadOnly"))
        await place.create("making", made, executor=keeper.executor("maker"), manifestConfigs=strategy(made, "CreateOnly"))
        await place.wait_applied("reading")
        await place.wait_applied("making")
        assert await owners(place, "watched") == []
        assert await place.data("made") == {"v": "1"}
