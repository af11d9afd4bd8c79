"""Objects the server accepts, so that damage to them reaches deep into validation, storage and what follows."""

from __future__ import annotations

from typing import Any

_POD: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "example/main:1",
            "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
        }
    ],
    "volumes": [{"name": "config", "configMap": {"name": "f0"}}, {"name": "scratch", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    },
    "terminationGracePeriodSeconds": 5,
}
_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "f"}}, "spec": _POD}
_SELECTOR: dict[str, Any] = {"matchLabels": {"app": "f"}}
_JOB: dict[str, Any] = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}},
    "completions": 1,
    "backoffLimit": 3,
}
_RULES: list[dict[str, Any]] = [{"apiGroups": ["", "apps"], "resources": ["pods", "deployments/scale"], "verbs": ["get", "list"]}]
_SUBJECTS: list[dict[str, Any]] = [
    {"kind": "ServiceAccount", "name": "robot", "namespace": "fuzz"},
    {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"},
]


def _row(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "f0", "labels": {"a": "b"}}, **fields}


SEEDS: dict[str, list[dict[str, Any]]] = {
    "configmaps": [_row("v1", "ConfigMap", data={"k": "v", "long": "x" * 300}, binaryData={"b": "AAEC"}, immutable=False)],
    "secrets": [_row("v1", "Secret", type="Opaque", data={"k": "dg=="}, stringData={"s": "t"})],
    "serviceaccounts": [_row("v1", "ServiceAccount", secrets=[{"name": "s"}], automountServiceAccountToken=True)],
    "pods": [_row("v1", "Pod", spec=_POD)],
    "services": [
        _row("v1", "Service", spec={"selector": {"app": "f"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}),
        _row("v1", "Service", spec={"type": "ExternalName", "externalName": "example.com"}),
    ],
    "endpoints": [_row("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}])],
    "endpointslices": [
        _row(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            addressType="IPv4",
            endpoints=[{"addresses": ["10.1.1.1"]}],
            ports=[{"port": 80}],
        )
    ],
    "events": [
        _row(
            "v1",
            "Event",
            involvedObject={"kind": "Pod", "namespace": "fuzz", "name": "f0"},
            reason="Fuzzed",
            type="Normal",
            message="m",
            count=1,
            firstTimestamp="2026-11-15T10:00:00Z",
        )
    ],
    "resourcequotas": [_row("v1", "ResourceQuota", spec={"hard": {"pods": "10", "requests.cpu": "4"}})],
    "limitranges": [
        _row("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]})
    ],
    "persistentvolumeclaims": [
        _row("v1", "PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
    ],
    "nodes": [_row("v1", "Node", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}, status={"capacity": {"cpu": "4"}})],
    "deployments": [
        _row(
            "apps/v1",
            "Deployment",
            spec={
                "replicas": 1,
                "selector": _SELECTOR,
                "template": _TEMPLATE,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            },
        )
    ],
    "daemonsets": [_row("apps/v1", "DaemonSet", spec={"selector": _SELECTOR, "template": _TEMPLATE})],
    "replicasets": [_row("apps/v1", "ReplicaSet", spec={"replicas": 2, "selector": _SELECTOR, "template": _TEMPLATE})],
    "statefulsets": [
        _row("apps/v1", "StatefulSet", spec={"serviceName": "f", "replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE})
    ],
    "jobs": [_row("batch/v1", "Job", spec=_JOB)],
    "cronjobs": [_row("batch/v1", "CronJob", spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": _JOB}})],
    "horizontalpodautoscalers": [
        _row(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "f0"},
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
                ],
            },
        )
    ],
    "poddisruptionbudgets": [_row("policy/v1", "PodDisruptionBudget", spec={"minAvailable": "50%", "selector": _SELECTOR})],
    "ingresses": [
        _row(
            "networking.k8s.io/v1",
            "Ingress",
            spec={
                "rules": [
                    {
                        "host": "example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "f", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            },
        )
    ],
    "networkpolicies": [
        _row(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={
                "podSelector": _SELECTOR,
                "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
                "policyTypes": ["Ingress"],
            },
        )
    ],
    "roles": [_row("rbac.authorization.k8s.io/v1", "Role", rules=_RULES)],
    "clusterroles": [
        _row(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            rules=_RULES,
            aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"fuzz": "yes"}}]},
        )
    ],
    "rolebindings": [
        _row(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            subjects=_SUBJECTS,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "f0"},
        )
    ],
    "leases": [
        _row(
            "coordination.k8s.io/v1",
            "Lease",
            spec={"holderIdentity": "x", "leaseDurationSeconds": 9, "renewTime": "2026-11-15T10:00:00.1Z"},
        )
    ],
    "priorityclasses": [_row("scheduling.k8s.io/v1", "PriorityClass", value=10, description="d")],
    "storageclasses": [_row("storage.k8s.io/v1", "StorageClass", provisioner="example.com/p", parameters={"a": "b"})],
    "certificatesigningrequests": [
        _row(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            spec={"request": "AAAA", "signerName": "example.com/s", "usages": ["client auth"], "expirationSeconds": 600},
        )
    ],
    "subjectaccessreviews": [
        _row(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            spec={"user": "alice", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods"}},
        )
    ],
    "selfsubjectaccessreviews": [
        _row("authorization.k8s.io/v1", "SelfSubjectAccessReview", spec={"nonResourceAttributes": {"verb": "get", "path": "/x"}})
    ],
    "tokenreviews": [_row("authentication.k8s.io/v1", "TokenReview", spec={"token": "alice-static-token", "audiences": ["a"]})],
    "apiservices": [
        _row(
            "apiregistration.k8s.io/v1",
            "APIService",
            spec={
                "group": "x.example.com",
                "version": "v1",
                "groupPriorityMinimum": 1,
                "versionPriority": 1,
                "service": {"name": "s", "namespace": "fuzz"},
            },
        )
    ],
    "validatingadmissionpolicies": [
        _row(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            spec={
                "matchConstraints": {
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
                },
                "validations": [{"expression": "object.metadata.name.size() < 10", "messageExpression": "'too ' + 'long'"}],
                "variables": [{"name": "v", "expression": "object.metadata.labels"}],
            },
        )
    ],
}
