"""The addon on the hub: permissions on the managed cluster for the account that the gateway uses there.

The account itself is a ManagedServiceAccount (`account.py`); the agent of `managed-serviceaccount` creates its ServiceAccount in
the namespace where that agent runs. It is bound to `cluster-admin`, which covers non-resource URLs too, unless the variable
`clusterRole` of an AddOnDeploymentConfig names another role: then this role limits what the gateway can do on that cluster,
whatever the hub grants.

If the variable `tunnel` is "true", the addon also runs `muster gateway-agent` on the cluster, which opens a tunnel to the gateway
from inside. That agent has no permissions on its cluster and one on the hub: to attach. The role for it is bound to the agents of
all clusters as a group, because RBAC cannot express "only its own cluster"; the gateway restricts each agent to its own cluster
(`gateway/tunnel/attach.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.accounts.hub.manifests import agent_deployment
from muster.accounts.names import ADDON as ACCOUNTS_ADDON
from muster.addon.agent_addon import AddonError, Agent, Health, HealthMode, Installation, KubeClient
from muster.addon.hub_addon import HubAddon
from muster.addon.templates.addon import DEPLOYMENT_CONFIGS, deployment_config, pod_settings
from muster.addon.templates.proxies import proxy_authority
from muster.addon.templates.workloads import configured
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, AddOnDeploymentConfigSpec, ConfigGroupResource
from muster.api.addons import addon_group, agent_name
from muster.api.authentication.v1beta1 import GROUP
from muster.api.proxy.v1alpha1 import GROUP as PROXY_GROUP
from muster.gateway.addon.account import NAME, GatewayAccounts
from muster.gateway.names import ATTACH, COMPONENT, RESOURCE
from muster.kube.names import path_segment
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.install import RBAC_GROUP, READ, binding, named, rule

ROLE_VARIABLE: Final = "clusterRole"
DEFAULT_ROLE: Final = "cluster-admin"
TUNNEL_VARIABLE: Final = "tunnel"
COMMAND: Final = "gateway-agent"
AGENT: Final = agent_name(COMPONENT)
ATTACH_ROLE: Final = f"open-cluster-management:{COMPONENT}-{ATTACH}"
CREDENTIAL: Final = KubeClient()
"""`ATTACH_ROLE` allows its agents to attach, as a group: ClusterGateways have no namespace in which to bind a role."""


@dataclass(frozen=True)
class ClusterGatewayAddon:
    image: str
    """Muster's image, which contains the tunnel agent."""
    name: str = COMPONENT
    config_kinds: tuple[ConfigGroupResource, ...] = (DEPLOYMENT_CONFIGS,)
    hosted: bool = False
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        config = deployment_config(installation)
        namespace = config.agent_install_namespace or installation.addon.spec.install_namespace or DEFAULT_NAMESPACE
        role = _role(config)
        subject = {"kind": "ServiceAccount", "name": COMPONENT, "namespace": namespace}
        # The roleRef of a binding is immutable, so another role needs another binding.
        bound = binding(f"open-cluster-management:{COMPONENT}:{role}", "ClusterRole", role, subject)
        manifest = {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "ClusterRoleBinding", **bound}
        # Applied permissions are only one requirement: `account.py` sets the condition Available.
        health = Health(HealthMode.NONE)
        if not _tunnel(config):
            return Agent((manifest,), namespace=namespace, health=health)
        settings = pod_settings(installation, self.name, config, (CREDENTIAL,), {})
        agent = [configured(one, settings) for one in _agent_manifests(installation.cluster.metadata.name, namespace, self.image)]
        authority = proxy_authority(config.proxy_config, self.name, namespace)
        return Agent((manifest, *agent, *authority), registrations=(CREDENTIAL,), namespace=namespace, health=health)


def _agent_manifests(cluster: str, namespace: str, image: str) -> list[Object]:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(AGENT, namespace)}
    return [account, agent_deployment(AGENT, namespace, {"addon-agent": COMPONENT}, image, COMMAND, cluster)]


def _tunnel(config: AddOnDeploymentConfigSpec) -> bool:
    value = next((one.value for one in config.customized_variables if one.name == TUNNEL_VARIABLE), "") or "false"
    if value not in ("true", "false"):
        raise AddonError(f'AddOnDeploymentConfig: variable {TUNNEL_VARIABLE}: {value!r} is neither "true" nor "false"')
    return value == "true"


def _role(config: AddOnDeploymentConfigSpec) -> str:
    role = next((one.value for one in config.customized_variables if one.name == ROLE_VARIABLE), "") or DEFAULT_ROLE
    if problems := path_segment(role):
        raise AddonError(f"AddOnDeploymentConfig: variable {ROLE_VARIABLE}: {role!r} cannot name a ClusterRole: {problems[0]}")
    return role


CLUSTER_GATEWAY: Final = HubAddon(
    COMPONENT,
    display_name="Cluster gateway",
    description="Access of the hub's gateway to managed clusters.",
    make=ClusterGatewayAddon,
    config_kinds=(DEPLOYMENT_CONFIGS,),
    objects=(
        (CLUSTER_ROLES, {"metadata": named(ATTACH_ROLE), "rules": [rule(PROXY_GROUP, [f"{RESOURCE}/{ATTACH}"], ["get"])]}),
        (
            CLUSTER_ROLE_BINDINGS,
            binding(
                ATTACH_ROLE,
                "ClusterRole",
                ATTACH_ROLE,
                {"kind": "Group", "name": addon_group(COMPONENT), "apiGroup": RBAC_GROUP},
            ),
        ),
    ),
    rules=(rule(GROUP, ["managedserviceaccounts"], [*READ, "create"]),),
    controllers=lambda context: {NAME: GatewayAccounts(context)},
    requires=(ACCOUNTS_ADDON,),
)
