"""Twenty manifests of twenty kinds that every API server refuses, each with what its refusal says.

Their metadata is in order, so that a ManifestWork with any of them is admitted and the refusal comes on the managed cluster. `says`
is a part of the message that a Kubernetes server and the embedded one have in common.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
_CLUSTER_SCOPED = frozenset(
    (
        *("Namespace", "PersistentVolume", "PriorityClass", "StorageClass", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("ValidatingWebhookConfiguration", "APIService"),
    )
)


@dataclass(frozen=True)
class BadManifest:
    """`name` tells it apart and is the object's."""

    api_version: str
    kind: str
    plural: str
    fields: Document
    says: str

    @property
    def name(self) -> str:
        return "v1.bad.example.com" if self.kind == "APIService" else f"bad-{self.kind.lower()}"

    @property
    def namespaced(self) -> bool:
        return self.kind not in _CLUSTER_SCOPED

    def document(self, namespace: str) -> Document:
        name = "bads.example.com" if self.kind == "CustomResourceDefinition" else self.name
        metadata = {"name": name, **({"namespace": namespace} if self.namespaced else {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **copy.deepcopy(self.fields)}


_CONTAINER = {"name": "app", "image": "app:1"}
_LABELS = {"app": "bad"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {"containers": [_CONTAINER]}}
_OTHER = {"matchLabels": {"app": "other"}}


BAD_MANIFESTS: tuple[BadManifest, ...] = (
    BadManifest("v1", "ConfigMap", "configmaps", {"data": {"not a key!": "x"}}, "data[not a key!]: Invalid value"),
    BadManifest("v1", "Secret", "secrets", {"type": "kubernetes.io/tls", "data": {}}, "data[tls.crt]: Required value"),
    BadManifest("v1", "Service", "services", {"spec": {"ports": [{"port": 70000}]}}, "must be between 1 and 65535, inclusive"),
    BadManifest("v1", "Pod", "pods", {"spec": {"containers": []}}, "spec.containers: Required value"),
    BadManifest("v1", "ServiceAccount", "serviceaccounts", {"secrets": "none"}, "ServiceAccount"),
    BadManifest(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        {"spec": {"resources": {"requests": {"storage": "1Gi"}}}},
        "spec.accessModes: Required value",
    ),
    BadManifest(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        {"spec": {"capacity": {"storage": "1Gi"}}},
        "spec.accessModes: Required value",
    ),
    BadManifest("v1", "ResourceQuota", "resourcequotas", {"spec": {"hard": {"pods": "-1"}}}, "spec.hard[pods]: Invalid value"),
    BadManifest(
        "v1",
        "LimitRange",
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}},
        "spec.limits[0].min[cpu]: Invalid value",
    ),
    BadManifest(
        "apps/v1",
        "Deployment",
        "deployments",
        {"spec": {"selector": _OTHER, "template": _TEMPLATE}},
        "`selector` does not match template `labels`",
    ),
    BadManifest(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        {
            "spec": {
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "app"}]}},
            }
        },
        "spec.template.spec.containers[0].image: Required value",
    ),
    BadManifest(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"replicas": -1, "serviceName": "x", "selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}},
        "spec.replicas: Invalid value: -1",
    ),
    BadManifest(
        "batch/v1",
        "Job",
        "jobs",
        {"spec": {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Always"}}}},
        "spec.template.spec.restartPolicy",
    ),
    BadManifest(
        "batch/v1",
        "CronJob",
        "cronjobs",
        {
            "spec": {
                "schedule": "every now and then",
                "jobTemplate": {"spec": {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}}},
            }
        },
        'spec.schedule: Invalid value: "every now and then"',
    ),
    BadManifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        {"spec": {"podSelector": {}, "policyTypes": ["Sideways"]}},
        "spec.policyTypes[0]: Unsupported value",
    ),
    BadManifest(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        {"spec": {"rules": [{"host": "Not_A_Host", "http": {"paths": []}}]}},
        "spec.rules[0].host: Invalid value",
    ),
    BadManifest(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"spec": {"selector": {"matchLabels": _LABELS}, "minAvailable": 1, "maxUnavailable": 1}},
        "minAvailable and maxUnavailable cannot be both set",
    ),
    BadManifest(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Nothing", "name": "x"}],
        },
        "subjects[0].kind: Unsupported value",
    ),
    BadManifest(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        {
            "spec": {
                "group": "example.com",
                "names": {"plural": "bads", "kind": "Bad"},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True}],
            }
        },
        "schema",
    ),
    BadManifest(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        {
            "webhooks": [
                {
                    "name": "bad.example.com",
                    "clientConfig": {"url": "http://example.com"},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ]
        },
        "webhooks[0].clientConfig.url: Invalid value",
    ),
)
