"""A hub with a managed cluster as those of addons, and the addons of policies served on it; their Deployment is run by `Pod`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site, ground, grpc_signer, site
from tests.support.administrator import Document, service_account_token
from tests.support.hub_components import HubComponent
from tests.support.planes import ControlPlane, write_kubeconfig
from tests.support.processes import Server, complaints, free_ports
from tests.support.registration import MUSTER

__all__ = ["ground", "grpc_signer", "policy_addon", "site"]

CONTROLLER, STANDALONE = "config-policy-controller", "governance-standalone-hub-templating"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{INSTALL_NAMESPACE}/deployments/{CONTROLLER}"


class PolicyAddonHub(HubComponent):
    program = "policy-addon"
    service_account = "hub-addons-controller-sa"


@pytest.fixture(scope="package")
def policy_addon(site: Site, ground: ControlPlane) -> Iterator[PolicyAddonHub]:
    found = PolicyAddonHub(ground.cluster, ground.directory / "policy-addon")
    found.install()
    found.start()
    site.hub.servers += found.servers
    yield found
    found.stop()
    assert found.process is not None
    assert complaints(found.process.log) == []


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

    def start(self) -> Pod:
        container = self.deployment()["spec"]["template"]["spec"]["containers"][0]
        places: dict[str, str] = {}
        for secret, place in self.volumes.items():
            local = self.directory / secret
            local.mkdir(parents=True, exist_ok=True)
            for name, content in self._site.wait_secret(secret).items():
                (local / name).touch(mode=0o600)
                (local / name).write_bytes(content)
            places[place] = str(local)
        health, metrics = self.ports
        given = {"$(POD_IP):8081": f"127.0.0.1:{health}", "$(POD_IP):8383": f"127.0.0.1:{metrics}", **places}
        pattern = re.compile("|".join(map(re.escape, given)))
        arguments = [pattern.sub(lambda found: given[found[0]], one) for one in container["args"]]
        account = self.deployment()["spec"]["template"]["spec"]["serviceAccountName"]
        token = service_account_token(self._site.spoke.admin, INSTALL_NAMESPACE, account)
        cluster = self._site.spoke.cluster
        write_kubeconfig(self.directory / "spoke.kubeconfig", cluster.url, cluster.ca, {"token": token})
        own = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        environment = {**own, "POD_NAMESPACE": INSTALL_NAMESPACE, "POD_NAME": "pod"}
        command = [MUSTER.parent / container["command"][0], *arguments]
        # A pod has its ports for itself; here the machine has them.
        command += [f"--kubeconfig={self.directory / 'spoke.kubeconfig'}", "--evaluation-backoff=0"]
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
