"""Objects the real server accepts, one for each thing a kind fills in; `$NS` stands for the namespace they are created in."""

from __future__ import annotations

from .builders import CONTAINER, SELECTOR, TEMPLATE, Input

RBAC = "rbac.authorization.k8s.io/v1"
STORAGE = "storage.k8s.io/v1"
NETWORKING = "networking.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
FLOW = "flowcontrol.apiserver.k8s.io/v1"

ACCEPTED: tuple[Input, ...] = (
    ("v1", "ConfigMap", {"data": {"a": "b"}}),
    ("v1", "ConfigMap", {}),
    ("v1", "Secret", {"stringData": {"a": "b"}}),
    ("v1", "Secret", {"data": {"a": "Yg=="}, "type": "x/y"}),
    ("v1", "ServiceAccount", {}),
    (
        "v1",
        "ServiceAccount",
        {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": False},
    ),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    (
        "v1",
        "Service",
        {
            "spec": {
                "type": "NodePort",
                "ports": [{"port": 80, "name": "a", "nodePort": 30777}, {"port": 81, "name": "b", "targetPort": "http"}],
                "sessionAffinity": "ClientIP",
            }
        },
    ),
    ("v1", "Service", {"spec": {"type": "ExternalName", "externalName": "a.b"}}),
    ("v1", "Service", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    ("v1", "Endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]}),
    (
        "v1",
        "Pod",
        {
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "nginx",
                        "ports": [{"containerPort": 80}],
                        "env": [
                            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                        ],
                        "livenessProbe": {"httpGet": {"port": 80}},
                        "readinessProbe": {"grpc": {"port": 1}},
                        "startupProbe": {"tcpSocket": {"port": "x"}},
                        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
                        "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
                    },
                    {"name": "d", "image": "a/b:1", "securityContext": {"privileged": False}},
                ],
                "initContainers": [{"name": "i", "image": "x@sha256:" + "0" * 64}],
                "volumes": [
                    {"name": "a"},
                    {"name": "b", "secret": {"secretName": "x"}},
                    {"name": "c", "configMap": {"name": "x"}},
                    {"name": "d", "hostPath": {"path": "/x"}},
                    {
                        "name": "e",
                        "projected": {
                            "sources": [
                                {"serviceAccountToken": {"path": "x"}},
                                {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                            ]
                        },
                    },
                    {"name": "f", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    {"name": "g", "image": {"reference": "a:latest"}},
                    {
                        "name": "h",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                            }
                        },
                    },
                    {"name": "i", "persistentVolumeClaim": {"claimName": "x"}},
                ],
                "serviceAccountName": "default",
            }
        },
    ),
    (
        "v1",
        "Pod",
        {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}]}]}},
    ),
    ("v1", "PodTemplate", {"template": TEMPLATE}),
    ("v1", "ReplicationController", {"spec": {"template": TEMPLATE}}),
    (
        "v1",
        "LimitRange",
        {
            "spec": {
                "limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}, {"type": "Pod", "max": {"cpu": "2"}}]
            }
        },
    ),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "10", "cpu": "0.5"}}}),
    ("v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    (
        "v1",
        "PersistentVolume",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
    ),
    ("v1", "Namespace", {}),
    ("v1", "Node", {"status": {"capacity": {"cpu": "1"}}}),
    (
        "v1",
        "Event",
        {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "$NS"}, "reason": "a", "message": "m", "type": "Normal"},
    ),
    (
        "events.k8s.io/v1",
        "Event",
        {
            "regarding": {"kind": "Pod", "name": "x", "namespace": "$NS"},
            "reason": "a",
            "note": "m",
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.123456Z",
            "reportingController": "a.b/c",
            "reportingInstance": "i",
            "action": "x",
        },
    ),
    ("apps/v1", "Deployment", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate"}}},
    ),
    ("apps/v1", "ReplicaSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (
        "apps/v1",
        "StatefulSet",
        {
            "spec": {
                "selector": SELECTOR,
                "serviceName": "x",
                "template": TEMPLATE,
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "v"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            }
        },
    ),
    ("apps/v1", "DaemonSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("apps/v1", "ControllerRevision", {"data": {"a": 1}, "revision": 1}),
    ("batch/v1", "Job", {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}),
    (
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}},
            }
        },
    ),
    (RBAC, "Role", {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    (RBAC, "Role", {}),
    (RBAC, "ClusterRole", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    (
        RBAC,
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "x"},
            "subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "a", "namespace": "b"}],
        },
    ),
    (RBAC, "ClusterRoleBinding", {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}),
    (
        "coordination.k8s.io/v1",
        "Lease",
        {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 10, "renewTime": "2026-01-01T00:00:00.000000Z"}},
    ),
    ("coordination.k8s.io/v1", "Lease", {}),
    (NETWORKING, "Ingress", {"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}}),
    (
        NETWORKING,
        "Ingress",
        {
            "spec": {
                "rules": [
                    {
                        "host": "a.b",
                        "http": {
                            "paths": [
                                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "x", "port": {"name": "h"}}}}
                            ]
                        },
                    }
                ]
            }
        },
    ),
    (NETWORKING, "IngressClass", {"spec": {"controller": "a.b/c", "parameters": {"kind": "X", "name": "y"}}}),
    (NETWORKING, "NetworkPolicy", {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 80}]}]}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": SELECTOR}}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 10}),
    (STORAGE, "StorageClass", {"provisioner": "a.b/c"}),
    (STORAGE, "CSIDriver", {"spec": {}}),
    (STORAGE, "CSINode", {"spec": {"drivers": []}}),
    (STORAGE, "VolumeAttachment", {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}}),
    (STORAGE, "CSIStorageCapacity", {"storageClassName": "x", "capacity": "1Gi"}),
    (STORAGE, "VolumeAttributesClass", {"driverName": "a.b", "parameters": {"a": "b"}}),
    (
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}}},
    ),
    (
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "maxReplicas": 3,
                "targetCPUUtilizationPercentage": 50,
                "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"},
            }
        },
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
            }
        },
    ),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "x"}),
    (FLOW, "FlowSchema", {"spec": {"priorityLevelConfiguration": {"name": "x"}}}),
    (
        FLOW,
        "PriorityLevelConfiguration",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
    ),
    (
        ADMISSION,
        "ValidatingWebhookConfiguration",
        {
            "webhooks": [
                {
                    "name": "a.b.c",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"service": {"name": "a", "namespace": "b"}},
                    "rules": [{"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["z"]}],
                }
            ]
        },
    ),
    (
        ADMISSION,
        "MutatingWebhookConfiguration",
        {
            "webhooks": [
                {
                    "name": "a.b.c",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": "https://a.b/c"},
                }
            ]
        },
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicy",
        {
            "spec": {
                "matchConstraints": {
                    "resourceRules": [{"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["z"]}]
                },
                "validations": [{"expression": "true"}],
            }
        },
    ),
    (
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        {"spec": {"policyName": "x", "validationActions": ["Deny"], "matchResources": {}}},
    ),
    (
        "apiregistration.k8s.io/v1",
        "APIService",
        {
            "metadata": {"name": "v1.x.y"},
            "spec": {
                "group": "x.y",
                "version": "v1",
                "groupPriorityMinimum": 10,
                "versionPriority": 10,
                "service": {"name": "a", "namespace": "b"},
                "insecureSkipTLSVerify": True,
            },
        },
    ),
)
