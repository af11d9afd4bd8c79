"""Manifests as the agent plans them, and one of each of many kinds with the defaults that servers fill in."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import orjson

from muster.api.work.v1 import UpdateStrategy
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.cache.observed import ABSENT, ObservedObject, Presence
from muster.work.agent.interfaces import Manifest

PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "Ingress": "ingresses",
    "PriorityClass": "priorityclasses",
    "Gadget": "gadgets",
}
CLUSTER_SCOPED = {
    *("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "ValidatingWebhookConfiguration"),
    *("PriorityClass", "PersistentVolume"),
}


def resource_of(document: Object) -> GVR:
    kind = document["kind"]
    return GVR(document["apiVersion"], PLURALS.get(kind, kind.lower() + "s"), kind, namespaced=kind not in CLUSTER_SCOPED)


def manifest(document: Object, *, owned: bool = True, **strategy: Any) -> Manifest:
    """`document` as planned; `strategy` are the fields of an UpdateStrategy."""
    document = copy.deepcopy(document)
    resource = resource_of(document)
    metadata = document["metadata"]
    if resource.namespaced:
        metadata.setdefault("namespace", "default")
    how = UpdateStrategy(**strategy)
    digest = hashlib.sha256(orjson.dumps([document, owned, repr(how)])).digest()
    return Manifest(0, 0, ObjectRef(resource, metadata.get("namespace", ""), metadata["name"]), document, digest, how, owned)


def sight_of(live: Object | None) -> ObservedObject:
    if live is None:
        return ABSENT
    seen = {**live, "metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}
    return ObservedObject(Presence.PRESENT, live["metadata"]["uid"], live["metadata"]["resourceVersion"], orjson.dumps(seen))


def of(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


POD = {
    "containers": [
        {
            "name": "app",
            "image": "app:1",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "env": [{"name": "A", "value": ""}],
            "args": [],
            "tty": False,
            "securityContext": {},
        }
    ],
    "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
    "nodeSelector": {},
    "hostNetwork": False,
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}, "creationTimestamp": None}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "x"}}
JOB = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"service": {"namespace": "default", "name": "svc"}},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
GADGETS = of(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "gadgets.example.com",
    spec={
        "group": "example.com",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "scope": "Namespaced",
        "preserveUnknownFields": False,
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "color": {"type": "string", "default": "red"},
                                    "on": {"type": "boolean"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
    status={"acceptedNames": {"plural": "", "kind": ""}, "conditions": [], "storedVersions": []},
)
KINDS = [
    of("v1", "Namespace", "team", spec={}),
    of("v1", "Service", "svc", spec={"selector": {"app": "x"}, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}),
    of("v1", "ServiceAccount", "sa", imagePullSecrets=[{"name": "pull"}]),
    of("v1", "Pod", "pod", spec=POD),
    of("v1", "Secret", "secret", stringData={"a": "b"}),
    of(
        "v1",
        "PersistentVolumeClaim",
        "pvc",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    ),
    of("v1", "ResourceQuota", "quota", spec={"hard": {"pods": 10, "requests.cpu": "1000m"}}),
    of("v1", "LimitRange", "limits", spec={"limits": [{"type": "Container", "max": {"cpu": "2000m"}}]}),
    of("apps/v1", "Deployment", "dep", spec={"selector": SELECTOR, "template": TEMPLATE, "strategy": {}}, status={}),
    of("apps/v1", "DaemonSet", "ds", spec={"selector": SELECTOR, "template": TEMPLATE}),
    of("apps/v1", "StatefulSet", "ss", spec={"selector": SELECTOR, "template": TEMPLATE, "serviceName": "svc"}),
    of("batch/v1", "Job", "job", spec=JOB),
    of("batch/v1", "CronJob", "cron", spec={"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}),
    of(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "net",
        spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": SELECTOR}]}], "egress": []},
    ),
    of(
        "networking.k8s.io/v1",
        "Ingress",
        "ing",
        spec={
            "rules": [
                {
                    "host": "a.example.com",
                    "http": {
                        "paths": [
                            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "svc", "port": {"number": 80}}}}
                        ]
                    },
                }
            ]
        },
    ),
    of("policy/v1", "PodDisruptionBudget", "pdb", spec={"selector": SELECTOR, "minAvailable": 1}),
    of("rbac.authorization.k8s.io/v1", "Role", "role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    of(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "bind",
        roleRef={"kind": "Role", "name": "role"},
        subjects=[{"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "sa", "namespace": "default"}],
    ),
    of(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "aggregated",
        aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        rules=[],
    ),
    of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hooks", webhooks=[HOOK]),
    of("scheduling.k8s.io/v1", "PriorityClass", "prio", value=10, globalDefault=False),
    of(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "hpa",
        spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "dep"}, "maxReplicas": 3},
    ),
    GADGETS,
]
