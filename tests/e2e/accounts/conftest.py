"""A hub with a managed cluster as those of addons, and Muster's own addons served on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site, ground, grpc_signer, served, site
from tests.support.administrator import read_secret
from tests.support.hub_components import OwnAddons
from tests.support.planes import ControlPlane
from tests.support.processes import Server, complaints, free_ports
from tests.support.registration import MUSTER

__all__ = ["agent", "ground", "grpc_signer", "own_addons", "site"]

AGENT = "managed-serviceaccount-addon-agent"
MANAGED = "managed-serviceaccount"
GATEWAY = "cluster-gateway"
ACCOUNTS = "/apis/authentication.open-cluster-management.io/v1beta1"


@pytest.fixture(scope="package")
def own_addons(site: Site, ground: ControlPlane) -> Iterator[OwnAddons]:
    found = OwnAddons(ground.cluster, ground.directory / "own-addons")
    with served(site, found):
        yield found


def account_agent(site: Site, directory: Path, account: str = AGENT) -> Server:
    """What the addon's Deployment would run, with the account and credential that the addon brought; there is no kubelet."""
    site.wait_on_cluster(f"/apis/apps/v1/namespaces/{INSTALL_NAMESPACE}/deployments/{AGENT}")
    site.mount(f"{MANAGED}-hub-kubeconfig", directory)
    own = site.account_kubeconfig(account, directory)
    (health,) = free_ports(1)
    command: list[str | Path] = [MUSTER, "managed-serviceaccount-agent", f"--cluster-name={site.cluster}"]
    command += [f"--kubeconfig={directory / 'kubeconfig'}", f"--spoke-kubeconfig={own}"]
    command += [f"--namespace={INSTALL_NAMESPACE}", f"--health-port={health}"]
    return Server("muster managed-serviceaccount-agent", command, directory / "agent.log")


@pytest.fixture(scope="module")
def agent(site: Site, own_addons: OwnAddons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if site.find(MANAGED) is None:
        site.enable(MANAGED)
    server = account_agent(site, Path(tmp_path_factory.mktemp("account-agent")))
    server.start()
    site.hub.servers.append(server)
    yield server
    server.stop(timeout=10)
    assert complaints(server.log) == []
    text = server.log.read_text()
    assert "eyJ" not in text


def path(site: Site, name: str = "") -> str:
    return f"{ACCOUNTS}/namespaces/{site.cluster}/managedserviceaccounts" + (f"/{name}" if name else "")


def reported(site: Site, name: str, besides: str = "") -> str:
    """Its token, once it is another one than `besides`."""

    def look() -> str:
        account = site.hub.read(path(site, name)) or {}
        conditions = (account.get("status") or {}).get("conditions") or []
        told = any((one["type"], one["status"]) == ("TokenReported", "True") for one in conditions)
        token = read_secret(site.admin, site.cluster, name).get("token", b"").decode() if told else ""
        return token if token != besides else ""

    return site.hub.wait(look, f"a token of {name}", 60)
