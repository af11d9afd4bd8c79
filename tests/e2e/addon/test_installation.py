"""Where install strategies put addons, in which order they are configured, and what a loss takes with it (A2, A3, A12)."""

from __future__ import annotations

from typing import Any

from tests.e2e.addon.conftest import ADDONS, CLUSTERS, CONFIGS, WORKS, Site, config_map
from tests.support.administrator import Document

CMAS = f"{ADDONS}/clustermanagementaddons"
PLACEMENTS = f"{CLUSTERS}/v1beta1/namespaces/default/placements"


def installed(site: Site, addon: str) -> list[str]:
    found = site.admin.get(f"{ADDONS}/managedclusteraddons").expect(200)["items"]
    return sorted(one["metadata"]["namespace"] for one in found if one["metadata"]["name"] == addon)


def wait_installed(site: Site, addon: str, *clusters: str) -> None:
    site.hub.wait(lambda: installed(site, addon) == sorted(clusters), f"{addon} on {clusters}", 60)


def desired(site: Site, addon: str, cluster: str, resource: str = CONFIGS["resource"]) -> str:
    """The name of the configuration of this kind that the cluster is to have by now."""
    references = site.status(addon, cluster).get("configReferences") or []
    return next((str(one["desiredConfig"]["name"]) for one in references if one["resource"] == resource), "")


def report(site: Site, addon: str, cluster: str, *, available: bool = True) -> None:
    """As a work agent would, for all works of the addon there."""

    def settled() -> bool:
        works = site.works(addon, cluster)
        for work in works:
            generation, now = work["metadata"]["generation"], "2026-11-18T00:00:00Z"
            seen = {"observedGeneration": generation, "lastTransitionTime": now, "message": ""}
            conditions = [
                {**seen, "type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete"},
                {**seen, "type": "Available", "status": "True" if available else "False", "reason": "Reported"},
            ]
            body = {"status": {"conditions": conditions, "resourceStatus": {"manifests": []}}}
            site.admin.patch(f"{WORKS}/namespaces/{cluster}/manifestworks/{work['metadata']['name']}/status", body).expect(200)
        return bool(works)

    site.hub.wait(settled, f"works of {addon} for {cluster}", 60)


def progression(site: Site, addon: str, placement: str) -> Document:
    status = (site.hub.read(f"{CMAS}/{addon}") or {}).get("status") or {}
    return next((dict(one) for one in status.get("installProgressions") or () if one["name"] == placement), {})


def progress(site: Site, addon: str, placement: str) -> str:
    conditions = progression(site, addon, placement).get("conditions") or []
    return next((str(one["reason"]) for one in conditions if one["type"] == "Progressing"), "")


def label(site: Site, cluster: str, **labels: str | None) -> None:
    site.admin.patch(f"{CLUSTERS}/v1/managedclusters/{cluster}", {"metadata": {"labels": labels}}).expect(200)


def test_clusters_get_the_addon_as_they_come_and_lose_it_as_they_leave(site: Site) -> None:
    addon = site.name()
    first, second, third = (site.known_cluster(f"{addon}-{one}", {"for": addon}) for one in "abc")
    site.offer(addon, site.template(addon, config_map(addon)), placements=[site.place(addon, {"for": addon})])
    wait_installed(site, addon, first, second, third)
    label(site, second, **{"for": None})
    wait_installed(site, addon, first, third)
    label(site, second, **{"for": addon})
    wait_installed(site, addon, first, second, third)
    site.disable(addon, first)
    wait_installed(site, addon, first, second, third)
    owners = (site.find(addon, first) or {})["metadata"]["ownerReferences"]
    assert [(one["kind"], one["controller"]) for one in owners] == [("ClusterManagementAddOn", True)]


def test_what_was_installed_by_hand_and_says_so_stays(site: Site) -> None:
    addon = site.name()
    chosen, other, manual = (site.known_cluster(f"{addon}-{one}") for one in "abc")
    label(site, chosen, **{"for": addon})
    annotation = {"addon.open-cluster-management.io/disable-automatic-installation": "true"}
    site.enable(addon, other)
    site.enable(addon, manual, annotations=annotation)
    site.offer(addon, site.template(addon, config_map(addon)), placements=[site.place(addon, {"for": addon})])
    wait_installed(site, addon, chosen, manual)


