"""Rollouts on an API server in this process: the manager plans and reports, the test plays whoever configures the clusters."""

from __future__ import annotations

import pytest

from muster.addon.spec_hash import spec_hash
from muster.api.addon.v1alpha1 import GROUP
from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CRDS
from tests.support.addon_world import by_placement, deployment_config
from tests.unit.addon.manager.conftest import ADDON, ADDONS, CONFIGS, MANAGED, Site

ONE = {"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "60s", "maxFailures": 0}}
CONFIG_MAPS = GVR("v1", "configmaps", "ConfigMap")
A, B = deployment_config("a"), deployment_config("b")


async def hash_in_hub(site: Site, name: str) -> str:
    return spec_hash(await site.admin.get(CONFIGS, name, "config"))


def hashes(site: Site, cluster: str) -> dict[str, str]:
    planned = site.planned(cluster)
    return {one.config.name: one.config.spec_hash for one in planned.configs} if planned else {}


async def until_hashes(site: Site, cluster: str, **expected: str) -> None:
    async def look() -> bool:
        return hashes(site, cluster) == expected

    await site.until(look, f"{expected} on {cluster}, not {hashes(site, cluster)}")


async def test_configurations_of_default_placement_and_cluster_have_their_hashes_a4(site: Site) -> None:
    await site.managed_cluster("x", "y")
    for name in "ab":
        await site.deployment_config(name)
    await site.deployment_config("own", "2")
    await site.offer(by_placement("p", B), defaults=[A])
    await site.decide("p", "x")
    await site.until_installed("x")
    await until_hashes(site, "x", b=await hash_in_hub(site, "b"))
    await site.admin.patch(MANAGED, ADDON, {"spec": {"configs": [deployment_config("own")]}}, "x")
    await until_hashes(site, "x", own=await hash_in_hub(site, "own"))
    status = await site.status()
    assert status["defaultconfigReferences"][0]["desiredConfig"]["specHash"] == await hash_in_hub(site, "a")
    await site.deployment_config("own", "3")
    await until_hashes(site, "x", own=await hash_in_hub(site, "own"))


async def test_a_configuration_that_is_missing_is_waited_for_a4(site: Site) -> None:
    await site.managed_cluster("x")
    await site.enable("x")
    await site.offer(defaults=[A])
    await until_hashes(site, "x", a="")
    await site.deployment_config("a")
    await until_hashes(site, "x", a=await hash_in_hub(site, "a"))
    await site.admin.delete(CONFIGS, "a", "config")
    await until_hashes(site, "x", a="")


async def test_configurations_may_be_config_maps(site: Site) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "config"}, "data": {"k": "v"}}
    await site.admin.create(CONFIG_MAPS, body)
    await site.managed_cluster("x")
    await site.enable("x")
    await site.offer(defaults=[{"group": "", "resource": "configmaps", "namespace": "config", "name": "cm"}])
    await until_hashes(site, "x", cm="8338386bc05b6a51ed41f42870cfc13b265df8ff411ce98a33e4786e7cd96be8")
    watched = {path for method, path in site.life.asked if "configmaps" in path}
    assert watched == {"/api/v1/namespaces/config/configmaps"} or not watched, "no other namespace is watched"


def widget_definition() -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v2", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    meta = {"name": "widgets.example.com"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


async def test_a_kind_that_is_not_served_yet_is_picked_up_when_it_comes(site: Site) -> None:
    await site.managed_cluster("x")
    await site.enable("x")
    await site.offer(defaults=[{"group": "example.com", "resource": "widgets", "name": "w"}, A])
    await site.deployment_config("a")
    await until_hashes(site, "x", w="", a=await hash_in_hub(site, "a"))
    # An administrator lets the account read it, as for any kind of somebody else's.
    await site.let_read("example.com", "widgets")
    await site.admin.create(CRDS, widget_definition())
    widgets = GVR("example.com/v2", "widgets", "Widget", namespaced=False)

    async def make() -> Object | None:
        return await site.make(widgets, {"metadata": {"name": "w"}, "spec": {"size": 3}})

    made = await site.until(make, "the kind to be served")
    await until_hashes(site, "x", w=spec_hash(made), a=await hash_in_hub(site, "a"))


