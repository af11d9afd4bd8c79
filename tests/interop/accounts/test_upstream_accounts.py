"""Upstream's managed-serviceaccount and ours take each other's place: its agent on our hub, our agent with its manager."""

from __future__ import annotations

import functools
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.accounts.conftest import MANAGED, account_agent
from tests.e2e.accounts.test_accounts import as_account, path, reported, want
from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site
from tests.support import peers
from tests.support.administrator import HUB_NAMESPACE, read_secret
from tests.support.hub_components import OwnAddons
from tests.support.planes import ControlPlane
from tests.support.processes import Server, free_ports


@functools.cache
def upstream() -> Path:
    command = ["make", "-s", "-C", str(peers.ROOT / "peers/accounts"), "print-bin"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


pytestmark = pytest.mark.skipif(not upstream().exists(), reason="managed-serviceaccount is not built: make -C peers/accounts")


def program(name: str, directory: Path, *arguments: str, **variables: str) -> Server:
    metrics, probes = free_ports(2)
    given = [f"{key}={value}" for key, value in variables.items()]
    listen = [f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{probes}"]
    command: list[str | Path] = ["env", *given, upstream(), name, *listen, *arguments]
    return Server(f"upstream's managed-serviceaccount {name}", command, directory / f"{name}.log")


@contextmanager
def running(site: Site, server: Server) -> Iterator[Server]:
    site.hub.servers.append(server)
    server.start()
    try:
        yield server
    finally:
        server.stop(timeout=10)


@contextmanager
def served_by_us(site: Site, ground: ControlPlane) -> Iterator[None]:
    ours = OwnAddons(ground.cluster, ground.directory / "own-addons")
    ours.install()
    ours.start()
    site.hub.servers += ours.servers
    try:
        yield
    finally:
        ours.stop()


def health_port_is_free() -> bool:
    """Upstream's agent listens there, whatever it is told, and ends where it cannot."""
    with socket.socket() as tried:
        try:
            tried.bind(("0.0.0.0", 8000))
        except OSError:
            return False
    return True


@contextmanager
def enabled(site: Site) -> Iterator[None]:
    site.enable(MANAGED)
    try:
        yield
    finally:
        site.disable(MANAGED)
        site.hub.wait(lambda: site.find(MANAGED) is None, "the addon to go", 60)
        site.hub.wait(lambda: not site.secret(f"{MANAGED}-hub-kubeconfig"), "its credential to go", 60)


def lives_and_goes(site: Site, name: str) -> None:
    want(site, name)
    token = reported(site, name)
    assert set(read_secret(site.admin, site.cluster, name)) == {"ca.crt", "token"}
    assert as_account(site, token).get("/api/v1/namespaces").status == 403
    site.admin.delete(f"/api/v1/namespaces/{site.cluster}/secrets/{name}").expect(200)
    second = reported(site, name, besides=token)
    site.admin.delete(path(site, name)).expect(200)
    place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/serviceaccounts/{name}"
    site.hub.wait(lambda: site.on_cluster(place) is None, "the account to go", 60)
    site.hub.wait(lambda: as_account(site, second).get("/api/v1/namespaces").status == 401, "the token to end", 60)


@pytest.mark.timeout(300)
def test_upstreams_agent_and_ours_on_our_hub(site: Site, ground: ControlPlane, tmp_path: Path) -> None:
    if not health_port_is_free():
        pytest.skip("port 8000, which upstream's agent insists on, is somebody else's")
    with served_by_us(site, ground), enabled(site):
        mine = account_agent(site, tmp_path)
        flags = [f"--cluster-name={site.cluster}", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--lease-health-check"]
        flags += [f"--spoke-kubeconfig={tmp_path / 'spoke.kubeconfig'}"]
        theirs = program("agent", tmp_path, *flags, NAMESPACE=INSTALL_NAMESPACE, HUB_KUBECONFIG=str(tmp_path / "kubeconfig"))
        with running(site, theirs):
            site.wait(MANAGED, "Available")
            lives_and_goes(site, "gopher")
            want(site, "shared")
            token = reported(site, "shared")
        with running(site, mine):
            lives_and_goes(site, "python")
            # What upstream's agent has left serves on.
            assert reported(site, "shared") == token
            site.admin.delete(path(site, "shared")).expect(200)
            place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/serviceaccounts/shared"
            site.hub.wait(lambda: site.on_cluster(place) is None, "the account to go", 60)


@pytest.mark.timeout(300)
def test_our_agent_where_upstreams_manager_serves(site: Site, ground: ControlPlane, tmp_path: Path) -> None:
    # The kind and the addon's definition, which upstream's chart would bring.
    OwnAddons(ground.cluster, ground.directory / "own-addons").install()
    flags = [f"--kubeconfig={ground.cluster.kubeconfig}", "--agent-image-name=example.com/agent:1"]
    manager = program("manager", tmp_path, *flags, NAMESPACE=HUB_NAMESPACE)
    with running(site, manager), enabled(site), running(site, account_agent(site, tmp_path / "agent", account=MANAGED)):
        lives_and_goes(site, "python")
