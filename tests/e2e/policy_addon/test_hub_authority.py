"""The hub shows a certificate of a new authority, and everything that hub templates need goes over to it without a restart.

On a kube-apiserver only, whose serving certificate and clients' authority are two things; the hub and the managed cluster are two
servers, and only kubelets are played: what is in Secrets becomes files.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.e2e.addon.conftest import Site, open_site, served
from tests.e2e.policy_addon.conftest import CONTROLLER, STANDALONE, Pod
from tests.e2e.policy_addon.test_hub_templating import bring, grant, wait_message
from tests.support.hub_components import PolicyAddonHub
from tests.support.kube_flags import manager_identity
from tests.support.pki import Authority
from tests.support.planes import KubeOptions, KubePlane, write_kubeconfig
from tests.support.policies import path
from tests.support.sites import beside_kube

pytestmark = beside_kube

NAME = "next-authority"


class Hub:
    def __init__(self, plane: KubePlane, site: Site, policy_addon: PolicyAddonHub) -> None:
        self.plane = plane
        self.site = site
        self._policy_addon = policy_addon
        self._old = plane.ca.read_bytes()
        self._next = Authority(plane.directory, NAME)

    def trust(self, *authorities: bytes) -> None:
        """The administrator says so to everybody on the hub, and to the managed cluster by its bootstrap kubeconfig."""
        self.plane.ca.write_bytes(b"".join(authorities))
        self.site.hub.admin = self.plane.client()
        self.site.agent.introduce(self.site.hub.trusted_kubeconfig())

    def restart_components(self) -> None:
        """Those beside the hub read its authority when they start."""
        self.plane.restart_one("kube-controller-manager")
        self.site.hub.restart(kill=False)
        for component in (self.site.placement, self.site.addons, self._policy_addon):
            component.stop()
            component.start()

    def begin(self) -> None:
        self.trust(self._old, self._next.pair.cert.read_bytes())
        self.restart_components()

    def replace_certificate(self) -> None:
        serving = self.plane.files.serving
        issued = self._next.issue("kube-apiserver", hosts=("127.0.0.1", "localhost"), file="next-serving")
        serving.cert.write_bytes(issued.cert.read_bytes())
        serving.key.write_bytes(issued.key.read_bytes())
        self.plane.restart_one("kube-apiserver")
        self.site.hub.admin.close()

    def end(self) -> None:
        self.trust(self._next.pair.cert.read_bytes())

    def authorities(self) -> int:
        """How many the addon's kubeconfig on the cluster trusts, of those; the old one counts ten."""
        config = yaml.safe_load(self.site.secret(f"{STANDALONE}-hub-kubeconfig")["kubeconfig"])
        given = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
        return 10 * (self._old.strip() in given) + (self._next.pair.cert.read_bytes().strip() in given)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    plane = KubePlane(tmp_path / "hub", KubeOptions(fsync=False))
    # What is trusted is a file of its own beside the authority of clients, which stays what it is.
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(plane.ca.read_bytes())
    plane.cluster = replace(plane.cluster, ca=trusted)
    write_kubeconfig(plane.kubeconfig, plane.url, trusted, {"token": plane.token})
    manager = plane.directory / "manager.kubeconfig"
    write_kubeconfig(manager, plane.url, trusted, manager_identity(plane.files))
    plane.start()
    try:
        with open_site(plane, Authority(tmp_path, "grpc signer")) as site:
            policy_addon = PolicyAddonHub(plane.cluster, tmp_path / "policy-addon")
            with served(site, policy_addon):
                yield Hub(plane, site, policy_addon)
    finally:
        plane.discard()


def test_a_hub_with_a_new_authority_is_followed_without_a_restart(hub: Hub, tmp_path: Path) -> None:
    site = hub.site
    site.enable(CONTROLLER)
    site.enable(STANDALONE)
    pod = Pod(site, tmp_path / "pod")
    policy = bring(site, "hub-template", '{{hub fromConfigMap "shop" "settings" "color" hub}}')
    site.wait_secret(f"{STANDALONE}-hub-kubeconfig")
    site.hub.wait(lambda: f"{STANDALONE}-hub-kubeconfig" in pod.volumes, "the volume", 30)
    group = site.wait_secret(f"{STANDALONE}-info")["hub.group"].decode()
    grant(site, group)
    pod.start()
    try:
        wait_message(site, policy, "Compliant")
        assert pod.server is not None
        process = pod.server.pid

        def arrives(color: str) -> None:
            site.admin.patch(path("ConfigMap", "shop", "settings"), {"data": {"color": color}}).expect(200)
            place = path("ConfigMap", "default", "hub-template")
            site.hub.wait(lambda: (site.on_cluster(place) or {}).get("data") == {"value": color}, f"{color} on the cluster", 60)

        assert hub.authorities() == 10
        hub.begin()
        site.hub.wait(lambda: hub.authorities() == 11, "the addon's kubeconfig to trust both", 60)
        pod.mount()
        hub.replace_certificate()
        arrives("green")
        hub.end()
        site.hub.wait(lambda: hub.authorities() == 1, "the addon's kubeconfig to trust the new one alone", 60)
        pod.mount()
        hub.plane.restart_one("kube-apiserver")
        site.admin.close()
        arrives("blue")
        for addon in (CONTROLLER, STANDALONE):
            site.wait(addon, "Available", reason="ManagedClusterAddOnLeaseUpdated")
        assert pod.server.pid == process
        assert pod.server.running
    finally:
        pod.stop()
