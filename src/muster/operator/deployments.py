"""Renders all Deployments: the differences are data (`Workload`), the rest is here.

All pods meet the restricted Pod Security Standard: no root, no privileges, no capabilities, a read-only root file system. Writable
directories are emptyDir volumes that a workload names. Each container serves /healthz and /readyz on the port called `health`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import Document
from muster.api.meta import NodePlacement
from muster.api.operator.v1 import ResourceRequirement
from muster.api.resource import known_fields
from muster.machinery.objects import Object
from muster.operator.names import PULL_SECRET
from muster.registration.drivers.profile import AccountToken

NAME_LABEL: Final = "app.kubernetes.io/name"
CONTROL_PLANE_LABEL: Final = "node-role.kubernetes.io/control-plane"
USER: Final = 65532
"""The user ID of the image."""
DEFAULT_RESOURCES: Final = {"requests": {"cpu": "10m", "memory": "64Mi"}}
REVISION_HISTORY: Final = 3
ANYWHERE: Final = NodePlacement()


@dataclass(frozen=True)
class SecretVolume:
    name: str
    secret: str
    path: str
    optional: bool = False


@dataclass(frozen=True)
class ConfigMapVolume:
    name: str
    config_map: str
    path: str
    optional: bool = False


@dataclass(frozen=True)
class Workload:
    """A Deployment with one container, which runs `muster <args>`."""

    name: str
    namespace: str
    account: str
    image: str
    args: tuple[str, ...]
    container: str = ""
    """Its name; the Deployment's when empty."""
    app: str = ""
    """The label by which its pods are selected; the Deployment's name if empty."""
    replicas: int = 1
    health_port: int = 8081
    ready_path: str = "/readyz"
    ports: Mapping[str, int] = field(default_factory=dict)
    secrets: tuple[SecretVolume, ...] = ()
    config_maps: tuple[ConfigMapVolume, ...] = ()
    scratch: Mapping[str, str] = field(default_factory=dict)
    """emptyDir volumes: name to path. `/tmp` is always there."""
    tokens: tuple[AccountToken, ...] = ()
    """Service account tokens for other audiences than its own cluster."""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    placement: NodePlacement = ANYWHERE
    resources: ResourceRequirement | None = None
    priority_class: str = ""
    host_network: bool = False
    host_aliases: Mapping[str, str] = field(default_factory=dict)
    """Host name to address."""
    pull_secret: str = PULL_SECRET
    automount: bool = True
    """Whether the account's token is mounted."""


def deployment(workload: Workload) -> Document:
    app = {"app": workload.app or workload.name}
    metadata: Document = {"name": workload.name, "namespace": workload.namespace, "labels": {**workload.labels, **app}}
    if workload.annotations:
        metadata["annotations"] = dict(workload.annotations)
    shown = {NAME_LABEL: workload.name} if workload.app else {}
    pod_metadata: Document = {"labels": {**workload.labels, **shown, **app}}
    if workload.pod_annotations:
        pod_metadata["annotations"] = dict(workload.pod_annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": workload.replicas,
            "revisionHistoryLimit": REVISION_HISTORY,
            "selector": {"matchLabels": app},
            "template": {"metadata": pod_metadata, "spec": _pod(workload)},
        },
    }


def _pod(workload: Workload) -> Document:
    spec: Document = {
        "serviceAccountName": workload.account,
        "automountServiceAccountToken": workload.automount,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(workload)],
        "volumes": _volumes(workload),
    }
    optional: Document = {
        "imagePullSecrets": [{"name": workload.pull_secret}] if workload.pull_secret else None,
        "priorityClassName": workload.priority_class,
        "hostNetwork": workload.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if workload.host_network else "",
        "nodeSelector": dict(workload.placement.node_selector),
        "tolerations": [known_fields(toleration) for toleration in workload.placement.tolerations],
        "hostAliases": [{"ip": ip, "hostnames": [name]} for name, ip in workload.host_aliases.items()],
        "affinity": _apart(workload.app or workload.name) if workload.replicas > 1 else None,
    }
    return {**spec, **{name: value for name, value in optional.items() if value}}


