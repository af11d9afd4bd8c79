"""Our addon manager and controller of replica sets: they follow upstream's placements and serve upstream's agents, beside an addon
with a manager of upstream's own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.addon.conftest import ADDON_GROUP, INSTALL_NAMESPACE, config_map
from tests.interop.addon.addon_site import AddonSite
from tests.interop.addon.conftest import OurHub
from tests.interop.addon.programs import helloworld
from tests.interop.addon.scenes import installed_by_a_placement, labelled, replica_set_follows, with_role
from tests.support.administrator import CSRS, RBAC
from tests.support.network_namespace import unavailable

EXAMPLE = "helloworld"


def handed_out(site: AddonSite, role: str) -> str:
    """A role that our manager may hand out, because an administrator labelled it."""
    labels = {"open-cluster-management.io/aggregate-to-addon-manager": "true"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    site.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": role, "labels": labels}, "rules": rules}).expect(201)
    return role


@pytest.mark.timeout(240)
def test_an_addon_is_installed_by_upstreams_decisions_and_served_by_upstreams_agents(ours: OurHub) -> None:
    addon = ours.go.name("ours")
    installed_by_a_placement(ours.go, addon, with_role(handed_out(ours.go, addon)))


@pytest.mark.timeout(240)
def test_an_addon_that_upstreams_agent_is_given_by_hand_leaves_nothing_behind(ours: OurHub) -> None:
    site, addon = ours.go, ours.go.name("byhand")
    orphan = config_map(f"{addon}-kept", annotations={f"{ADDON_GROUP}/deletion-orphan": ""})
    site.offer(addon, site.template(addon, config_map(addon), orphan, registration=with_role(handed_out(site, addon))))
    site.enable(addon)
    site.wait_secret(f"{addon}-hub-kubeconfig")
    site.wait(addon, "Progressing", "False", "Completed")
    site.disable(addon)
    _is_gone(site, addon)
    maps = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps"
    site.hub.wait(lambda: site.on_cluster(f"{maps}/{addon}") is None, "its ConfigMap to be gone", 60)
    assert site.on_cluster(f"{maps}/{addon}-kept"), "what is orphaned stays"


@pytest.mark.timeout(180)
def test_our_replica_sets_follow_upstreams_decisions(ours: OurHub) -> None:
    labelled(ours.go, "replicas")
    replica_set_follows(ours.go, "our-set", ours.go.place("our-set", {"part": "replicas"}))


@pytest.mark.skipif(bool(unavailable()), reason=f"upstream's example takes a network of its own: {unavailable()}")
@pytest.mark.timeout(240)
def test_upstreams_example_is_installed_by_our_manager_on_our_and_upstreams_clusters(ours: OurHub, tmp_path: Path) -> None:
    """Its manager registers, approves and renders through v1beta1; ours installs and rolls it out; our agent has its credential,
    with which upstream's example agent then works."""
    site = ours.python
    admin = site.hub.cluster.kubeconfig
    config = site.config("example", customizedVariables=[{"name": "Image", "value": "quay.io/example/helloworld:v1"}])
    kind = {"apiVersion": f"{ADDON_GROUP}/v1beta1", "kind": "ClusterManagementAddOn"}
    strategy = {"type": "Placements", "placements": [{**site.place(EXAMPLE, {"part": EXAMPLE}), "configs": [config]}]}
    offer = {**kind, "metadata": {"name": EXAMPLE}, "spec": {"installStrategy": strategy}}
    with helloworld(site.hub, tmp_path / "manager", "controller", f"--kubeconfig={admin}"):
        site.admin.post(f"/apis/{ADDON_GROUP}/v1beta1/clustermanagementaddons", offer).expect(201)
        for one in (ours.go, ours.python):
            labelled(one, EXAMPLE)
        for one in (ours.go, ours.python):
            one.wait_secret(f"{EXAMPLE}-hub-kubeconfig")
            one.run_pods(f"{EXAMPLE}-agent")
            one.wait(EXAMPLE, "Available")
            one.wait(EXAMPLE, "Progressing", "False", "Completed")
        (request,) = site.admin.get(CSRS, query={"labelSelector": _of_example(site)}).expect(200)["items"]
        assert request["status"]["conditions"][0]["reason"] == "AutoApprovedByHubCSRApprovingController"
        if urlsplit(site.hub.cluster.url).port == urlsplit(site.spoke.cluster.url).port:
            _agent_works(site, tmp_path)
        for one in (ours.go, ours.python):
            labelled(one, None)
        for one in (ours.go, ours.python):
            _is_gone(one, EXAMPLE)


def _is_gone(site: AddonSite, addon: str) -> None:
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its credential to be gone", 60)


def _of_example(site: AddonSite) -> str:
    return f"open-cluster-management.io/addon-name={EXAMPLE},open-cluster-management.io/cluster-name={site.cluster}"


def _agent_works(site: AddonSite, directory: Path) -> None:
    """Upstream's example agent copies ConfigMaps from the hub, with the credential that our agent keeps. Into its network one port
    leads: both clusters must be served there, as embedded ones are."""
    files = directory / "credential"
    files.mkdir()
    for name, content in site.wait_secret(f"{EXAMPLE}-hub-kubeconfig").items():
        (files / name).write_bytes(content)
    site.admin.post(f"/api/v1/namespaces/{site.cluster}/configmaps", config_map("greeting", site.cluster, {"hello": "world"}))
    flags = [f"--kubeconfig={site.spoke.cluster.kubeconfig}", f"--hub-kubeconfig={files / 'kubeconfig'}"]
    flags += [f"--cluster-name={site.cluster}", f"--addon-namespace={INSTALL_NAMESPACE}"]
    with helloworld(site.hub, directory / "agent", "agent", *flags):
        copied = site.wait_on_cluster(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/greeting")
        assert copied["data"] == {"hello": "world"}
        site.wait_on_cluster(f"/apis/coordination.k8s.io/v1/namespaces/{INSTALL_NAMESPACE}/leases/{EXAMPLE}")
