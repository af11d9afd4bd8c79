"""The framework may die before or after any of its writes: the next one ends where it would have."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from muster.addon.agent_addon import Agent, Health, HealthMode, Installation, KubeClient, RoleBindingRequest
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.client.errors import NotFound
from tests.support.mortal_hub import Life
from tests.unit.addon.framework.conftest import ADDON, BINDINGS, HOST, MCAS, WORKS, AddonSite, config_map, deployment, hook

HOOK = f"addon-{ADDON}-pre-delete"
MOST = 16
"""Writes that no scenario needs."""


def everything(installation: Installation) -> Agent:
    large: Object = {**config_map("large"), "data": {"a": "x" * 300_000}}
    hosted = config_map("hosted", hosted_manifest_location="hosting")
    permissions = (RoleBindingRequest("ClusterRole", "nothing"), RoleBindingRequest("ClusterRole", "nothing", "shared"))
    return Agent(
        manifests=(deployment(), large, {**large, "metadata": config_map("larger")["metadata"]}, hosted, hook()),
        registrations=(KubeClient(permissions=permissions),),
        health=Health(HealthMode.WORKLOADS),
    )


async def prepared(site: AddonSite) -> str:
    site.addon.make = everything
    await site.namespace("shared")
    await site.cluster(HOST)
    await site.admin.apply(CLUSTER_ROLES, {"metadata": {"name": "nothing"}, "rules": []}, manager="test")
    return await site.offer()


async def left(site: AddonSite, cluster: str) -> str:
    """What is there in the end, but for what names the cluster, and times."""
    found = await site.find(cluster)
    hosted = {name: keys for name, keys in (await site.works(HOST)).items() if f"-{cluster}-" in name}
    bindings = [one for one in (await site.admin.list(BINDINGS)).items if f":{cluster}:" in one["metadata"]["name"]]
    conditions = {one["type"]: (one["status"], one["reason"]) for one in found["status"]["conditions"]}
    rest = {name: value for name, value in found["status"].items() if name != "conditions"}
    bound = sorted((one["metadata"]["name"], str(one["subjects"])) for one in bindings)
    end = (found["metadata"].get("finalizers"), conditions, rest, await site.works(cluster), hosted, bound)
    return str(end).replace(cluster, "X")


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_at_any_write(bare: AddonSite, early: bool) -> None:
    uid = await prepared(bare)
    clusters = [f"w{number}" for number in range(MOST)]
    for cluster in clusters:
        await bare.cluster(cluster)
    ends: list[str] = []
    for writes, cluster in enumerate(clusters):
        bare.plan(uid, clusters=tuple(clusters[: writes + 1]))
        await bare.enable(uid, cluster, annotations={HOSTING_CLUSTER_ANNOTATION: HOST})

        async def is_done(cluster: str = cluster) -> bool:
            return await bare.said("Progressing", cluster) is not None

        async with bare.running(Life(writes, before=early)) as life:

            async def over_or_done(life: Life = life) -> bool:
                return life.over.is_set() or await is_done()

            await bare.until(over_or_done, "the controller to die or to be done")
            await bare.settled()
            died = life.over.is_set()
        async with bare.running():
            await bare.until(is_done, "the end")
            await bare.settled()
        ends.append(await left(bare, cluster))
        if not died:
            break
    else:
        raise AssertionError(f"no controller should need {MOST} writes")
    assert len(ends) > 6
    assert len(set(ends)) == 1, ends


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_at_any_write_of_a_removal(bare: AddonSite, early: bool) -> None:
    uid = await prepared(bare)
    for writes in range(MOST):
        cluster = f"r{writes}"
        await bare.cluster(cluster)
        bare.plan(uid, clusters=(cluster,))
        await bare.enable(uid, cluster, annotations={HOSTING_CLUSTER_ANNOTATION: HOST})
        async with bare.running():
            await bare.until(partial(bare.said, "Progressing", cluster), "the addon to be there")
        await bare.admin.delete(MCAS, ADDON, cluster)

        async def is_gone(cluster: str = cluster) -> bool:
            """The hook is done as soon as it has begun."""
            with suppress(NotFound):
                if await bare.get(WORKS, HOOK, cluster) is not None:
                    await bare.report(HOOK, cluster, JobComplete="True")
            return await bare.find(cluster) is None and not await bare.works(HOST) and not await bare.bindings("shared")

        async with bare.running(Life(writes, before=early)) as life:

            async def over_or_gone(life: Life = life) -> bool:
                return life.over.is_set() or await is_gone()

            await bare.until(over_or_gone, "the controller to die or to be done")
            died = life.over.is_set()
        async with bare.running():
            await bare.until(is_gone, "everything to be gone")
        if not died:
            break
    else:
        raise AssertionError(f"no controller should need {MOST} writes")
    assert writes >= 4
