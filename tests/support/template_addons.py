"""Template addons as data: installations with a template and a configuration, and the manifests that templates have."""

from __future__ import annotations

from typing import Any

from muster.addon.agent_addon import Agent, ConfigObject, Installation
from muster.addon.templates.addon import TemplateAddon
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig, AddOnTemplate, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster

Document = dict[str, Any]
CLUSTER, ADDON = "cluster1", "hello"


def deployment(name: str = "agent", namespace: str = "hello-ns", *, kind: str = "Deployment", **container: Any) -> Document:
    pod = {"containers": [{"name": "main", "image": "reg.example/team/hello:v1", **container}]}
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": {"spec": pod}}}


def template_of(*manifests: Any, registration: Any = None, configs: Any = (), name: str = "hello-1") -> ConfigObject:
    spec: Document = {
        "addonName": ADDON,
        "agentSpec": {"workload": {"manifests": list(manifests)}, "manifestConfigs": list(configs)},
    }
    if registration is not None:
        spec["registration"] = registration
    return _config(AddOnTemplate, {"metadata": {"name": name}, "spec": spec})


def config_of(*, namespace: str = "", **spec: Any) -> ConfigObject:
    body = {"metadata": {"name": "config", "namespace": "default"}, "spec": {"agentInstallNamespace": namespace, **spec}}
    return _config(AddOnDeploymentConfig, body)


def _config(kind: Any, body: Document) -> ConfigObject:
    place = kind.resource
    return ConfigObject(place.group, place.plural, {"apiVersion": place.api_version, "kind": place.kind, **body}, "hash")


def installation(*configs: ConfigObject, cluster: str = CLUSTER, annotations: Document | None = None) -> Installation:
    there = ManagedCluster.decode({"metadata": {"name": cluster, "annotations": annotations or {}}, "spec": {}})
    addon = ManagedClusterAddOn.decode({"metadata": {"name": ADDON, "namespace": cluster}, "spec": {}})
    return Installation(there, addon, configs)


def rendered(*configs: ConfigObject, annotations: Document | None = None) -> Agent:
    return TemplateAddon(ADDON).agent(installation(*configs, annotations=annotations))


def pod_of(agent: Agent, number: int = 0) -> Document:
    pod: Document = agent.manifests[number]["spec"]["template"]["spec"]
    return pod


def container_of(agent: Agent, number: int = 0) -> Document:
    container: Document = pod_of(agent, number)["containers"][0]
    return container


def variable(name: str, value: str) -> Document:
    return {"name": name, "value": value}
