"""Objects that nobody can read, of every kind that addons are made of, harm themselves alone.

They are stored while the definitions of their kinds take anything, as they would be by an older version of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.addon.conftest import ADDONS, CLUSTERS, CONFIGS, INSTALL_NAMESPACE, TEMPLATES, WORKS, Site, config_map
from tests.e2e.addon.test_credentials import enabled, signing_request
from tests.e2e.addon.test_installation import wait_installed
from tests.e2e.addon.test_template_addons import KUBE_CLIENT
from tests.support.administrator import CSRS, Document
from tests.support.sites import beside_kube

pytestmark = beside_kube

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
KINDS = {
    "clustermanagementaddons": f"{ADDONS}/clustermanagementaddons",
    "managedclusteraddons": f"{ADDONS}/namespaces/{{cluster}}/managedclusteraddons",
    "addontemplates": f"{ADDONS}/addontemplates",
    "addondeploymentconfigs": f"{ADDONS}/namespaces/default/addondeploymentconfigs",
    "placements": f"{CLUSTERS}/v1beta1/namespaces/default/placements",
    "placementdecisions": f"{CLUSTERS}/v1beta1/namespaces/default/placementdecisions",
    "managedclusters": f"{CLUSTERS}/v1/managedclusters",
    "manifestworks": f"{WORKS}/namespaces/{{cluster}}/manifestworks",
}
SINGULAR = {
    "clustermanagementaddons": "ClusterManagementAddOn",
    "managedclusteraddons": "ManagedClusterAddOn",
    "addontemplates": "AddOnTemplate",
    "addondeploymentconfigs": "AddOnDeploymentConfig",
    "placements": "Placement",
    "placementdecisions": "PlacementDecision",
    "managedclusters": "ManagedCluster",
    "manifestworks": "ManifestWork",
}


@contextlib.contextmanager
def undefined(site: Site) -> Iterator[None]:
    """The hub takes anything of these kinds meanwhile."""
    found = [one for one in site.admin.get(CRDS).expect(200)["items"] if one["spec"]["names"]["plural"] in KINDS]
    with site.hub.without_webhooks():
        for one in found:
            versions = [{**version, "schema": ANYTHING} for version in one["spec"]["versions"]]
            site.admin.patch(f"{CRDS}/{one['metadata']['name']}", {"spec": {"versions": versions}}).expect(200)
        try:
            yield
        finally:
            for one in found:
                versions = one["spec"]["versions"]
                site.admin.patch(f"{CRDS}/{one['metadata']['name']}", {"spec": {"versions": versions}}).expect(200)


def poisons(name: str) -> list[tuple[str, Document, Document]]:
    """What is wrong with one object of each kind, in what is wanted and in what is reported; all of the addon of that name."""
    reference = {**CONFIGS, "namespace": "default", "name": name}
    strategy = {"type": "Placements", "placements": [{"namespace": "default", "name": name, "rolloutStrategy": 7}, None, "all"]}
    kinds = [None, 7, {"group": 1}, {**TEMPLATES, "defaultConfig": {"name": name}}, CONFIGS]
    return [
        (
            "managedclusters",
            {"taints": "none", "hubAcceptsClient": "perhaps", "leaseDurationSeconds": []},
            {"conditions": {"a": 1}},
        ),
        ("placements", {"predicates": 5, "numberOfClusters": "many", "decisionStrategy": []}, {"decisionGroups": "none"}),
        ("placementdecisions", {}, {"decisions": [None, {"clusterName": 5}, "x"]}),
        (
            "addontemplates",
            {"addonName": name, "agentSpec": {"workload": {"manifests": ["x", 7, None, {"kind": []}]}}, "registration": "all"},
            {},
        ),
        (
            "addondeploymentconfigs",
            {"customizedVariables": {"a": "x"}, "registries": 5, "nodePlacement": [], "proxyConfig": 1},
            {},
        ),
        (
            "clustermanagementaddons",
            {"supportedConfigs": kinds, "installStrategy": strategy, "addOnMeta": []},
            {"installProgressions": [None, {"configReferences": 3}], "defaultconfigReferences": "none"},
        ),
        (
            "managedclusteraddons",
            {"configs": [reference, None, 7], "installNamespace": 9},
            {
                "conditions": [None, {"type": 5}],
                "registrations": [{"signerName": 1, "subject": {"groups": "all"}}],
                "configReferences": [None, {"group": 1, "desiredConfig": 5}],
                "namespace": [],
            },
        ),
        (
            "manifestworks",
            {"workload": {"manifests": "none"}, "deleteOption": 3, "manifestConfigs": [None]},
            {"conditions": "good", "resourceStatus": {"manifests": [None, {"resourceMeta": 1}]}},
        ),
    ]


def store(site: Site, name: str) -> Iterator[str]:
    """Gives the paths of what is stored."""
    for plural, spec, status in poisons(name):
        place = KINDS[plural].format(cluster=site.cluster)
        group = place.split("/")[2:4]
        own = f"addon-{name}-deploy-0" if plural == "manifestworks" else name
        labels = {"open-cluster-management.io/addon-name": name, "cluster.open-cluster-management.io/placement": name}
        kind = {"apiVersion": "/".join(group), "kind": SINGULAR[plural]}
        body: dict[str, Any] = {**kind, "metadata": {"name": own, "labels": labels}, "spec": spec, "status": status}
        site.hub.wait_reply(partial(site.admin.post, place, body), f"{plural} {own}", 201, timeout=60)
        if status:
            site.admin.patch(f"{place}/{own}/status", {"status": status}).expect(200, 404)
        yield f"{place}/{own}"


@pytest.fixture
def poisoned(site: Site) -> Iterator[str]:
    name = site.name("poisoned")
    with undefined(site):
        paths = list(store(site, name))
    yield name
    with undefined(site):
        for path in reversed(paths):
            site.admin.delete(path).expect(200, 404)
            site.admin.patch(path, {"metadata": {"finalizers": None}})
    for path in paths:
        site.hub.wait(lambda path=path: site.hub.read(path) is None, f"{path} to be gone", 60)  # type: ignore[misc]


def test_addons_go_on_beside_objects_that_nobody_can_read(site: Site, poisoned: str) -> None:
    # Nobody's list fails, in either version.
    for plural in ("managedclusteraddons", "clustermanagementaddons", "addondeploymentconfigs"):
        # An API server that takes up a changed definition has to be asked again.
        listed = partial(site.admin.get, f"{ADDONS.replace('v1alpha1', 'v1beta1')}/{plural}")
        found = site.hub.wait_reply(listed, plural, 200)["items"]
        assert poisoned in [one["metadata"]["name"] for one in found]
    # A request in the name of the poisoned addon, which is looked at as well.
    request = signing_request(site, poisoned)
    site.agent.client().post(CSRS, request).expect(201)

    addon = enabled(site, [KUBE_CLIENT])
    assert site.wait_secret(f"{addon}-hub-kubeconfig")["kubeconfig"]
    site.wait_on_cluster(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}")
    site.wait(addon, "Progressing", "False", "Completed")
    chosen = site.name()
    cluster = site.known_cluster(f"{chosen}-a", {"for": chosen})
    site.offer(chosen, site.template(chosen, config_map(chosen)), placements=[site.place(chosen, {"for": chosen})])
    wait_installed(site, chosen, cluster)
    site.hub.wait(lambda: site.works(chosen, cluster), "works of the other addon", 60)

    for process in (site.hub.process, site.placement.process, site.addons.process, site.agent.process):
        assert process is not None
        assert process.running
    site.disable(addon)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.admin.delete(f"{CSRS}/{request['metadata']['name']}").expect(200)
