"""The addon `governance-standalone-hub-templating`: a user on the hub for each cluster, with which hub templates are resolved.

The policy controller does the resolving (`config_policy.py`). This module has the identity, the access to the cluster's own
ManagedCluster (`cluster_access.py`), and a Secret that contains the group to which further permissions can be granted. The user
has no other permissions: the hub's administrators grant what templates may read, per cluster or per cluster set.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from muster.addon.agent_addon import Agent, Installation, KubeClient
from muster.addon.agent_pods import install_namespace as namespace_manifests
from muster.addon.framework.addon_context import hosting_cluster
from muster.addon.hub_addon import HubAddon
from muster.addon.templates.addon import DEPLOYMENT_CONFIGS, deployment_config
from muster.api.addon.v1alpha1 import ConfigGroupResource
from muster.api.addons import cluster_addon_group
from muster.machinery.objects import Object
from muster.policy.addons.cluster_access import NAME, RULES, ManagedClusterAccess
from muster.policy.addons.config_policy import install_namespace
from muster.policy.addons.manifests import on_hosting_cluster
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.install import named

INFO_SECRET: Final = f"{STANDALONE_ADDON}-info"
CREDENTIAL: Final = KubeClient(STANDALONE_ADDON)


@dataclass(frozen=True)
class StandaloneAddon:
    name: str = STANDALONE_ADDON
    config_kinds: tuple[ConfigGroupResource, ...] = (DEPLOYMENT_CONFIGS,)
    hosted: bool = True
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        namespace = install_namespace(installation, deployment_config(installation))
        manifests = [*namespace_manifests(namespace), _info(installation.cluster.metadata.name, namespace)]
        if hosting_cluster(installation.addon):
            manifests = [on_hosting_cluster(one) for one in manifests]
        return Agent(tuple(manifests), registrations=(CREDENTIAL,), namespace=namespace)


def _info(cluster: str, namespace: str) -> Object:
    group = base64.b64encode(cluster_addon_group(cluster, STANDALONE_ADDON).encode()).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named(INFO_SECRET, namespace), "data": {"hub.group": group}}


STANDALONE: Final = HubAddon(
    STANDALONE_ADDON,
    display_name="Standalone hub templating",
    description="Hub templates in policies of managed clusters, without the policy framework.",
    make=lambda image: StandaloneAddon(),
    config_kinds=(DEPLOYMENT_CONFIGS,),
    rules=RULES,
    controllers=lambda context: {NAME: ManagedClusterAccess(context)},
    requires=(CONFIG_POLICY_ADDON,),
)
