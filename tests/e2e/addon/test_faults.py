"""What goes wrong on a hub, and harms no addon for long: leaders that die, and a hub that is back from an older state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.addon.conftest import ADDONS, CONFIGS, INSTALL_NAMESPACE, WORKS, Site, config_map
from tests.e2e.addon.test_installation import desired, progress, report
from tests.e2e.addon.test_template_addons import allow, applied, with_role
from tests.e2e.addon.test_tokens import READS, may_read
from tests.support.administrator import CSRS, HUB_NAMESPACE, Document
from tests.support.hub_components import AddonHub
from tests.support.processes import complaints
from tests.support.sites import beside_kube

pytestmark = beside_kube

LOCK = f"/apis/coordination.k8s.io/v1/namespaces/{HUB_NAMESPACE}/leases/manager-lock"
ONE_BY_ONE: dict[str, Any] = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}


@pytest.fixture
def managers(site: Site) -> Iterator[list[AddonHub]]:
    """Two addon managers instead of the site's; the first leads."""
    site.addons.stop()
    found = []
    for number in (1, 2):
        manager = AddonHub(site.hub.cluster, site.addons.kubeconfig.parent / f"replica-{number}")
        shutil.copy(site.addons.kubeconfig, manager.kubeconfig)
        manager.start("--leader-elect")
        found.append(manager)
    yield found
    for manager in found:
        manager.stop()
        assert manager.process is not None
        assert complaints(manager.process.log) == []
    site.addons.start()


def reference(addon: Document, kind: str, side: str) -> str:
    """The hash of the configuration of a kind that an addon should have, or has."""
    references = (addon.get("status") or {}).get("configReferences") or ()
    found: Document = next((one for one in references if one["resource"] == kind), {})
    return str((found.get(side) or {}).get("specHash") or "")


def test_a_rollout_goes_on_in_its_order_when_the_leader_dies(site: Site, managers: list[AddonHub]) -> None:
    first, _ = managers
    addon = site.name()
    clusters = [site.known_cluster(f"{addon}-{one}", {"for": addon}) for one in "abcd"]
    config = site.config(f"{addon}-config", customizedVariables=[{"name": "V", "value": "1"}])
    start = site.admin.get(f"{ADDONS}/managedclusteraddons").expect(200)["metadata"]["resourceVersion"]
    placement = {**site.place(addon, {"for": addon}), "configs": [config], "rolloutStrategy": ONE_BY_ONE}
    site.offer(addon, site.template(addon, config_map(addon, data={"v": "{{V}}"})), placements=[placement])

    def configured(cluster: str) -> bool:
        return desired(site, addon, cluster) == config["name"]

    for number, cluster in enumerate(clusters):
        site.hub.wait(lambda cluster=cluster: configured(cluster), f"{cluster} to be configured", 60)  # type: ignore[misc]
        if number == 1:
            assert first.process is not None
            # What it would do about the report, another has to.
            report(site, addon, cluster)
            first.process.stop(kill=True)
            site.admin.delete(LOCK).expect(200)
        else:
            report(site, addon, cluster)
    site.hub.wait(lambda: progress(site, addon, addon) == "Completed", "the rollout to be complete", 60)

    # What every watcher has seen: one after the other, each once.
    order, desires, applied = [], dict.fromkeys(clusters, ""), dict.fromkeys(clusters, "")
    for event in site.admin.watch(f"{ADDONS}/managedclusteraddons?resourceVersion={start}&timeoutSeconds=1"):
        one = event["object"]
        cluster = one["metadata"].get("namespace")
        if one["metadata"].get("name") != addon or cluster not in desires:
            continue
        wanted = reference(one, CONFIGS["resource"], "desiredConfig")
        if wanted != desires[cluster]:
            order.append(cluster)
        desires[cluster], applied[cluster] = wanted, reference(one, CONFIGS["resource"], "lastAppliedConfig")
        assert len([name for name in clusters if desires[name] != applied[name]]) <= 1
    assert order == clusters


def requests(site: Site, addon: str) -> list[Document]:
    return list(site.admin.get(f"{CSRS}?labelSelector=open-cluster-management.io/addon-name={addon}").expect(200)["items"])


def test_a_hub_that_is_back_from_an_older_state_comes_to_the_same_end(site: Site) -> None:
    addon = site.name()
    config = site.config(f"{addon}-config", customizedVariables=[{"name": "V", "value": "old"}])
    registration = with_role(allow(site, site.name("role"), READS))
    site.offer(addon, site.template(addon, config_map(addon, data={"v": "{{V}}"}), registration=registration))
    site.enable(addon, configs=[config])
    secret = site.wait_secret(f"{addon}-hub-kubeconfig")
    site.wait(addon, "Progressing", "False", "Completed")
    before, (work,), (request,) = applied(site, addon, CONFIGS["resource"]), site.works(addon), requests(site, addon)
    former = site.find(addon) or {}

    place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}"
    path = f"{ADDONS}/namespaces/default/addondeploymentconfigs/{addon}-config"
    site.admin.patch(path, {"spec": {"customizedVariables": [{"name": "V", "value": "new"}]}}).expect(200)
    site.hub.wait(lambda: applied(site, addon, CONFIGS["resource"]) not in ("", before), "the edit to be applied", 60)
    after = applied(site, addon, CONFIGS["resource"])

    # As it was before the edit, and before the request was answered.
    site.admin.delete(f"{CSRS}/{request['metadata']['name']}").expect(200)
    metadata = {key: request["metadata"][key] for key in ("name", "labels")}
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    site.agent.client().post(CSRS, {**kind, "metadata": metadata, "spec": request["spec"]}).expect(201)
    works = f"{WORKS}/namespaces/{site.cluster}/manifestworks/{work['metadata']['name']}"
    older = {"metadata": {"annotations": work["metadata"]["annotations"]}, "spec": work["spec"]}
    site.admin.patch(works, older).expect(200)
    site.admin.patch(f"{works}/status", {"status": work["status"]}).expect(200)
    site.admin.patch(f"{site.path(addon)}/status", {"status": former["status"]}).expect(200)

    def converged() -> bool:
        (found,) = site.works(addon)
        data = (site.on_cluster(place) or {}).get("data")
        return data == {"v": "new"} and after in str(found["metadata"]["annotations"])

    site.hub.wait(converged, "the newer configuration", 60)
    site.hub.wait(lambda: applied(site, addon, CONFIGS["resource"]) == after, "the newer configuration to be said applied", 60)
    site.wait(addon, "Progressing", "False", "Completed")
    assert site.secret(f"{addon}-hub-kubeconfig") == secret, "a credential that is good stays"
    assert may_read(site, secret)
    assert len(requests(site, addon)) == 1
    site.disable(addon)
