"""Where addons are installed, on an API server in this process: by placements, by hand, and when things are lost."""

from __future__ import annotations

import pytest

from muster.api.addons import MANUAL_ANNOTATION
from tests.support.addon_world import GROUP, by_placement
from tests.support.choosing import CLUSTERS, DECISIONS, NS, PLACEMENTS
from tests.unit.addon.manager.conftest import ADDON, ADDONS, MANAGED, Site

HOSTING = f"{GROUP}/hosting-cluster-name"


async def test_a_cluster_that_is_chosen_gets_the_addon_and_one_that_leaves_loses_it_a2(site: Site) -> None:
    await site.managed_cluster("c1", "c2", "c3")
    addon = await site.offer(by_placement("p"))
    await site.decide("p", "c1", "c2")
    found = await site.until_installed("c1", "c2")
    (owner,) = found["c1"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterManagementAddOn", ADDON, addon["metadata"]["uid"])
    assert owner["controller"]
    await site.decide("p", "c2", "c3")
    await site.until_installed("c2", "c3")
    await site.admin.delete(MANAGED, ADDON, "c2")

    async def is_back() -> bool:
        there = (await site.installed()).get("c2")
        return there is not None and there["metadata"]["uid"] != found["c2"]["metadata"]["uid"]

    await site.until(is_back, "the deleted one to be back")


async def test_each_addon_is_made_by_one_request(site: Site) -> None:
    names = [f"c{number}" for number in range(20)]
    await site.managed_cluster(*names)
    await site.offer(by_placement("p"))
    await site.decide("p", *names)
    await site.until_installed(*names)
    await site.until_progression("Completed", "20/20")
    made = [path for method, path in site.life.writes if method == "POST"]
    assert len(made) == 20
    others = [(method, path) for method, path in site.life.writes if method != "POST"]
    assert all(method == "PATCH" and path.endswith("/status") and "clustermanagementaddons" in path for method, path in others)


async def test_a_cluster_that_is_being_deleted_or_not_there_gets_none(site: Site) -> None:
    await site.managed_cluster("c1", "c2")
    await site.admin.patch(CLUSTERS, "c2", {"metadata": {"finalizers": ["test/hold"]}})
    await site.admin.delete(CLUSTERS, "c2")
    await site.offer(by_placement("p"))
    await site.decide("p", "c1", "c2", "nowhere", "..")
    await site.until_installed("c1")
    await site.quiet()
    assert set(await site.installed()) == {"c1"}
    await site.managed_cluster("nowhere")
    await site.until_installed("c1", "nowhere")


async def test_a_lost_placement_takes_nothing_with_it_and_a_removed_reference_does_a12(site: Site) -> None:
    """Defect 17: one that is not found would count as choosing nobody."""
    await site.managed_cluster("c1", "c2")
    await site.offer(by_placement("p"), by_placement("q"))
    await site.decide("p", "c1")
    await site.decide("q", "c2")
    await site.until_installed("c1", "c2")
    await site.admin.delete(DECISIONS, "p-decision-1", NS)
    await site.admin.delete(PLACEMENTS, "p", NS)
    await site.until_progression("PlacementNotFound")
    await site.quiet()
    assert set(await site.installed()) == {"c1", "c2"}
    await site.admin.patch(ADDONS, ADDON, {"spec": {"installStrategy": {"placements": [by_placement("q")]}}})
    await site.until_installed("c2")


async def test_a_placement_whose_decisions_are_lost_takes_nothing_with_it(site: Site) -> None:
    await site.managed_cluster("c1")
    await site.offer(by_placement("p"))
    await site.decide("p", "c1")
    status = {"numberOfSelectedClusters": 1, "decisionGroups": [], "conditions": []}
    await site.admin.patch(PLACEMENTS, "p", {"status": status}, NS, subresource="status")
    found = await site.until_installed("c1")
    await site.admin.delete(DECISIONS, "p-decision-1", NS)
    await site.until_progression("Progressing", "selected clusters 0.")
    await site.quiet()
    assert (await site.installed())["c1"]["metadata"]["uid"] == found["c1"]["metadata"]["uid"]
    await site.admin.patch(PLACEMENTS, "p", {"status": {"numberOfSelectedClusters": 0}}, NS, subresource="status")
    await site.until(lambda: _none(site), "the addon to go, now that the placement says that it chose nobody")


async def _none(site: Site) -> bool:
    return not await site.installed()


async def test_unselected_addons_go_but_those_marked_as_installed_by_hand_ocm_616(site: Site) -> None:
    """Defect 18."""
    await site.managed_cluster("c1", "c2", "c3")
    await site.enable("c2")
    await site.enable("c3", annotation=MANUAL_ANNOTATION)
    await site.offer(by_placement("p"))
    await site.decide("p", "c1")
    await site.until_installed("c1", "c3")
    await site.until_progression("Completed", "1 installed by hand on other clusters are kept.")


async def test_by_hand_nothing_is_made_or_removed_and_every_addon_is_owned(site: Site) -> None:
    await site.managed_cluster("c1")
    await site.enable("c1")
    addon = await site.offer()
    await site.until(lambda: _owned_by(site, "c1", addon["metadata"]["uid"]), "the owner")
    assert not (await site.installed())["c1"]["metadata"].get("annotations")


async def _owned_by(site: Site, cluster: str, uid: str) -> bool:
    owners = (await site.installed())[cluster]["metadata"].get("ownerReferences") or []
    return [one["uid"] for one in owners] == [uid]


async def test_a_recreated_addon_takes_over_what_the_one_before_it_owned_a12(bare: Site) -> None:
    await bare.managed_cluster("c1")
    first = await bare.offer()
    async with bare.manager():
        await bare.enable("c1")
        await bare.until(lambda: _owned_by(bare, "c1", first["metadata"]["uid"]), "the first owner")
        await bare.admin.delete(ADDONS, ADDON, propagation="Orphan")
        await bare.until(lambda: _is_gone(bare), "the first to be gone")
        second = await bare.offer()
        if "c1" not in await bare.installed():
            await bare.enable("c1")
        await bare.until(lambda: _owned_by(bare, "c1", second["metadata"]["uid"]), "the second owner")


async def test_with_an_addon_go_all_its_managed_cluster_addons_ocm_1156(site: Site) -> None:
    """Defect 26."""
    await site.managed_cluster("c1", "c2")
    await site.offer(by_placement("p"))
    await site.decide("p", "c1", "c2")
    await site.until_installed("c1", "c2")
    await site.admin.delete(ADDONS, ADDON)
    await site.until(lambda: _none(site), "the garbage collector to take them")


async def test_a_cluster_without_its_namespace_is_waited_for_and_keeps_no_other_waiting(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    await site.managed_cluster("c1")
    await site.admin.create(CLUSTERS, {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind, "metadata": {"name": "c2"}})
    await site.offer(by_placement("p"))
    await site.decide("p", "c1", "c2")
    await site.until_installed("c1")
    logged: list[str] = []

    async def missed() -> bool:
        logged.append(capsys.readouterr().err)
        return "namespace not found" in "".join(logged)

    await site.until(missed, "the namespace to be missed")
    await site.namespace("c2")
    await site.until_installed("c1", "c2")
    assert "level=error" not in "".join(logged) + capsys.readouterr().err


async def _is_gone(site: Site) -> bool:
    return await site.find(ADDONS, ADDON) is None


async def test_what_another_manager_looks_after_is_left_alone_but_for_its_owner(site: Site) -> None:
    await site.managed_cluster("c1", "c2")
    await site.enable("c2")
    addon = await site.offer(by_placement("p"), annotations={f"{GROUP}/lifecycle": "self"})
    await site.decide("p", "c1")
    await site.until(lambda: _owned_by(site, "c2", addon["metadata"]["uid"]), "the owner")
    await site.quiet()
    assert set(await site.installed()) == {"c2"}
    assert site.plans.of(ADDON) is None
    await site.admin.patch(ADDONS, ADDON, {"metadata": {"annotations": {f"{GROUP}/lifecycle": "addon-manager"}}})
    await site.until_installed("c1")


async def test_annotations_of_a_cluster_reach_its_addons_and_go_again_and_others_stay(site: Site) -> None:
    await site.managed_cluster("c1", **{HOSTING: "h1", f"{GROUP}/v1alpha1-install-namespace": "elsewhere", "mine": "1"})
    await site.offer(by_placement("p"))
    await site.decide("p", "c1")
    found = (await site.until_installed("c1"))["c1"]
    assert found["metadata"]["annotations"] == {HOSTING: "h1"}
    assert found["spec"]["installNamespace"] == "elsewhere"
    by_hand = {f"{GROUP}/values": "{}", f"{GROUP}/v1alpha1-install-namespace": "kept", "other": "x"}
    await site.admin.patch(MANAGED, ADDON, {"metadata": {"annotations": by_hand}}, "c1", manager="kubectl")
    await site.admin.patch(CLUSTERS, "c1", {"metadata": {"annotations": {HOSTING: "h2"}}})

    async def has(annotations: dict[str, str]) -> bool:
        return bool((await site.installed())["c1"]["metadata"]["annotations"] == annotations)

    await site.until(lambda: has({HOSTING: "h2", **by_hand}), "the new value")
    await site.admin.patch(CLUSTERS, "c1", {"metadata": {"annotations": {HOSTING: None}}})
    await site.until(lambda: has(by_hand), "the annotation to go")


async def test_a_poisoned_decision_or_placement_harms_itself_alone(site: Site) -> None:
    await site.managed_cluster("c1", "c2")
    await site.offer(by_placement("p"), by_placement("gone"))
    await site.offer(by_placement("q"), name="other")
    await site.decide("p", "c1", "..", "a/b", "x" * 253)
    await site.decide("q", "c2")
    await site.until_installed("c1")
    await site.until_installed("c2", name="other")
    await site.until_progression("Completed", "1/1", name="other")
