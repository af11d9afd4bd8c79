"""The kinds that are known without a cluster: Kubernetes' own, the policies, and those of a mappings file.

A mappings file, in upstream's format, is a list of kinds with group, version, plural and scope; it replaces the default.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy, Policy
from muster.kube.yaml import YAMLError, load
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient, NotFound, ServerFailure, gvr_of
from muster.runtime.client.builtin import API_SERVICES

_KINDS: Final = (
    ("admissionregistration.k8s.io/v1", "", "MutatingWebhookConfiguration ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "", "APIService"),
    ("apps/v1", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", ""),
    ("authentication.k8s.io/v1", "", "SelfSubjectReview TokenReview"),
    ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview"),
    ("autoscaling/v1", "HorizontalPodAutoscaler", ""),
    ("autoscaling/v2", "HorizontalPodAutoscaler", ""),
    ("batch/v1", "CronJob Job", ""),
    ("certificates.k8s.io/v1", "", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1", "Lease", ""),
    ("discovery.k8s.io/v1", "EndpointSlice", ""),
    ("events.k8s.io/v1", "Event", ""),
    ("flowcontrol.apiserver.k8s.io/v1", "", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "", "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io/v1", "Ingress NetworkPolicy", "IngressClass"),
    ("node.k8s.io/v1", "", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget", ""),
    ("rbac.authorization.k8s.io/v1", "RoleBinding Role", "ClusterRoleBinding ClusterRole"),
    ("scheduling.k8s.io/v1", "", "PriorityClass"),
    ("storage.k8s.io/v1", "CSIStorageCapacity", "CSIDriver CSINode StorageClass VolumeAttachment"),
    (
        "v1",
        "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate "
        "ReplicationController ResourceQuota Secret ServiceAccount Service",
        "ComponentStatus Namespace Node PersistentVolume",
    ),
)
"""Group version, namespaced kinds, and cluster-scoped kinds."""

_FIELDS: Final = ("group", "version", "kind", "plural", "scope")


class MappingsError(ValueError):
    """The file is not a list of mappings."""


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith(("ss", "status")):
        return f"{name}es"
    if name.endswith("s"):
        return name
    return f"{name[:-1]}ies" if name.endswith(("cy", "ty")) else f"{name}s"


DEFAULT_KINDS: Final = tuple(
    GVR(api_version, _plural(kind), kind, namespaced)
    for api_version, *scopes in _KINDS
    for namespaced, kinds in zip((True, False), scopes, strict=True)
    for kind in kinds.split()
)
_POLICIES: Final = (gvr_of(Policy), gvr_of(ConfigurationPolicy))


class Mappings:
    """The kinds of a fake cluster."""

    def __init__(self, kinds: Iterable[GVR] = DEFAULT_KINDS) -> None:
        self._kinds = {(kind.api_version, kind.kind): kind for kind in (*kinds, *_POLICIES)}

    def get(self, api_version: str, kind: str) -> GVR | None:
        return self._kinds.get((api_version, kind))


def read_mappings(text: str | bytes) -> Mappings:
    """Raises MappingsError."""
    try:
        entries = load(text)
    except YAMLError as error:
        raise MappingsError(f"the mappings file cannot be read: {error}") from error
    if not isinstance(entries, list):
        raise MappingsError("a mappings file is a list of kinds: write it with `muster policy dryrun generate`")
    return Mappings([_mapping(number, entry) for number, entry in enumerate(entries)])


def _mapping(number: int, entry: Any) -> GVR:
    # Go matches field names case-insensitively.
    lowered = {str(key).lower(): value for key, value in entry.items()} if isinstance(entry, dict) else {}
    fields = [lowered.get(field) for field in _FIELDS]
    if not all(isinstance(field, str) for field in fields):
        raise MappingsError(f"mapping {number} needs {', '.join(_FIELDS)}, each a text")
    group, version, kind, plural, scope = map(str, fields)
    return GVR(f"{group}/{version}" if group else version, plural, kind, scope == "namespace")


async def served_kinds(client: KubeClient) -> list[GVR]:
    """Every kind that a cluster serves, by discovery. Raises KubeError."""
    services = await client.list(API_SERVICES)
    versions = [(service["spec"].get("group") or "", service["spec"]["version"]) for service in services.items]
    kinds: list[GVR] = []
    for group, version in versions:
        # A group version whose server is unavailable has no known kinds.
        with contextlib.suppress(NotFound, ServerFailure):
            kinds += await client.api_resources(f"{group}/{version}" if group else version)
    return kinds


def written(resources: Iterable[GVR]) -> list[dict[str, str]]:
    """The content of a mappings file for these kinds."""
    return [
        {
            "group": kind.group,
            "kind": kind.kind,
            "plural": kind.plural,
            "scope": "namespace" if kind.namespaced else "root",
            "singular": kind.kind.lower(),
            "version": kind.version,
        }
        for kind in sorted(resources, key=lambda kind: f"{kind.group}/{kind.version} {kind.plural}")
    ]