@pytest.mark.parametrize(
    "reference",
    [
        {"group": "", "resource": "secrets", "namespace": "config", "name": "s"},
        {"group": GROUP, "resource": "addondeploymentconfigs", "namespace": "..", "name": "a"},
        {"group": GROUP, "resource": "addondeploymentconfigs", "name": "a"},
        {"group": GROUP, "resource": "addontemplates", "namespace": "config", "name": ".."},
        {"group": "../..", "resource": "a/b", "namespace": "config", "name": "x"},
    ],
    ids=["forbidden", "no such namespace", "without its namespace", "no such name", "no such kind"],
)
async def test_a_reference_that_leads_nowhere_harms_itself_alone(site: Site, reference: Object) -> None:
    """Said by an addon itself, so that it is really looked for."""
    await site.managed_cluster("x")
    await site.enable("x")
    await site.enable("x", name="other")
    await site.deployment_config("a")
    await site.offer(defaults=[reference])
    await site.offer(defaults=[A], name="other")

    async def planned() -> bool:
        other, own = site.planned("x", "other"), site.planned("x")
        return bool(other and other.configs[0].config.spec_hash and own and not own.configs[0].config.spec_hash)

    await site.until(planned, "both to be planned")


async def test_of_a_cluster_s_own_references_only_kinds_of_the_addon_are_read(site: Site) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "config"}, "data": {"k": "v"}}
    await site.admin.create(CONFIG_MAPS, body)
    await site.managed_cluster("x")
    await site.enable("x", configs=[{"group": "", "resource": "configmaps", "namespace": "config", "name": "cm"}])
    await site.offer(defaults=[])
    await until_hashes(site, "x", cm="")


async def test_a_change_rolls_out_canary_first_one_at_a_time_with_soak_and_stops_at_a_failure_a3(site: Site) -> None:
    await site.managed_cluster(*"abcd")
    await site.deployment_config("a")
    await site.offer(by_placement("rest", A, strategy=ONE), by_placement("canary", A))
    await site.decide("rest", *"abcd")
    await site.decide("canary", "a")
    await site.until_installed(*"abcd")
    await site.until_released("ab")
    await site.configure("a", "b")
    await site.quiet()
    assert site.released() == "ab", "b soaks"
    await site.clock.advance(60)
    await site.until_released("abc")
    await site.configure("c", complete=False)
    await site.fail("c")
    await site.quiet(100)
    await site.clock.advance(120)
    assert site.released() == "abc", "a failure stops it"
    await site.until_progression("Completed", "selected clusters 1. configured addons 1/1 completed", index=1)
    await site.configure("c")
    await site.clock.advance(61)
    await site.until_released("abcd")
    await site.configure("d")
    await site.clock.advance(61)
    progression = await site.until_progression("Completed", "selected clusters 4. configured addons 3/3 completed with no errors")
    (reference,) = progression["configReferences"]
    assert reference["lastKnownGoodConfig"] == reference["lastAppliedConfig"] == reference["desiredConfig"]
    assert reference["desiredConfig"]["specHash"] == await hash_in_hub(site, "a")
    await site.deployment_config("a", "2")
    await site.until_released("ab")


async def test_at_rest_nothing_is_asked_or_written(site: Site) -> None:
    await site.managed_cluster("x")
    await site.deployment_config("a")
    await site.offer(by_placement("p", A))
    await site.decide("p", "x")
    await site.until_installed("x")
    await until_hashes(site, "x", a=await hash_in_hub(site, "a"))
    await site.configure("x")
    await site.until_progression("Completed")
    await site.quiet()
    before = len(site.life.asked)
    await site.clock.advance(120)
    await site.quiet()
    assert site.life.asked[before:] == []


async def test_an_addon_that_goes_has_no_plan(site: Site) -> None:
    await site.managed_cluster("x")
    await site.enable("x")
    await site.offer()
    await site.until_released("x")
    await site.admin.delete(ADDONS, ADDON)

    async def gone() -> bool:
        return site.plans.of(ADDON) is None

    await site.until(gone, "the plan to go")


@pytest.mark.parametrize("status", [{"configReferences": [{"group": "g", "resource": "r", "name": "n"}]}, {"conditions": []}])
async def test_a_malformed_status_of_one_cluster_does_not_stop_the_others(site: Site, status: Object) -> None:
    await site.managed_cluster(*"ab")
    await site.deployment_config("a")
    await site.offer(by_placement("p", A, strategy={"type": "Progressive", "progressive": {"maxConcurrency": 1}}))
    await site.decide("p", *"ab")
    await site.until_installed(*"ab")
    await site.until_released("a")
    await site.admin.patch(MANAGED, ADDON, {"status": status}, "a", subresource="status")
    await site.deployment_config("a", "2")
    await until_hashes(site, "a", a=await hash_in_hub(site, "a"))
    await site.configure("a")
    await site.until_released("ab")
