"""The `AgentAddon` of an AddOnTemplate.

`agent` uses the first template and the first AddOnDeploymentConfig of an installation, and renders: parse and substitute, move to
the install namespace, configure pods, add the configuration's objects. The same installation always has the same agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import orjson

from muster.addon.agent_addon import AddonError, Agent, Health, HealthMode, Installation, Registration
from muster.addon.templates import namespaces, registrations
from muster.addon.templates.feedback import moved_configs, with_workload_feedback
from muster.addon.templates.images import registries_of
from muster.addon.templates.proxies import proxy_authority, proxy_mounts, proxy_variables
from muster.addon.templates.resources import read_requirements
from muster.addon.templates.variables import Substitution
from muster.addon.templates.workloads import PodSettings, configured, plural_of, with_numbers
from muster.api import MalformedObject, TypedObject
from muster.api.addon.v1alpha1 import (
    DEFAULT_NAMESPACE,
    GROUP,
    AddOnDeploymentConfig,
    AddOnDeploymentConfigSpec,
    AddOnTemplate,
    ConfigGroupResource,
)
from muster.machinery.objects import Object
from muster.machinery.printable import one_line

TEMPLATES: Final = ConfigGroupResource(group=GROUP, resource=AddOnTemplate.resource.plural)
DEPLOYMENT_CONFIGS: Final = ConfigGroupResource(group=GROUP, resource=AddOnDeploymentConfig.resource.plural)
_NAMED: Final = 10
"""The most undefined variables that are listed; a template with more of them contains braces of another language."""

R = TypeVar("R", bound=TypedObject)


@dataclass(frozen=True)
class TemplateAddon:
    name: str

    @property
    def config_kinds(self) -> Sequence[ConfigGroupResource]:
        return (DEPLOYMENT_CONFIGS, TEMPLATES)

    @property
    def hosted(self) -> bool:
        return False

    @property
    def needs_configuration(self) -> bool:
        return True

    @property
    def neighbours(self) -> Sequence[str]:
        return ()

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        template, document = read_config(installation, AddOnTemplate)
        if template is None:
            raise AddonError(
                f"addon {self.name} has no AddOnTemplate among its configurations; name one in its ClusterManagementAddOn"
            )
        deployment = deployment_config(installation)
        cluster = installation.cluster.metadata.name
        credentials = registrations.read_registrations(template, cluster, self.name)
        preset = _preset(document, cluster, deployment.agent_install_namespace)
        values = {
            **preset,
            **{customized_variable.name: customized_variable.value for customized_variable in deployment.customized_variables},
            **_builtin(preset),
        }
        substitution = Substitution(values)
        parsed = [_rendered(raw, number, substitution) for number, raw in enumerate(template.spec.agent_spec.workload.manifests)]
        environment = {name: values[name] for name in preset}
        settings = pod_settings(installation, self.name, deployment, credentials, environment)
        there = [configured(manifest, settings) for manifest in namespaces.moved(parsed, deployment.agent_install_namespace)]
        namespace = deployment.agent_install_namespace or _workload_namespace(there)
        authority = proxy_authority(deployment.proxy_config, self.name, namespace or DEFAULT_NAMESPACE)
        manifests = (*namespaces.labelled(there), *authority)
        configs = moved_configs(template.spec.agent_spec.manifest_configs, parsed, deployment.agent_install_namespace)
        return Agent(
            manifests,
            with_workload_feedback(configs, manifests),
            credentials,
            namespace,
            Health(HealthMode.WORKLOADS),
            _warnings(substitution.unknown),
        )


def deployment_config(installation: Installation) -> AddOnDeploymentConfigSpec:
    """The AddOnDeploymentConfig in use; an empty one if there is none. Raises AddonError."""
    config, _ = read_config(installation, AddOnDeploymentConfig)
    return config.spec if config is not None else AddOnDeploymentConfigSpec(agent_install_namespace="")


def pod_settings(
    installation: Installation,
    addon: str,
    deployment: AddOnDeploymentConfigSpec,
    credentials: tuple[Registration, ...],
    environment: Mapping[str, str],
) -> PodSettings:
    """The settings of an AddOnDeploymentConfig and the cluster for the pods of an addon's agent. Raises AddonError."""
    # As served: quantities and tolerations keep their spelling.
    found = installation.config(DEPLOYMENT_CONFIGS.group, DEPLOYMENT_CONFIGS.resource)
    served = (found.document.get("spec") or {}) if found is not None else {}
    mounts = registrations.credential_mounts(credentials, addon)
    return PodSettings(
        {**environment, **proxy_variables(deployment.proxy_config)},
        (*mounts, *proxy_mounts(deployment.proxy_config, addon)),
        deployment.node_placement.node_selector,
        (served.get("nodePlacement") or {}).get("tolerations") or (),
        registries_of(installation.cluster, deployment.registries),
        read_requirements(served.get("resourceRequirements") or ()),
    )


def read_config(installation: Installation, kind: type[R]) -> tuple[R | None, Object]:
    """The configuration of a kind, typed and as served."""
    found = installation.config(kind.resource.group, kind.resource.plural)
    if found is None:
        return None, {}
    try:
        return kind.decode(found.document), found.document
    except MalformedObject as error:
        raise AddonError(str(error)) from None
    except orjson.JSONEncodeError:
        raise AddonError(f"{kind.resource.kind}: it is nested too deeply") from None


def _preset(template: Object, cluster: str, namespace: str) -> dict[str, str]:
    """The built-in variables of templates, in the order in which pods get them."""
    preset = {}
    if (template.get("spec") or {}).get("registration") is not None:
        preset["HUB_KUBECONFIG"] = registrations.KUBECONFIG
    preset["CLUSTER_NAME"] = cluster
    if namespace:
        preset["INSTALL_NAMESPACE"] = namespace
    return preset


def _builtin(preset: Mapping[str, str]) -> dict[str, str]:
    """Variables that cannot be overridden."""
    return {name: value for name, value in preset.items() if name != "HUB_KUBECONFIG"}


def _rendered(raw: msgspec.Raw, number: int, substitution: Substitution) -> Object:
    manifest: Any = substitution.apply(msgspec.json.decode(raw))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("kind"), str):
        raise AddonError(f"AddOnTemplate: spec.agentSpec.workload.manifests[{number}] is no object with a kind")
    return with_numbers(manifest)


def _workload_namespace(manifests: Sequence[Object]) -> str:
    """The namespace of the first Deployment that has one, else of the first DaemonSet."""
    for plural in ("deployments", "daemonsets"):
        for manifest in manifests:
            if plural_of(manifest) == plural and (namespace := namespaces.namespace_of(manifest)):
                return namespace
    return ""


def _warnings(unknown: Sequence[str]) -> tuple[str, ...]:
    if not unknown:
        return ()
    named = ", ".join(one_line(name) or '""' for name in unknown[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return (f"undefined variables are empty: {named}{more}",)
