"""The addon `config-policy-controller`, which deploys the policy controller to clusters.

Whether the controller resolves hub templates depends on the other addon: while `governance-standalone-hub-templating` is enabled
on the same cluster, the controller gets the path of that addon's credential. Its own credential on the hub is only for its
lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.addon.agent_addon import Agent, Installation, KubeClient, RoleBindingRequest
from muster.addon.framework.addon_context import hosting_cluster
from muster.addon.hub_addon import HubAddon
from muster.addon.templates.addon import DEPLOYMENT_CONFIGS, deployment_config, pod_settings
from muster.addon.templates.proxies import proxy_authority
from muster.addon.templates.workloads import configured
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, AddOnDeploymentConfigSpec, ConfigGroupResource
from muster.policy.addons.manifests import ControllerPlan, deployment, fixed_manifests, on_hosting_cluster, uninstall_hook
from muster.policy.addons.settings import read_settings
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.install import RBAC_GROUP, READ, named, rule

HUB_ROLE: Final = f"open-cluster-management:{CONFIG_POLICY_ADDON}-hub"
AGENT_RULES: Final = (
    rule("coordination.k8s.io", ["leases"], [*READ, "patch", "update"], [CONFIG_POLICY_ADDON]),
    rule("coordination.k8s.io", ["leases"], ["create"]),
)
"""Permissions of a cluster's controller in that cluster's namespace on the hub."""
CREDENTIAL: Final = KubeClient(CONFIG_POLICY_ADDON, (RoleBindingRequest("ClusterRole", HUB_ROLE),))
PAUSE_ANNOTATION: Final = "policy-addon-pause"
PAUSED: Final = f"the Policy Addon controller is paused due to the {PAUSE_ANNOTATION} annotation"


@dataclass(frozen=True)
class ConfigPolicyAddon:
    image: str
    """Muster's image, which contains the controller."""
    name: str = CONFIG_POLICY_ADDON
    config_kinds: tuple[ConfigGroupResource, ...] = (DEPLOYMENT_CONFIGS,)
    hosted: bool = True
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = (STANDALONE_ADDON,)

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        config = deployment_config(installation)
        plan, warnings = self._plan(installation, config)
        pods = pod_settings(installation, self.name, config, (), {})
        controller = configured(deployment(plan), pods)
        authority = proxy_authority(config.proxy_config, self.name, plan.namespace)
        manifests = (*fixed_manifests(plan), *authority, controller, uninstall_hook(plan, controller))
        if plan.hosted:
            manifests = tuple(on_hosting_cluster(one) for one in manifests)
        return Agent(
            manifests, registrations=(CREDENTIAL,), namespace=plan.namespace, warnings=warnings, paused=_paused(installation)
        )

    def _plan(self, installation: Installation, config: AddOnDeploymentConfigSpec) -> tuple[ControllerPlan, tuple[str, ...]]:
        settings = read_settings(installation, config)
        namespace = install_namespace(installation, config)
        beside = installation.neighbours.get(STANDALONE_ADDON)
        there = "" if beside is None else beside.status.namespace or namespace
        warnings = list(settings.warnings)
        if there and there != namespace:
            apart = f"the credential of {STANDALONE_ADDON} is in namespace {there}, the controller runs in {namespace}"
            warnings.append(f"hub templates are disabled: {apart}; let both addons have the same agentInstallNamespace")
        plan = ControllerPlan(
            installation.cluster.metadata.name,
            namespace,
            self.image,
            settings,
            hosted=bool(hosting_cluster(installation.addon)),
            hub_templates=there == namespace,
            uninstalling=bool(installation.addon.metadata.deletion_timestamp),
        )
        return plan, tuple(warnings)


def install_namespace(installation: Installation, config: AddOnDeploymentConfigSpec) -> str:
    """The namespace of these addons' agents; in hosted mode the klusterlet's namespace of their cluster."""
    if hosting_cluster(installation.addon):
        return f"klusterlet-{installation.cluster.metadata.name}"
    return config.agent_install_namespace or installation.addon.spec.install_namespace or DEFAULT_NAMESPACE


def _paused(installation: Installation) -> str:
    """A paused addon that is being deleted still has to change."""
    metadata = installation.addon.metadata
    return PAUSED if metadata.annotations.get(PAUSE_ANNOTATION) == "true" and not metadata.deletion_timestamp else ""


CONFIG_POLICY: Final = HubAddon(
    CONFIG_POLICY_ADDON,
    display_name="Config policy controller",
    description="Evaluates and enforces ConfigurationPolicies and OperatorPolicies on managed clusters.",
    make=ConfigPolicyAddon,
    config_kinds=(DEPLOYMENT_CONFIGS,),
    objects=((CLUSTER_ROLES, {"metadata": named(HUB_ROLE), "rules": list(AGENT_RULES)}),),
    # `bind` grants the role to controllers without holding it.
    rules=(rule(RBAC_GROUP, ["clusterroles"], ["bind"], [HUB_ROLE]),),
)
