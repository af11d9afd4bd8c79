"""Upstream's config-policy-controller as our addons deploy it, our hub and agents in between; only the kubelet is played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.addon.conftest import Site, open_site, served
from tests.e2e.policy_addon.conftest import CONTROLLER, STANDALONE, Pod
from tests.e2e.policy_addon.test_hub_templating import bring, grant, wait_message
from tests.interop.policy.sides import upstream
from tests.support.hub_components import PolicyAddonHub
from tests.support.network_namespace import unavailable
from tests.support.pki import Authority
from tests.support.planes import ControlPlane, lent
from tests.support.policies import path
from tests.support.rendered_pod import RenderedPod

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"a pod takes a network of its own: {unavailable()}")


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[ControlPlane]:
    yield from lent(tmp_path / "ground", "spoke")


@pytest.fixture
def site(ground: ControlPlane) -> Iterator[Site]:
    policy_addon = PolicyAddonHub(ground.cluster, ground.directory / "policy-addon")
    with open_site(ground, Authority(ground.directory, "grpc signer")) as found, served(found, policy_addon):
        yield found


def test_upstreams_controller_runs_as_our_addons_deploy_it(site: Site, tmp_path: Path) -> None:
    for addon in (CONTROLLER, STANDALONE):
        site.enable(addon)
    policy = bring(site, "hub-template", '{{hub fromConfigMap "shop" "settings" "color" hub}}')
    pod = Pod(site, tmp_path)
    site.hub.wait(lambda: f"{STANDALONE}-hub-kubeconfig" in pod.volumes, "the volume of hub templates", 60)
    grant(site, site.wait_secret(f"{STANDALONE}-info")["hub.group"].decode())
    secrets = {name: site.mount(name, tmp_path / name) for name in pod.volumes}
    hub = urlsplit(site.hub.cluster.url).port
    reaching = [hub] if hub is not None and hub != urlsplit(site.spoke.cluster.url).port else []
    image = Path(upstream()[0]).parent
    with RenderedPod(
        pod.deployment(), site.spoke.cluster, tmp_path / "pod", image=image, secrets=secrets, reaching=reaching
    ) as running:
        site.hub.servers.append(running.process)
        wait_message(site, policy, "Compliant")
        found = site.wait_on_cluster(path("ConfigMap", "default", "hub-template"))
        assert found["data"] == {"value": "red"}
        for addon in (CONTROLLER, STANDALONE):
            site.wait(addon, "Available", reason="ManagedClusterAddOnLeaseUpdated")
        site.hub.servers.remove(running.process)
