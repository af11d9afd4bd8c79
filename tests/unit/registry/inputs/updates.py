"""Replacements of existing objects: some the real server accepts, most it refuses because something may not change."""

from __future__ import annotations

from .builders import CONTAINER, SELECTOR, TEMPLATE, Update

RBAC = "rbac.authorization.k8s.io/v1"
STORAGE = "storage.k8s.io/v1"
JOB = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}
WORKLOAD = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
OTHER = {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}
SERVICE = {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
VOLUME = {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}
POD = {"spec": {"containers": [CONTAINER], "automountServiceAccountToken": False}}
BINDING = {"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}]}
INGRESS_CLASS = {"spec": {"controller": "a.b/c"}}

UPDATES: tuple[Update, ...] = (
    ("v1", "ConfigMap", {"data": {"a": "b"}}, {"data": {"a": "c"}}),
    ("v1", "ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}}),
    ("v1", "ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"immutable": False}),
    ("v1", "ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"binaryData": {"x": "eA=="}}),
    ("v1", "ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"metadata": {"labels": {"a": "b"}}}),
    ("v1", "Secret", {"data": {"a": "eA=="}, "immutable": True}, {"data": {"a": "eQ=="}}),
    ("v1", "Secret", {"data": {"a": "eA=="}}, {"stringData": {"b": "y"}}),
    ("v1", "Secret", {"data": {"a": "eA=="}}, {"type": "x/y"}),
    ("v1", "Service", SERVICE, {"spec": {"clusterIP": "10.0.0.77", "clusterIPs": None}}),
    ("v1", "Service", SERVICE, {"spec": {"clusterIP": None, "clusterIPs": None}}),
    ("v1", "Service", SERVICE, {"spec": {"type": "NodePort"}}),
    ("v1", "Service", SERVICE, {"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": None, "clusterIPs": None}}),
    ("v1", "Service", {"spec": {**SERVICE["spec"], "type": "NodePort"}}, {"spec": {"type": "ClusterIP"}}),
    ("v1", "Pod", POD, {"metadata": {"labels": {"a": "b"}}}),
    ("v1", "Pod", POD, {"spec": {"containers": [CONTAINER, {"name": "d", "image": "x"}]}}),
    ("v1", "Namespace", {}, {"spec": {"finalizers": None}}),
    ("v1", "ServiceAccount", {}, {"secrets": [{"name": "a", "kind": "Secret"}]}),
    ("v1", "PersistentVolumeClaim", CLAIM, {"spec": {"volumeMode": "Block"}}),
    ("v1", "PersistentVolume", VOLUME, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"scopes": ["BestEffort"]}}),
    ("v1", "ReplicationController", {"spec": {"template": TEMPLATE}}, {"spec": {"replicas": 3}}),
    ("apps/v1", "Deployment", WORKLOAD, {"spec": {"replicas": 3}}),
    ("apps/v1", "Deployment", WORKLOAD, {"spec": OTHER}),
    ("apps/v1", "Deployment", WORKLOAD, {"spec": {"selector": {"matchLabels": {"a": "c"}}}}),
    ("apps/v1", "ReplicaSet", WORKLOAD, {"spec": OTHER}),
    ("apps/v1", "DaemonSet", WORKLOAD, {"spec": OTHER}),
    ("apps/v1", "DaemonSet", WORKLOAD, {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}),
    ("apps/v1", "StatefulSet", WORKLOAD, {"spec": {"serviceName": "x"}}),
    ("apps/v1", "StatefulSet", WORKLOAD, {"spec": {"replicas": 2, "minReadySeconds": 3}}),
    ("apps/v1", "ControllerRevision", {"data": {"a": 1}, "revision": 1}, {"data": {"a": 2}}),
    ("apps/v1", "ControllerRevision", {"data": {"a": 1}, "revision": 1}, {"revision": 2}),
    ("batch/v1", "Job", JOB, {"spec": {"parallelism": 2}}),
    ("batch/v1", "Job", JOB, {"spec": {"completions": 2}}),
    ("batch/v1", "Job", JOB, {"spec": {"completionMode": "Indexed"}}),
    ("batch/v1", "CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": JOB}}, {"spec": {"schedule": "@hourly"}}),
    (RBAC, "RoleBinding", BINDING, {"roleRef": {"name": "edit"}}),
    (RBAC, "ClusterRoleBinding", BINDING, {"roleRef": {"name": "edit"}}),
    (RBAC, "ClusterRoleBinding", BINDING, {"subjects": None}),
    (RBAC, "Role", {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}, {"rules": []}),
    ("networking.k8s.io/v1", "IngressClass", INGRESS_CLASS, {"spec": {"controller": "a.b/d"}}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 5}, {"value": 6}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 5}, {"preemptionPolicy": "Never"}),
    (STORAGE, "StorageClass", {"provisioner": "a.b/c"}, {"provisioner": "a.b/d", "reclaimPolicy": "Retain"}),
    (STORAGE, "StorageClass", {"provisioner": "a.b/c"}, {"volumeBindingMode": "WaitForFirstConsumer"}),
    (STORAGE, "CSIDriver", {"spec": {}}, {"spec": {"attachRequired": False}}),
    (STORAGE, "VolumeAttributesClass", {"driverName": "a.b", "parameters": {"a": "b"}}, {"parameters": {"a": "c"}}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "x"}, {"handler": "y"}),
    ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4"}, {"addressType": "IPv6"}),
)
