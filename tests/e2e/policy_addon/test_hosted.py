"""Both addons of a cluster whose agents run elsewhere: policies and controller on the hosting cluster, objects on the managed one.

The managed cluster is the hub itself. Nobody plays the controller's pod: its container runs as it is rendered.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.addon.conftest import Site, hosted_agent
from tests.e2e.addon.test_hosted import HOSTING
from tests.e2e.policy_addon.conftest import CONTROLLER, STANDALONE
from tests.e2e.policy_addon.test_hub_templating import grant
from tests.support.administrator import Document, kubeconfig_text
from tests.support.hub_components import PolicyAddonHub
from tests.support.network_namespace import unavailable
from tests.support.planes import ADMIN, USERS
from tests.support.policies import config_map, path, template
from tests.support.registration import MUSTER, Agent
from tests.support.rendered_pod import RenderedPod

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"a pod takes a network of its own: {unavailable()}")

MANAGED = f"{CONTROLLER}-managed-kubeconfig"


@dataclass
class Hosted:
    site: Site
    agent: Agent

    @property
    def namespace(self) -> str:
        return f"klusterlet-{self.agent.name}"

    def find(self, kind: str, name: str) -> Document | None:
        """Of the hosting cluster."""
        return self.site.on_cluster(path(kind, self.namespace, name))

    def deployment(self) -> Document:
        place = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{CONTROLLER}"
        return self.site.wait_on_cluster(place)

    def secrets(self) -> dict[str, str]:
        """Those that the controller has mounted, with their volumes."""
        pod = self.deployment()["spec"]["template"]["spec"]
        return {one["secret"]["secretName"]: one["name"] for one in pod["volumes"]}

    def bring(self, name: str, text: str, **spec: str) -> Document:
        kind = {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy"}
        wanted = [template(config_map(name, "default", {"value": text}))]
        body = {"remediationAction": "enforce", "object-templates": wanted, **spec}
        document = {**kind, "metadata": {"name": name, "namespace": self.namespace}, "spec": body}
        place = path("ConfigurationPolicy", self.namespace, name)
        return dict(self.site.spoke.admin.apply(place, document, "argocd").expect(201))

    def wait_compliant(self, name: str) -> None:
        def status() -> Document:
            return dict((self.find("ConfigurationPolicy", name) or {}).get("status") or {})

        try:
            self.site.hub.wait(lambda: status().get("compliant") == "Compliant", f"{name} to be Compliant", 30)
        except AssertionError as error:
            raise AssertionError(f"{status()}\n{error}") from None

    def value(self, name: str) -> str | None:
        """What the object says on the managed cluster."""
        found = self.site.hub.read(path("ConfigMap", "default", name))
        return None if found is None else found["data"]["value"]


@pytest.fixture
def hosted(site: Site, policy_addon: PolicyAddonHub) -> Iterator[Hosted]:
    with hosted_agent(site) as agent:
        found = Hosted(site, agent)
        for addon in (CONTROLLER, STANDALONE):
            site.enable(addon, agent.name, annotations={HOSTING: site.cluster})
        site.let_agent_in(found.namespace, agent)
        user = {"token": USERS[ADMIN].token}
        managed = kubeconfig_text(site.hub.cluster.url, site.hub.cluster.ca, user)
        body = {"metadata": {"name": MANAGED}, "stringData": {"kubeconfig": managed}}
        site.spoke.admin.post(f"/api/v1/namespaces/{found.namespace}/secrets", body).expect(201)
        yield found


def uninstall(hosted: Hosted, directory: Path) -> None:
    """What the pod does that goes before the addon; it is said to have ended well by whoever plays its kubelet."""
    site, name = hosted.site, f"{CONTROLLER}-uninstall"
    place = f"/api/v1/namespaces/{hosted.namespace}/pods/{name}"
    pod = site.wait_on_cluster(place)
    (container,) = pod["spec"]["containers"]
    own = site.account_kubeconfig(pod["spec"]["serviceAccountName"], directory, hosted.namespace)
    command = [MUSTER.parent / container["command"][0], *container["args"], f"--kubeconfig={own}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    site.spoke.admin.patch(f"{place}/status", {"status": {"phase": "Succeeded"}}).expect(200)


def test_a_hosted_controller_has_policies_here_and_objects_there(site: Site, hosted: Hosted, tmp_path: Path) -> None:
    info = site.wait_secret(f"{STANDALONE}-info", hosted.namespace)
    grant(site, info["hub.group"].decode())
    volume = f"{STANDALONE}-hub-kubeconfig"
    site.hub.wait(lambda: volume in hosted.secrets(), "the volume of hub templates", 60)
    assert MANAGED in hosted.secrets()
    files = {name: site.mount(name, tmp_path / name, hosted.namespace) for name in hosted.secrets()}
    hub = urlsplit(site.hub.cluster.url).port
    reaching = [hub] if hub is not None and hub != urlsplit(site.spoke.cluster.url).port else []
    with RenderedPod(
        hosted.deployment(), site.spoke.cluster, tmp_path / "pod", image=MUSTER.parent, secrets=files, reaching=reaching
    ) as pod:
        site.hub.servers.append(pod.process)
        hub_text = '{{hub fromConfigMap "shop" "settings" "color" hub}} {{hub .ManagedClusterName hub}}'
        policy = hosted.bring("hosted-hub", f"{hub_text} {{{{ .ObjectName }}}}")
        hosted.bring("hosted-pruned", "here", pruneObjectBehavior="DeleteAll")
        for name in ("hosted-hub", "hosted-pruned"):
            hosted.wait_compliant(name)
        assert hosted.value("hosted-hub") == f"red {hosted.agent.name} hosted-hub"
        assert site.on_cluster(path("ConfigMap", "default", "hosted-hub")) is None, "nothing on the hosting cluster"
        kept = hosted.find("Secret", f"{policy['metadata']['uid']}-last-resolved")
        assert kept is not None
        assert b"red" in base64.b64decode(kept["data"]["policy.json"])
        site.admin.delete(path("ConfigMap", "default", "hosted-hub")).expect(200)
        site.hub.wait(lambda: hosted.value("hosted-hub") is not None, "what was deleted there to be made again")
        for addon in (CONTROLLER, STANDALONE):
            site.wait(addon, "Available", reason="ManagedClusterAddOnLeaseUpdated", cluster=hosted.agent.name)
        site.spoke.admin.delete(path("ConfigurationPolicy", hosted.namespace, "hosted-pruned")).expect(200)
        site.hub.wait(lambda: hosted.value("hosted-pruned") is None, "what the policy made there to go with it")

        hosted.bring("hosted-pruned", "here", pruneObjectBehavior="DeleteAll")
        hosted.wait_compliant("hosted-pruned")
        site.disable(STANDALONE, hosted.agent.name)
        site.disable(CONTROLLER, hosted.agent.name)
        uninstall(hosted, tmp_path / "uninstall")
        site.hub.wait(lambda: site.find(CONTROLLER, hosted.agent.name) is None, "the addon to go", 60)
        site.hub.servers.remove(pod.process)
    assert hosted.value("hosted-pruned") == "here", "whoever removes an addon does not ask for its policies to be undone"
    deployment = f"/apis/apps/v1/namespaces/{hosted.namespace}/deployments/{CONTROLLER}"
    site.hub.wait(lambda: site.on_cluster(deployment) is None, "the controller to go", 60)
    site.hub.wait(lambda: site.secret(volume, hosted.namespace) == {}, "the credential to go", 60)
