"""A hub with a managed cluster as those of addons, and the addons of policies served on it; their Deployment is run by `Pod`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site, ground, grpc_signer, served, site
from tests.support.administrator import Document
from tests.support.hub_components import PolicyAddonHub
from tests.support.planes import ControlPlane
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER

__all__ = ["ground", "grpc_signer", "policy_addon", "site"]

CONTROLLER, STANDALONE = "config-policy-controller", "governance-standalone-hub-templating"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{INSTALL_NAMESPACE}/deployments/{CONTROLLER}"


@pytest.fixture(scope="package")
def policy_addon(site: Site, ground: ControlPlane) -> Iterator[PolicyAddonHub]:
    found = PolicyAddonHub(ground.cluster, ground.directory / "policy-addon")
    with served(site, found):
        yield found


class Pod:
    """Runs the policy controller as its Deployment says: command line, variables, account, and Secrets as files."""

    def __init__(self, site: Site, directory: Path) -> None:
        self._site = site
        self.directory = directory
        self.ports = free_ports(2)
        self.server: Server | None = None

    def deployment(self) -> Document:
        return self._site.wait_on_cluster(DEPLOYMENT)

    @property
    def arguments(self) -> list[str]:
        return list(self.deployment()["spec"]["template"]["spec"]["containers"][0]["args"])

    @property
    def volumes(self) -> dict[str, str]:
        """By its Secret: where its files are."""
        pod = self.deployment()["spec"]["template"]["spec"]
        mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
        return {one["secret"]["secretName"]: mounts[one["name"]] for one in pod["volumes"]}

    def mount(self) -> None:
        """Its Secrets as they are now, as files."""
        for secret in self.volumes:
            self._site.mount(secret, self.directory / secret)

    def start(self) -> Pod:
        container = self.deployment()["spec"]["template"]["spec"]["containers"][0]
        places = {place: str(self.directory / secret) for secret, place in self.volumes.items()}
        self.mount()
        health, metrics = self.ports
        given = {"$(POD_IP):8081": f"127.0.0.1:{health}", "$(POD_IP):8383": f"127.0.0.1:{metrics}", **places}
        pattern = re.compile("|".join(map(re.escape, given)))
        arguments = [pattern.sub(lambda found: given[found[0]], one) for one in container["args"]]
        account = self.deployment()["spec"]["template"]["spec"]["serviceAccountName"]
        kubeconfig = self._site.account_kubeconfig(account, self.directory)
        own = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        environment = {**own, "POD_NAMESPACE": INSTALL_NAMESPACE, "POD_NAME": "pod"}
        command = [MUSTER.parent / container["command"][0], *arguments]
        # A pod has its ports for itself; here the machine has them.
        command += [f"--kubeconfig={kubeconfig}", "--evaluation-backoff=0"]
        command += [f"--metrics-bind-address=127.0.0.1:{metrics}"]
        self.server = Server("config-policy-controller", command, self.directory / "controller.log", environment)
        self._site.hub.servers.append(self.server)
        self.server.start()
        return self

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop(timeout=10)
            self._site.hub.servers.remove(self.server)
            self.server = None


@pytest.fixture
def pod(site: Site, policy_addon: PolicyAddonHub, tmp_path: Path) -> Iterator[Pod]:
    found = Pod(site, tmp_path)
    yield found
    found.stop()
