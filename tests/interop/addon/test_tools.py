"""Upstream's clusteradm and kubectl with addons and placements of ours: what they make is served, what they show is there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.addon.conftest import CLUSTERS, config_map, deployment
from tests.interop.addon.addon_site import AddonSite
from tests.interop.addon.conftest import AUTO, our_agents, started
from tests.interop.addon.scenes import labelled
from tests.support import peers
from tests.support.administrator import RBAC
from tests.support.hub_components import AddonHub, PlacementHub
from tests.support.kubectl import kubectl
from tests.support.planes import ControlPlane
from tests.support.registration import Hub

KINDS = (
    "clustermanagementaddons",
    "managedclusteraddons",
    "addontemplates",
    "addondeploymentconfigs",
    "placements",
    "placementdecisions",
    "managedclustersetbindings",
    "managedclusters",
    "manifestworks",
)


@pytest.fixture(scope="module")
def site(ground: ControlPlane) -> Iterator[AddonSite]:
    hub = started(Hub(ground.cluster, ground.directory / "hub", AUTO))
    components = [part(ground.cluster, ground.directory / part.program) for part in (PlacementHub, AddonHub)]
    for one in components:
        one.install()
        one.start()
        hub.servers += one.servers
    with our_agents(hub, ground.extra("python"), ground.directory / "python", "python") as site:
        yield site
    for one in components:
        one.stop()
    hub.stop()


def clusteradm(site: AddonSite, *arguments: str | Path) -> str:
    command = [peers.need("clusteradm"), *arguments, "--kubeconfig", site.hub.cluster.kubeconfig]
    environment = {"HOME": str(site.hub.cluster.kubeconfig.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, f"clusteradm {arguments}: {done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def manifests(directory: Path, name: str) -> Path:
    file = directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump_all([deployment(name), config_map(name)]))
    return file


@pytest.mark.timeout(180)
def test_upstreams_clusteradm_makes_a_placement_and_an_addon_that_it_installs(site: AddonSite, tmp_path: Path) -> None:
    name = site.name("tool")
    labels = {"open-cluster-management.io/aggregate-to-addon-manager": "true"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    site.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": name, "labels": labels}, "rules": rules}).expect(201)
    clusteradm(site, "clusterset", "bind", "global", "--namespace", "default")
    labelled(site, name)
    selected = ("--label-selectors", f"part={name}", "--count", "1", "--prioritizers", "BuiltIn:Steady:3")
    clusteradm(site, "create", "placement", name, "--namespace", "default", "--clustersets", "global", *selected)
    chosen = f"{CLUSTERS}/v1beta1/namespaces/default/placements/{name}"
    site.hub.wait(lambda: (site.hub.read(chosen) or {}).get("status", {}).get("numberOfSelectedClusters") == 1, "a decision")
    assert name in clusteradm(site, "get", "placements", "--namespace", "default")

    granted = ("--hub-registration", "--cluster-role-bind", name, "--placement-ref", f"default/{name}")
    clusteradm(site, "addon", "create", name, "-f", manifests(tmp_path, name), *granted)
    site.wait_secret(f"{name}-hub-kubeconfig")
    site.run_pods(name)
    site.wait(name, "Available")
    shown = clusteradm(site, "get", "addon", "--clusters", site.cluster, "-o", "table")
    assert name in shown, shown
    for kind in KINDS:
        listed = kubectl(site.hub.cluster, "get", kind, "-A").expect().out
        assert len(listed.splitlines()) > 1 or kind == "addondeploymentconfigs", f"{kind}: {listed}"
        kubectl(site.hub.cluster, "describe", kind, "-A").expect()
    row = kubectl(site.hub.cluster, "get", "managedclusteraddons", "-n", site.cluster, name, "--no-headers").expect().out.split()
    assert row[:2] == [name, "True"]
    for version in ("v1alpha1", "v1beta1"):
        kind = f"managedclusteraddons.{version}.addon.open-cluster-management.io"
        kubectl(site.hub.cluster, "get", kind, "-n", site.cluster, name, "-o", "yaml").expect()
    labelled(site, None)
    site.hub.wait(lambda: site.find(name) is None, "the addon to be gone", 60)


@pytest.mark.timeout(180)
def test_upstreams_clusteradm_enables_and_disables_an_addon(site: AddonSite, tmp_path: Path) -> None:
    name = site.name("tool")
    clusteradm(site, "addon", "create", name, "-f", manifests(tmp_path, name))
    enabled = ("--names", name, "--clusters", site.cluster)
    clusteradm(site, "addon", "enable", *enabled, "--labels", "team=blue")
    site.wait(name, "ManifestApplied")
    site.run_pods(name)
    site.wait(name, "Available")
    assert (site.find(name) or {})["metadata"]["labels"]["team"] == "blue"
    clusteradm(site, "addon", "disable", *enabled)
    site.hub.wait(lambda: site.find(name) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: not site.works(name), "its works to be gone", 60)
