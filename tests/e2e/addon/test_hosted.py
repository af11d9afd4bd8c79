"""An addon in Python, with a manager of its own, that runs on another cluster than the one it is for (A9).

The cluster that it is for is the hub here; its agents run on the managed cluster of the site, which hosts the addon as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tests.e2e.addon.conftest import ADDON_GROUP, ADDONS, INSTALL_NAMESPACE, Site, hosted_agent
from tests.e2e.addon.hosted_manager import LOCATIONS
from tests.e2e.addon.test_credentials import LEASES
from tests.e2e.addon.test_template_addons import allow
from tests.e2e.addon.test_tokens import READS
from tests.support.administrator import Document, read_secret
from tests.support.peers import ROOT
from tests.support.processes import Server, complaints, python_path

HOSTING = "addon.open-cluster-management.io/hosting-cluster-name"


@dataclass
class Hosted:
    """A cluster whose agents run elsewhere, and an addon of it."""

    site: Site
    cluster: str
    addon: str

    def on(self, *, hosting: bool) -> list[str]:
        """Locations of the addon's manifests that are on one of both clusters."""
        client = self.site.spoke.admin if hosting else self.site.admin
        maps = client.get(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps").expect(200)["items"]
        names = {one["metadata"]["name"] for one in maps if not one["metadata"].get("deletionTimestamp")}
        return [one for one in LOCATIONS if f"{self.addon}-{one}" in names]

    def wait_on(self, *locations: str, hosting: bool) -> None:
        what = f"{self.addon} {locations} on the {'hosting' if hosting else 'managed'} cluster"
        self.site.hub.wait(lambda: self.on(hosting=hosting) == list(locations), what, 60)

    def secret(self, *, hosting: bool) -> dict[str, bytes]:
        client = self.site.spoke.admin if hosting else self.site.admin
        return read_secret(client, INSTALL_NAMESPACE, f"{self.addon}-hub-kubeconfig")

    def wait_secret(self, *, hosting: bool) -> dict[str, bytes]:
        """On one of both clusters, and not on the other."""
        found = self.site.hub.wait(lambda: self.secret(hosting=hosting), "its Secret", 60)
        self.site.hub.wait(lambda: not self.secret(hosting=not hosting), "no Secret on the other cluster", 60)
        return found

    def host(self, cluster: str | None) -> None:
        """Have it hosted by this one, or by none."""
        self.site.admin.patch(self.site.path(self.addon, self.cluster), {"metadata": {"annotations": {HOSTING: cluster}}}).expect(
            200
        )

    def finalizers(self) -> list[str]:
        return list((self.site.find(self.addon, self.cluster) or {}).get("metadata", {}).get("finalizers") or ())

    def wait(self, kind: str, status: str = "True") -> Document:
        return self.site.wait(self.addon, kind, status, cluster=self.cluster)


@pytest.fixture(scope="module")
def hosted(site: Site) -> Iterator[Hosted]:
    addon = site.name()
    allow(site, addon, READS)
    kind = {"apiVersion": f"{ADDON_GROUP}/v1alpha1", "kind": "ClusterManagementAddOn"}
    site.admin.post(f"{ADDONS}/clustermanagementaddons", {**kind, "metadata": {"name": addon}, "spec": {}}).expect(201)
    with hosted_agent(site) as agent:
        command = [sys.executable, "-m", "tests.e2e.addon.hosted_manager", addon, str(site.addons.kubeconfig)]
        manager = Server(f"manager of {addon}", command, agent.files.parent / "manager.log", python_path(ROOT))
        site.hub.servers.append(manager)
        manager.start()
        yield Hosted(site, agent.name, addon)
        manager.stop(timeout=10)
        site.hub.servers.remove(manager)
        assert complaints(manager.log) == []


def test_each_cluster_gets_its_part_and_the_agent_has_its_credential_where_it_runs(site: Site, hosted: Hosted) -> None:
    site.enable(hosted.addon, hosted.cluster, annotations={HOSTING: site.cluster})
    hosted.wait_on("managed", hosting=False)
    hosted.wait_on("hosting", hosting=True)
    for kind in ("HostingClusterValidity", "ManifestApplied", "HostingManifestApplied", "RegistrationApplied"):
        hosted.wait(kind)
    assert [work["metadata"]["name"] for work in site.works(hosted.addon, hosted.cluster)] == [f"addon-{hosted.addon}-deploy-0"]
    (work,) = site.works(hosted.addon, site.cluster)
    assert work["metadata"]["name"] == f"addon-{hosted.addon}-deploy-hosting-{hosted.cluster}-0"
    assert work["metadata"]["labels"]["open-cluster-management.io/addon-namespace"] == hosted.cluster
    secret = hosted.wait_secret(hosting=True)
    assert secret["cluster-name"].decode() == hosted.cluster
    agent = site.addon_client(secret)
    assert agent.get(f"/api/v1/namespaces/{hosted.cluster}/configmaps").status == 200
    assert agent.get(f"/api/v1/namespaces/{site.cluster}/configmaps").status == 403

    lease = {"metadata": {"name": hosted.addon}, "spec": {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
    site.spoke.admin.post(f"{LEASES}/namespaces/{INSTALL_NAMESPACE}/leases", lease).expect(201)
    hosted.wait("Available")


def test_a_host_that_is_no_cluster_of_the_hub_is_named_and_hosts_nothing(site: Site, hosted: Hosted) -> None:
    hosted.host("nobody")
    found = hosted.wait("HostingClusterValidity", "False")
    assert found["reason"] == "HostingClusterInvalid"
    assert found["message"] == "hosting cluster nobody is not a managed cluster of the hub"
    hosted.wait_on(hosting=True)
    assert hosted.on(hosting=False) == ["managed"]
    hosted.host(site.cluster)
    hosted.wait("HostingClusterValidity")
    hosted.wait_on("hosting", hosting=True)


def test_an_addon_that_is_hosted_no_longer_leaves_nothing_on_its_former_host(site: Site, hosted: Hosted) -> None:
    hosted.host(None)
    hosted.wait_on(*LOCATIONS, hosting=False)
    hosted.wait_on(hosting=True)
    site.hub.wait(lambda: site.works(hosted.addon, site.cluster) == [], "no works of the former host", 60)
    assert hosted.wait_secret(hosting=False)["cluster-name"].decode() == hosted.cluster
    site.hub.wait(lambda: hosted.finalizers() == [], "nothing that holds it", 60)
    for kind in ("HostingClusterValidity", "HostingManifestApplied"):
        assert site.condition(hosted.addon, kind, hosted.cluster) == {}


def test_a_hosted_addon_that_is_disabled_leaves_nothing_on_either_cluster(site: Site, hosted: Hosted) -> None:
    hosted.host(site.cluster)
    hosted.wait_on("managed", hosting=False)
    hosted.wait_on("hosting", hosting=True)
    hosted.wait_secret(hosting=True)
    site.disable(hosted.addon, hosted.cluster)
    site.hub.wait(lambda: site.find(hosted.addon, hosted.cluster) is None, "the addon to be gone", 60)
    for side in (True, False):
        hosted.wait_on(hosting=side)
    site.hub.wait(lambda: not hosted.secret(hosting=True), "its Secret to be gone", 60)
    site.hub.wait(lambda: site.works(hosted.addon, site.cluster) == [], "no works of the host", 60)
    site.hub.wait(lambda: site.works(hosted.addon, hosted.cluster) == [], "no works of its own cluster", 60)
