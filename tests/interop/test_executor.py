"""Upstream's Go work agent and ours judge the same executors alike, where ours is told to judge as upstream does.

Where it does not, on purpose, the works are `BETTER`: upstream's refusal there is a flaw that users have met.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.runtime.auth.rbac import ROLE_BINDINGS, ROLES
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.executor import ExecutorOptions
from tests.interop.ocm import Fleet
from tests.interop.test_work import Sides
from tests.support.executing import FULL, GROUP, Keeper, binding, role, rule
from tests.support.planes import Cluster, ControlPlane
from tests.support.working import Workplace, condition, config_map, identifier

SECRETS = rule(("get",), "secrets")
BETTER = {"named-role"}


def works(place: Workplace, keeper: Keeper) -> dict[str, dict[str, Any]]:
    """By name: spec with `manifests` for short; the executor of each has the name of the work."""
    space = place.namespace
    read = config_map("read", space)
    return {
        "all": {"manifests": [config_map("all", space)]},
        "none": {"manifests": [config_map("none", space)]},
        "some": {"manifests": [config_map("some1", space), config_map("some2", space)]},
        "group": {"manifests": [config_map("group", space)]},
        "undeletable": {"manifests": [config_map("undeletable", space)]},
        "orphaned": {"manifests": [config_map("orphaned", space)], "deleteOption": {"propagationPolicy": "Orphan"}},
        "read": {
            "manifests": [read],
            "manifestConfigs": [identifier(read, "configmaps", updateStrategy={"type": "ReadOnly"})],
        },
        "weak-role": {"manifests": [role("weak-role", space, rule(("get",)))]},
        "strong-role": {"manifests": [role("strong-role", space, SECRETS)]},
        "own-role": {
            "manifests": [
                role("own", space, rule()),
                binding("own", space, "own", keeper.account("own-role")),
            ]
        },
        "strong-binding": {
            "manifests": [binding("strong-binding", space, "cluster-admin", keeper.account("x"), kind="ClusterRole")]
        },
        "named-role": {"manifests": [role("named-role", space)]},
    }


async def permit(keeper: Keeper) -> None:
    rbac = rule(FULL, "roles,rolebindings", GROUP)
    rights: dict[str, list[Object]] = {
        "all": [rule()],
        "some": [rule(names=("some1",))],
        "undeletable": [rule(FULL[:-1])],
        "orphaned": [rule(FULL[:-1])],
        "read": [rule(("get",))],
        "weak-role": [rbac, rule()],
        "strong-role": [rbac, rule()],
        "own-role": [rbac, rule()],
        "strong-binding": [rbac, rule()],
        "named-role": [rule(FULL, "roles", GROUP, ("named-role",))],
    }
    for name, rules in rights.items():
        await keeper.grant(f"rights-{name}", *rules, to=keeper.account(name))
    # The groups of the other works' executors are another namespace's.
    group = keeper.group(f"system:serviceaccounts:{keeper.home}-group")
    await keeper.grant("rights-group", rule(), to=group)


@pytest.fixture
async def sides(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Sides]:
    cluster: Cluster = plane.cluster
    go, ours = Workplace(cluster), Workplace(cluster)
    for place in (go, ours):
        await place.prepare()
    fleet = Fleet(cluster, cluster, tmp_path, go.name)
    await asyncio.to_thread(fleet.start_work_agent, cluster.kubeconfig)
    try:
        async with ours.agent(executor=ExecutorOptions(strict=False, every_verb=True)):
            yield Sides(go, ours)
    finally:
        await asyncio.to_thread(fleet.stop)
        print(fleet.log())
        for place in (go, ours):
            await place.close()


async def verdicts(place: Workplace, name: str) -> list[tuple[str, str, bool]]:
    """Of each manifest: status, reason, and whether it is called not allowed; empty until there are any."""
    work = await place.work(name)
    status = (work or {}).get("status") or {}
    if condition(status, "Available").get("observedGeneration") != 1:
        return []
    said = [condition(entry, "Applied") for entry in status["resourceStatus"]["manifests"]]
    return [(one["status"], one["reason"], "not allowed to apply the resource" in one["message"]) for one in said]


async def objects(place: Workplace) -> set[str]:
    found: set[str] = set()
    for resource in (CONFIG_MAPS, ROLES, ROLE_BINDINGS):
        names = {one["metadata"]["name"] for one in (await place.admin.list(resource, place.namespace)).items}
        found |= {f"{resource.kind} {name}" for name in names if not name.startswith(("rights-", "kube-"))}
    return found


@pytest.mark.timeout(300)
async def test_both_agents_judge_the_same_executors_alike(sides: Sides) -> None:
    keepers = {place: Keeper(place) for place in (sides.go, sides.ours)}

    async def create(place: Workplace) -> None:
        keeper = keepers[place]
        await permit(keeper)
        for name, spec in works(place, keeper).items():
            executor = keeper.executor(name)
            if name == "group":
                executor["subject"]["serviceAccount"]["namespace"] = f"{keeper.home}-group"
            await place.create(sides.named(place, name), *spec.pop("manifests"), executor=executor, **spec)

    await sides.each(create)
    told: dict[str, list[tuple[str, str, bool]]] = {}
    for name in works(sides.go, keepers[sides.go]):
        both = [
            await place.wait(partial(verdicts, place, sides.named(place, name)), f"a verdict on {name}", 60)
            for place in (sides.go, sides.ours)
        ]
        if name in BETTER:
            assert both[0][0][0] == "False"
            assert both[1][0][0] == "True"
        else:
            assert both[0] == both[1], name
            told[name] = both[0]
    allowed = {name for name, verdict in told.items() if all(one[0] == "True" for one in verdict)}
    assert allowed == {"all", "group", "orphaned", "weak-role", "own-role"}
    assert [one[0] for one in told["some"]] == ["True", "False"]
    assert await objects(sides.ours) - await objects(sides.go) == {"Role named-role"}
    assert await objects(sides.go) <= await objects(sides.ours)
