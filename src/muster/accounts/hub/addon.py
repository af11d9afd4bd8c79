"""The addon `managed-serviceaccount` on the hub, and the objects and permissions that it requires there.

An AddOnDeploymentConfig configures the agent's namespace and pods, as for template addons. On the hub the agent of a cluster has
the role `AGENT_RULES` in its cluster's namespace and no permissions elsewhere. RBAC cannot express "Secrets with a label": the
agent may read all Secrets of that one namespace, which is reserved for this cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.accounts.hub.expiry import NAME, AccountExpiry
from muster.accounts.hub.manifests import agent_manifests
from muster.accounts.names import ADDON, AGENT
from muster.addon.agent_addon import Agent, Installation, KubeClient, RoleBindingRequest
from muster.addon.hub_addon import HubAddon
from muster.addon.templates.addon import DEPLOYMENT_CONFIGS, deployment_config, pod_settings
from muster.addon.templates.proxies import proxy_authority
from muster.addon.templates.workloads import configured
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ConfigGroupResource
from muster.api.authentication.v1beta1 import GROUP, ManagedServiceAccount
from muster.api.crds import ACCOUNTS
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.install import RBAC_GROUP, READ, named, rule

AGENT_RULES: Final = (
    rule("", ["secrets"], [*READ, "create", "update"]),
    rule(GROUP, ["managedserviceaccounts"], READ),
    rule(GROUP, ["managedserviceaccounts/status"], ["get", "update", "patch"]),
)
"""Permissions of a cluster's agent in that cluster's namespace on the hub."""
MANAGER_RULES: Final = (
    rule(GROUP, ["managedserviceaccounts"], [*READ, "delete"]),
    # `bind` grants the role to agents without holding it: the manager itself may not read Secrets.
    rule(RBAC_GROUP, ["clusterroles"], ["bind"], [AGENT]),
)
CREDENTIAL: Final = KubeClient(permissions=(RoleBindingRequest("ClusterRole", AGENT),))
KINDS: Final = tuple(kind for kind in ACCOUNTS if kind.resource.plural == ManagedServiceAccount.resource.plural)


@dataclass(frozen=True)
class ManagedServiceAccountAddon:
    image: str
    """Muster's image, which contains the agent."""
    name: str = ADDON
    config_kinds: tuple[ConfigGroupResource, ...] = (DEPLOYMENT_CONFIGS,)
    hosted: bool = False
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        config = deployment_config(installation)
        namespace = config.agent_install_namespace or installation.addon.spec.install_namespace or DEFAULT_NAMESPACE
        settings = pod_settings(installation, self.name, config, (CREDENTIAL,), {})
        rendered = agent_manifests(installation.cluster.metadata.name, namespace, self.image)
        manifests = [configured(manifest, settings) for manifest in rendered]
        authority = proxy_authority(config.proxy_config, self.name, namespace)
        return Agent((*manifests, *authority), registrations=(CREDENTIAL,), namespace=namespace)


MANAGED_SERVICE_ACCOUNT: Final = HubAddon(
    ADDON,
    display_name="Managed service account",
    description="Service accounts on managed clusters, with their tokens on the hub.",
    make=ManagedServiceAccountAddon,
    config_kinds=(DEPLOYMENT_CONFIGS,),
    kinds=KINDS,
    rules=MANAGER_RULES,
    objects=((CLUSTER_ROLES, {"metadata": named(AGENT), "rules": list(AGENT_RULES)}),),
    controllers=lambda context: {NAME: AccountExpiry(context)},
)