def test_a_lost_placement_takes_nothing_with_it_and_a_removed_reference_does(site: Site) -> None:
    addon = site.name()
    cluster = site.known_cluster(f"{addon}-a", {"for": addon})
    site.offer(addon, site.template(addon, config_map(addon)), placements=[site.place(addon, {"for": addon})])
    wait_installed(site, addon, cluster)
    uid = (site.find(addon, cluster) or {})["metadata"]["uid"]
    site.admin.delete(f"{PLACEMENTS}/{addon}").expect(200)
    # Something else that the manager has to do comes after it in the same queue.
    site.hub.wait(lambda: site.hub.read(f"{PLACEMENTS}/{addon}") is None, "the placement to be gone")
    site.admin.patch(f"{CMAS}/{addon}", {"metadata": {"labels": {"seen": "true"}}}).expect(200)
    site.hub.wait(lambda: "not found" in said(site, addon), "the manager to say that the placement is lost", 60)
    assert (site.find(addon, cluster) or {})["metadata"]["uid"] == uid
    site.admin.patch(f"{CMAS}/{addon}", {"spec": {"installStrategy": {"type": "Placements", "placements": []}}}).expect(200)
    wait_installed(site, addon)


def said(site: Site, addon: str) -> str:
    found = progression(site, addon, addon).get("conditions") or []
    return " ".join(str(one.get("message", "")) for one in found)


def test_of_two_placements_the_last_one_counts_and_a_rollout_goes_one_by_one(site: Site) -> None:
    addon = site.name()
    canary, one, two = (site.known_cluster(f"{addon}-{name}", {"for": addon}) for name in ("canary", "one", "two"))
    label(site, canary, ring=f"{addon}-canary")
    everybody, ring = site.place(addon, {"for": addon}), site.place(f"{addon}-canary", {"ring": f"{addon}-canary"})
    old, new = (site.config(f"{addon}-{name}", customizedVariables=[{"name": "V", "value": name}]) for name in ("old", "new"))
    strategy: dict[str, Any] = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}
    template = site.template(addon, config_map(addon, data={"v": "{{V}}"}))
    site.offer(
        addon, template, placements=[{**everybody, "configs": [old], "rolloutStrategy": strategy}, {**ring, "configs": [new]}]
    )
    site.hub.wait(lambda: desired(site, addon, canary) == new["name"], "the canary to be configured", 60)
    site.hub.wait(lambda: desired(site, addon, one) == old["name"], "the first to be configured", 60)
    assert desired(site, addon, two) == ""
    site.wait(addon, "Configured", "False", cluster=two)
    report(site, addon, one)
    site.hub.wait(lambda: desired(site, addon, two) == old["name"], "the second to be configured", 60)
    report(site, addon, two)
    site.hub.wait(lambda: progress(site, addon, addon) == "Completed", "the rollout to be complete", 60)
    (good,) = (one for one in progression(site, addon, addon)["configReferences"] if one["resource"] == CONFIGS["resource"])
    assert good["lastKnownGoodConfig"]["name"] == old["name"]
    assert good["lastKnownGoodConfig"] == good["lastAppliedConfig"] == good["desiredConfig"]


def await_garbage_collection(site: Site) -> None:
    """The collector looks for new kinds now and then: what it does not know as a dependent it does not orphan, but takes away."""
    addon = site.name()
    cluster = site.known_cluster(f"{addon}-a")
    site.offer(addon, site.template(addon, config_map(addon)))
    site.enable(addon, cluster)
    site.hub.wait(lambda: ((site.find(addon, cluster) or {}).get("metadata") or {}).get("ownerReferences"), "an owner", 60)
    site.admin.delete(f"{CMAS}/{addon}").expect(200)
    site.hub.wait(lambda: site.find(addon, cluster) is None, "the installation to go with its addon", 120)


def test_an_addon_that_is_made_anew_takes_its_installations_over(site: Site) -> None:
    await_garbage_collection(site)
    addon = site.name()
    template = site.template(addon, config_map(addon))
    cluster = site.known_cluster(f"{addon}-a")
    site.offer(addon, template)
    site.enable(addon, cluster)

    def owner() -> str:
        found = (site.find(addon, cluster) or {}).get("metadata", {}).get("ownerReferences") or [{}]
        return str(found[0].get("uid", ""))

    before = site.hub.wait(owner, "an owner", 60)
    site.admin.delete(f"{CMAS}/{addon}?propagationPolicy=Orphan").expect(200)
    site.hub.wait(lambda: site.hub.read(f"{CMAS}/{addon}") is None, "the addon to be gone", 60)
    again = site.offer(addon, template)["metadata"]["uid"]
    site.hub.wait(lambda: owner() == again, "the new owner", 60)
    assert again != before
