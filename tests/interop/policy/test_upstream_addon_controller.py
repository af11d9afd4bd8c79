"""Upstream's policy addon controller as a process on a hub of ours: our addon manager and agents bring what it renders to a
cluster, whose node runs our policy controller as that says.

No registry serves it. MUSTER_POLICY_ADDON_CONTROLLER names a program that somebody has built of the checkout that
MUSTER_POLICY_ADDON_SOURCE names; that has its manifests, too.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.policy.names import STANDALONE_DISABLED
from tests.interop.policy.renderings import SOURCE
from tests.support.local_fleet import eventually
from tests.support.planes import read_clusters, write_kubeconfig
from tests.support.policies import config_map, template
from tests.support.policy_fleet import AGENTS, CONTROLLER, POLICIES, STANDALONE, PolicyFleet
from tests.support.processes import Server, tail

PROGRAM: Final = os.environ.get("MUSTER_POLICY_ADDON_CONTROLLER", "")
IMAGE: Final = "registry.example/team/muster:by-upstream"
ACCOUNT: Final = "governance-policy-addon-controller"
NAMESPACE: Final = "open-cluster-management"
CLUSTER: Final = "cluster1"
FLAG: Final = "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig"
REQUESTED_FOR: Final = "open-cluster-management.io/addon-name"
APPROVED_BY: Final = "AutoApprovedByHubCSRApprovingController"

pytestmark = [
    pytest.mark.skipif(
        not (PROGRAM and SOURCE),
        reason="MUSTER_POLICY_ADDON_CONTROLLER and MUSTER_POLICY_ADDON_SOURCE name no program of upstream's and its checkout",
    ),
    pytest.mark.timeout(300),
]


class UpstreamFleet(PolicyFleet):
    """Our fleet without our own addons of policies."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.controller: Server | None = None

    def prepare(self) -> None:
        self("up", "--detach", "--port", "0", "--clusters", "1", "--no-gateway")
        self.clusteradm("uninstall", "hub-addon", "--names", f"{CONTROLLER},{STANDALONE}")
        eventually(lambda: not self.names("clustermanagementaddons"), "our own addons to go")
        for name in ("config_policy", "standalonetemplating"):
            self.kubectl("apply", "-f", f"{SOURCE}/test/resources/{name}_clustermanagementaddon.yaml")
        self.bring(*_rights())
        # Upstream leaves it to its framework, which this hub does not have.
        self.kubectl("create", "namespace", POLICIES, context=CLUSTER)

    def start_controller(self) -> None:
        """With the rights of its own account alone."""
        hub = read_clusters(self.directory / "kubeconfig", self.directory.parent)["hub"]
        token = self.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration", "1h")
        kubeconfig = self.directory.parent / "controller.kubeconfig"
        write_kubeconfig(kubeconfig, hub.url, hub.ca, {"token": token})
        command = [PROGRAM, f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}"]
        environment = {"KUBECONFIG": "", "POD_NAME": ACCOUNT, "CONFIG_POLICY_CONTROLLER_IMAGE": IMAGE}
        self.controller = Server(
            "upstream's policy addon controller", command, self.directory.parent / "controller.log", environment
        )
        self.controller.start()

    def stop(self) -> None:
        if self.controller is not None:
            self.controller.stop(timeout=5)
        self.end()

    def bring(self, *documents: dict[str, Any], context: str = "hub") -> None:
        file = self.directory.parent / "brought.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        self.kubectl("apply", "-f", str(file), context=context)

    def policy(self, name: str, text: str) -> None:
        kind = {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy"}
        templates = [template(config_map(name, "default", {"value": text}))]
        spec = {"remediationAction": "enforce", "pruneObjectBehavior": "DeleteAll", "object-templates": templates}
        self.bring({**kind, "metadata": {"name": name, "namespace": POLICIES}, "spec": spec}, context=CLUSTER)

    def value(self, name: str) -> str | None:
        found = {one["metadata"]["name"]: one for one in self.found("configmaps", "-n", "default", context=CLUSTER)}
        return str(found[name]["data"]["value"]) if name in found else None

    def condition(self, addon: str, kind: str) -> dict[str, str]:
        for one in self.found("managedclusteraddons", "-n", CLUSTER):
            if one["metadata"]["name"] == addon:
                found = (condition for condition in one["status"].get("conditions") or () if condition["type"] == kind)
                return next(found, {})
        return {}


def _rights() -> list[dict[str, Any]]:
    """Of its account, as its checkout has them; there they are filled in for a namespace by kustomize."""
    place = Path(SOURCE) / "config" / "rbac"
    files = yaml.safe_load((place / "kustomization.yaml").read_text())["resources"]
    found = [one for file in files for one in yaml.safe_load_all((place / file).read_text()) if one]
    for one in found:
        if not one["kind"].startswith("Cluster"):
            one["metadata"]["namespace"] = NAMESPACE
        for subject in one.get("subjects") or ():
            subject["namespace"] = NAMESPACE
    return found


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[UpstreamFleet]:
    made = UpstreamFleet(tmp_path / "data")
    try:
        made.prepare()
        made.start_controller()
        yield made
        print(tail(tmp_path / "controller.log"))
    finally:
        made.stop()


def test_our_controller_runs_as_upstreams_addon_controller_has_it_deployed(fleet: UpstreamFleet) -> None:
    fleet.enable(CONTROLLER, CLUSTER)
    available = fleet.condition(CONTROLLER, "Available")
    assert available["reason"] == "ManagedClusterAddOnLeaseUpdated"
    (request,) = fleet.found("csr", "-l", f"{REQUESTED_FOR}={CONTROLLER}")
    assert [one["reason"] for one in request["status"]["conditions"]] == [APPROVED_BY]
    (deployment,) = fleet.found("deployments", "-n", AGENTS, context=CLUSTER)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert {"--enable-lease=true", f"--cluster-name={CLUSTER}"} < set(container["args"])
    assert deployment["metadata"]["labels"]["chart"], "upstream's chart, not ours"

    fleet.policy("plain", "by us")
    fleet.policy("of-hub", '{{hub fromConfigMap "shop" "settings" "color" hub}} {{hub .ManagedClusterName hub}}')
    eventually(lambda: fleet.said("plain", CLUSTER)[0] == "Compliant", "a policy to be enforced")
    assert fleet.value("plain") == "by us"
    eventually(lambda: STANDALONE_DISABLED in fleet.said("of-hub", CLUSTER)[1], "nobody to resolve hub templates")
    assert fleet.value("of-hub") is None

    fleet.enable(STANDALONE, CLUSTER)
    assert fleet.condition(STANDALONE, "Available")["reason"] == "ManagedClusterAddOnLeaseUpdated"
    assert fleet.flags(CLUSTER) == [FLAG]
    info = json.loads(fleet.kubectl("get", "secret", f"{STANDALONE}-info", "-n", AGENTS, "-o", "json", context=CLUSTER))
    _grant(fleet, base64.b64decode(info["data"]["hub.group"]).decode())
    eventually(lambda: fleet.value("of-hub") == f"red {CLUSTER}", "the hub's value")
    eventually(lambda: fleet.said("of-hub", CLUSTER)[0] == "Compliant", "the policy to say so")

    # The finalizer of what is pruned is our controller's; upstream's pod has it let go.
    fleet.disable(STANDALONE, CLUSTER)
    fleet.disable(CONTROLLER, CLUSTER)
    for kind, words in (("manifestworks", ("-n", CLUSTER)), ("managedclusteraddons", ("-n", CLUSTER))):
        eventually(lambda kind=kind, words=words: fleet.names(kind, *words) == set(), f"{kind} to go")  # type: ignore[misc]
    for kind in ("deployments", "pods", "secrets", "serviceaccounts", "roles", "clusterroles", "clusterrolebindings"):
        eventually(partial(_gone, fleet, kind), f"{kind} of the addons to go")
    eventually(lambda: not any("policy." in one for one in fleet.names("crd", context=CLUSTER)), "its kinds to go")
    assert fleet.value("plain") == "by us", "who removes the controller undoes nothing"


def _gone(fleet: UpstreamFleet, kind: str) -> bool:
    left = fleet.names(kind, "-n", AGENTS, context=CLUSTER)
    return not [name for name in left if CONTROLLER in name or STANDALONE in name]


def _grant(fleet: UpstreamFleet, group: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "shop"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]
    metadata = {"name": "shop", "namespace": "shop"}
    fleet.bring(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        config_map("settings", "shop", {"color": "red"}),
        {**rbac, "kind": "Role", "metadata": metadata, "rules": rules},
        {**rbac, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": subjects},
    )
