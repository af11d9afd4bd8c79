"""An addon from scratch: its manager on the hub, and its agent on a managed cluster, each a process of its own.

    python examples/greeting_addon.py manager HUB_KUBECONFIG
    clusteradm addon enable --names greeting --clusters cluster1
    python examples/greeting_addon.py agent CLUSTER_KUBECONFIG

The manager says what the agent is given on each cluster: a greeting in a ConfigMap, and a credential for the hub with which it may
write ConfigMaps in its cluster's own namespace. The agent answers there, and says by its lease that it is alive.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from muster.addon.agent_addon import AddonError, Agent, Installation, KubeClient, RoleBindingRequest, StaticAddons
from muster.addon.lease import RENEWAL, LeaseUpdater
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.api.addon.v1alpha1 import GROUP, ClusterManagementAddOn, ConfigGroupResource
from muster.api.addons import CLUSTER_NAME_ENTRY, NAMESPACE_LABEL, hub_kubeconfig_secret
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.machinery.privatefiles import replace_private
from muster.runtime.client import HttpClient, KubeError, NotFound, load_kubeconfig, served
from muster.runtime.client import KubeClient as Client
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, SECRETS
from muster.runtime.controller import LeaderElection, leader_identity
from muster.runtime.process import serve

NAME: Final = "greeting"
NAMESPACE: Final = "greeting"
CONFIGS: Final = ConfigGroupResource(group=GROUP, resource="addondeploymentconfigs")


class Greeting:
    """The addon, as its hub sees it: a pure function of the cluster and of its configuration."""

    name = NAME
    config_kinds = (CONFIGS,)
    hosted = False
    needs_configuration = False
    neighbours = ()

    def agent(self, installation: Installation) -> Agent:
        whom = self._variables(installation).get("WHOM") or installation.cluster.metadata.name
        if "\n" in whom:
            raise AddonError("AddOnDeploymentConfig: variable WHOM: expected one line")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {NAMESPACE_LABEL: "true"}}}
        metadata = {"name": "greeting", "namespace": NAMESPACE}
        text = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": f"Hello, {whom}!"}}
        # Whom the role is bound to, the hub computes: the agent of this cluster, and no other.
        credential = KubeClient(permissions=(RoleBindingRequest("ClusterRole", f"{NAME}-agent"),))
        return Agent((namespace, text), registrations=(credential,), namespace=NAMESPACE)

    def _variables(self, installation: Installation) -> dict[str, str]:
        found = installation.config(CONFIGS.group, CONFIGS.resource)
        listed = found.document["spec"].get("customizedVariables") or () if found else ()
        return {one["name"]: one.get("value", "") for one in listed}


def definition() -> Object:
    meta = {"displayName": "Greeting", "description": "Greets every cluster and hears what it answers."}
    kinds = [{"group": CONFIGS.group, "resource": CONFIGS.resource}]
    return {"metadata": {"name": NAME}, "spec": {"addOnMeta": meta, "supportedConfigs": kinds}}


def agents_role() -> Object:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}
    return {"metadata": {"name": f"{NAME}-agent"}, "rules": [rule]}


async def run_manager(kubeconfig: Path) -> None:
    client = HttpClient(load_kubeconfig(kubeconfig), agent=f"{NAME}-manager")
    await client.apply(CLUSTER_ROLES, agents_role(), manager=NAME)
    await client.apply(served(ClusterManagementAddOn), definition(), manager=NAME)
    metrics = Metrics()
    manager = AddonManager(client, AddonOptions(), addons=StaticAddons.of(Greeting()), process=NAME, metrics=metrics)
    election = LeaderElection(client, f"{NAME}-manager", "default", leader_identity(os.environ))
    await serve(manager, metrics, ("127.0.0.1", 0), lambda port: print(f"up: {port}", flush=True), election=election)


async def hub_of(managed: Client, directory: Path) -> tuple[HttpClient, str]:
    """The hub as this agent may see it, and the cluster that it is for; in a pod the Secret would be mounted. Raises NotFound."""
    secret = await managed.get(SECRETS, hub_kubeconfig_secret(NAME), NAMESPACE)
    files = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    for name, content in files.items():
        replace_private(directory / name, content)
    return HttpClient(load_kubeconfig(directory / "kubeconfig"), agent=f"{NAME}-agent"), files[CLUSTER_NAME_ENTRY].decode()


async def answer(managed: Client, hub: Client, cluster: str) -> str:
    """Tell the hub what was heard."""
    heard = str((await managed.get(CONFIG_MAPS, "greeting", NAMESPACE))["data"]["text"])
    metadata = {"name": "greeting-answer", "namespace": cluster}
    await hub.apply(CONFIG_MAPS, {"metadata": metadata, "data": {"text": f"{cluster} heard: {heard}"}}, manager=NAME)
    return heard


async def run_agent(kubeconfig: Path) -> None:
    managed = HttpClient(load_kubeconfig(kubeconfig), agent=f"{NAME}-agent")
    lease = LeaseUpdater(managed, NAME, NAMESPACE)
    with tempfile.TemporaryDirectory() as directory:
        while True:
            wait = 1.0
            with suppress(NotFound):
                hub, cluster = await hub_of(managed, Path(directory))
                try:
                    print(await answer(managed, hub, cluster), flush=True)
                    await lease.update()
                    wait = RENEWAL
                except KubeError as error:
                    print(f"not well: {error}", file=sys.stderr, flush=True)
                finally:
                    await hub.close()
            await asyncio.sleep(wait)


if __name__ == "__main__":
    asyncio.run({"manager": run_manager, "agent": run_agent}[sys.argv[1]](Path(sys.argv[2])))