def _container(workload: Workload) -> Document:
    volumes: list[SecretVolume | ConfigMapVolume] = [*workload.secrets, *workload.config_maps]
    mounts = [{"name": volume.name, "mountPath": volume.path, "readOnly": True} for volume in volumes]
    mounts += [{"name": token.volume, "mountPath": token.directory, "readOnly": True} for token in workload.tokens]
    mounts += [{"name": name, "mountPath": path} for name, path in _scratch(workload).items()]
    ports = {**workload.ports, "health": workload.health_port}
    container: Document = {
        "name": workload.container or workload.name,
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(workload.args),
        "env": _environment(workload),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()],
        "livenessProbe": _probe("/healthz", initialDelaySeconds=2, periodSeconds=10),
        "readinessProbe": _probe(workload.ready_path, initialDelaySeconds=0, periodSeconds=2),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
        "volumeMounts": mounts,
    }
    resources = _resources(workload.resources)
    return {**container, "resources": resources} if resources else container


def _scratch(workload: Workload) -> dict[str, str]:
    return {"tmp": "/tmp", **workload.scratch}


def _volumes(workload: Workload) -> list[Document]:
    secrets = [{"name": secret.name, "secret": {"secretName": secret.secret, **_optional(secret)}} for secret in workload.secrets]
    maps = [
        {"name": config_map.name, "configMap": {"name": config_map.config_map, **_optional(config_map)}}
        for config_map in workload.config_maps
    ]
    tokens = [{"name": token.volume, "projected": {"sources": [_account_token(token)]}} for token in workload.tokens]
    return [*secrets, *maps, *tokens, *({"name": name, "emptyDir": {}} for name in _scratch(workload))]


def _account_token(token: AccountToken) -> Document:
    return {"serviceAccountToken": {"audience": token.audience, "expirationSeconds": token.seconds, "path": token.file}}


def _optional(volume: SecretVolume | ConfigMapVolume) -> Document:
    return {"optional": True} if volume.optional else {}


def _environment(workload: Workload) -> list[Document]:
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}
    own = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    return [*own, *({"name": name, "value": value} for name, value in workload.environment.items())]


def _probe(path: str, **times: int) -> Document:
    return {"httpGet": {"path": path, "port": "health", "scheme": "HTTP"}, "timeoutSeconds": 5, **times}


def _resources(required: ResourceRequirement | None) -> Document:
    if required is None or required.type == "Default":
        return dict(DEFAULT_RESOURCES)
    if required.type == "BestEffort" or required.resource_requirements is None:
        return {}
    return known_fields(required.resource_requirements)  # type: ignore[no-any-return]


def _apart(app: str) -> Document:
    """Anti-affinity: replicas on different nodes and zones, if possible."""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]}
    terms = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": selector}}
        for key, weight in (("topology.kubernetes.io/zone", 70), ("kubernetes.io/hostname", 30))
    ]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def replicas_for(control_plane_nodes: int) -> int:
    """Three if the control plane has several nodes, else one."""
    return 3 if control_plane_nodes > 1 else 1


@dataclass(frozen=True)
class Rollout:
    """The progress of a Deployment's rollout."""

    wanted: int
    available: int
    complete: bool
    """All pods are of the newest version."""

    @property
    def functional(self) -> bool:
        return self.available >= self.wanted


def rollout(found: Object) -> Rollout:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    wanted = 1 if spec.get("replicas") is None else int(spec["replicas"])
    current = int(status.get("observedGeneration") or 0) >= int(found["metadata"].get("generation") or 0)
    updated, total, available = (_count(status, name) for name in ("updatedReplicas", "replicas", "availableReplicas"))
    return Rollout(wanted, available, current and updated >= wanted and total == updated and available >= wanted)


def rollouts(names: Iterable[str], deployments: Iterable[Object]) -> dict[str, Rollout | None]:
    """The rollouts of the wanted Deployments, by name; None is a missing one."""
    found = {obj["metadata"]["name"]: rollout(obj) for obj in deployments}
    return {name: found.get(name) for name in names}


def _count(status: Mapping[str, Any], name: str) -> int:
    return int(status.get(name) or 0)
