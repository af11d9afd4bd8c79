"""Objects the real server refuses, one for each mistake a person makes; `$NS` stands for the namespace they are created in."""

from __future__ import annotations

from typing import Any

from .builders import CONTAINER, SELECTOR, TEMPLATE, Input

RBAC = "rbac.authorization.k8s.io/v1"
STORAGE = "storage.k8s.io/v1"
NETWORKING = "networking.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
FLOW = "flowcontrol.apiserver.k8s.io/v1"
CERTIFICATES = "certificates.k8s.io/v1"

WEBHOOK = {
    "name": "a.b.c",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://a.b/c"},
}
RULE = {"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["z"]}
POLICY = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [CONTAINER], **fields}}


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**CONTAINER, **fields}]}}


def workload(**fields: Any) -> dict[str, Any]:
    return {"spec": {"selector": SELECTOR, "template": TEMPLATE, **fields}}


def service(*ports: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"ports": list(ports) or [{"port": 80}], **fields}}


def webhook(**fields: Any) -> dict[str, Any]:
    return {"webhooks": [{**WEBHOOK, **fields}]}


REFUSED: tuple[Input, ...] = (
    ("v1", "ConfigMap", {"data": {"a b": "x"}}),
    ("v1", "ConfigMap", {"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
    ("v1", "ConfigMap", {"data": {"..": "x"}}),
    ("v1", "Secret", {"data": {"a/b": "eA=="}}),
    ("v1", "Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}),
    ("v1", "Secret", {"type": "kubernetes.io/tls"}),
    ("v1", "Secret", {"type": "kubernetes.io/basic-auth"}),
    ("v1", "Secret", {"type": "kubernetes.io/ssh-auth"}),
    ("v1", "Secret", {"type": "kubernetes.io/dockerconfigjson"}),
    ("v1", "Secret", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}),
    ("v1", "Secret", {"type": "kubernetes.io/service-account-token"}),
    ("v1", "Secret", {"data": {"a": "!!"}}),
    ("v1", "Secret", {"data": {"a": "YQ="}}),
    ("v1", "Secret", {"data": {"a": 1}}),
    ("v1", "ConfigMap", {"data": {"a": 1}}),
    ("v1", "ConfigMap", {"data": "x"}),
    ("v1", "ConfigMap", {"immutable": "x"}),
    ("v1", "ConfigMap", {"metadata": {"name": "x", "labels": {"a": 1}}}),
    ("v1", "ConfigMap", {"metadata": {"name": "X"}}),
    ("v1", "ConfigMap", {"metadata": {"name": "x", "labels": {"a b": "1"}}}),
    ("v1", "ConfigMap", {"metadata": {"name": "x", "creationTimestamp": "abc"}}),
    ("v1", "ConfigMap", {"metadata": {"name": "x", "creationTimestamp": "2026-13-01T00:00:00Z"}}),
    ("v1", "ConfigMap", {"metadata": {"name": "x", "creationTimestamp": 5}}),
    ("v1", "Pod", {}),
    ("v1", "Pod", {"spec": {"containers": [{}]}}),
    ("v1", "Pod", {"spec": {"containers": [CONTAINER, CONTAINER]}}),
    ("v1", "Pod", container(image="")),
    ("v1", "Pod", container(name="A_b")),
    ("v1", "Pod", container(imagePullPolicy="x")),
    (
        "v1",
        "Pod",
        container(
            ports=[
                {"containerPort": 99999},
                {"containerPort": 1, "protocol": "x"},
                {"name": "x"},
                {"containerPort": 1, "name": "A"},
            ]
        ),
    ),
    (
        "v1",
        "Pod",
        container(
            env=[
                {"value": "x"},
                {"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "a", "valueFrom": {}},
            ]
        ),
    ),
    ("v1", "Pod", container(volumeMounts=[{"name": "x", "mountPath": "/a"}, {"name": "", "mountPath": ""}])),
    ("v1", "Pod", container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
    ("v1", "Pod", container(resources={"limits": {"cpu": "-1"}})),
    ("v1", "Pod", container(resources={"limits": {"cpu": "x"}})),
    ("v1", "Pod", container(livenessProbe={})),
    ("v1", "Pod", container(livenessProbe={"exec": {}, "tcpSocket": {"port": 1}})),
    ("v1", "Pod", container(livenessProbe={"httpGet": {"port": 1}, "periodSeconds": -1})),
    ("v1", "Pod", container(terminationMessagePolicy="x")),
    ("v1", "Pod", pod(restartPolicy="x")),
    ("v1", "Pod", pod(dnsPolicy="x")),
    ("v1", "Pod", pod(volumes=[{"name": "a"}, {"name": "a"}])),
    ("v1", "Pod", pod(volumes=[{"name": "", "emptyDir": {}}])),
    ("v1", "Pod", pod(volumes=[{"name": "a", "secret": {}}])),
    ("v1", "Pod", pod(volumes=[{"name": "a", "configMap": {}}])),
    ("v1", "Pod", pod(volumes=[{"name": "a", "hostPath": {}}])),
    ("v1", "Pod", pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}])),
    ("v1", "Pod", pod(activeDeadlineSeconds=0)),
    ("v1", "Pod", pod(tolerations=[{"key": "", "operator": "Equal"}])),
    ("v1", "Pod", pod(tolerations=[{"key": "a", "operator": "x"}])),
    ("v1", "Pod", pod(initContainers=[CONTAINER])),
    ("v1", "Pod", pod(nodeName="A_b")),
    ("v1", "Pod", pod(hostname="A_b")),
    ("v1", "Pod", {"spec": {"containers": "x"}}),
    ("v1", "Pod", pod(terminationGracePeriodSeconds="x")),
    ("v1", "Pod", container(ports=[{"containerPort": 1.5}])),
    ("v1", "Service", {}),
    ("v1", "Service", {"spec": {"ports": [{"port": 0}]}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}}),
    ("v1", "Service", {"spec": {"type": "x", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"type": "ExternalName"}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80, "protocol": "x"}]}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}),
    ("v1", "Service", {"spec": {"clusterIP": "x", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"sessionAffinity": "x", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80, "targetPort": "A_"}]}}),
    ("v1", "Service", {"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"externalIPs": ["x"], "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"selector": {"a b": "c"}, "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"loadBalancerClass": "a.b/c", "ports": [{"port": 80}]}}),
    ("v1", "Service", {"spec": {"externalTrafficPolicy": "Local", "ports": [{"port": 80}]}}),
    ("v1", "Endpoints", {"subsets": [{}]}),
    ("v1", "Endpoints", {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 0}, {"port": 1}]}]}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1000m"}, "min": {"cpu": "2"}}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": 1}, "default": {"cpu": "2"}}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "min": {"cpu": "3"}, "default": {"cpu": "2"}}]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "-1"}}}),
    ("v1", "ResourceQuota", {"spec": {"scopes": ["x"]}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"a b": "1"}}}),
    ("v1", "PersistentVolumeClaim", {}),
    ("v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["x"], "resources": {"requests": {"storage": "0"}}}}),
    ("v1", "PersistentVolume", {}),
    (
        "v1",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "nfs": {"server": "a", "path": "/"},
                "persistentVolumeReclaimPolicy": "x",
            }
        },
    ),
    ("v1", "Namespace", {"metadata": {"name": "A"}}),
    ("v1", "Namespace", {"spec": {"finalizers": ["x"]}}),
    ("v1", "Node", {"spec": {"taints": [{"key": "a", "effect": "x"}, {"key": "b"}]}}),
    ("v1", "Event", {"involvedObject": {"namespace": "other"}}),
    ("v1", "Event", {}),
    ("events.k8s.io/v1", "Event", {"regarding": {"namespace": "$NS"}}),
    ("events.k8s.io/v1", "Event", {"regarding": {"namespace": "$NS"}, "eventTime": "2026-01-01T00:00:00.123456Z"}),
    (
        "events.k8s.io/v1",
        "Event",
        {
            "regarding": {"namespace": "x"},
            "eventTime": "2026-01-01T00:00:00.123456Z",
            "reportingController": "a.b/c",
            "reportingInstance": "i",
            "action": "x",
            "reason": "y",
            "type": "z",
        },
    ),
    ("v1", "ReplicationController", {}),
    ("v1", "ReplicationController", {"spec": {"selector": {"a": "c"}, "template": TEMPLATE}}),
    ("v1", "PodTemplate", {}),
    ("apps/v1", "Deployment", {}),
    ("apps/v1", "Deployment", workload(selector={})),
    ("apps/v1", "Deployment", workload(selector={"matchLabels": {"a": "c"}})),
    ("apps/v1", "Deployment", workload(replicas=-1)),
    ("apps/v1", "Deployment", workload(strategy={"type": "x"})),
    ("apps/v1", "Deployment", workload(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
    ("apps/v1", "Deployment", workload(strategy={"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}})),
    ("apps/v1", "Deployment", workload(strategy={"type": "Recreate", "rollingUpdate": {}})),
    ("apps/v1", "Deployment", workload(progressDeadlineSeconds=1, minReadySeconds=2)),
    (
        "apps/v1",
        "Deployment",
        workload(template={"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}),
    ),
    ("apps/v1", "Deployment", workload(template={"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}})),
    ("apps/v1", "Deployment", workload(selector={"matchExpressions": [{"key": "a", "operator": "x"}]})),
    ("apps/v1", "Deployment", workload(replicas="x")),
    ("apps/v1", "Deployment", workload(template={"metadata": {"labels": {"a": "b c"}}, "spec": {"containers": [CONTAINER]}})),
    ("apps/v1", "ReplicaSet", {}),
    ("apps/v1", "DaemonSet", {}),
    ("apps/v1", "DaemonSet", workload(updateStrategy={"type": "x"})),
    ("apps/v1", "DaemonSet", workload(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}})),
    ("apps/v1", "StatefulSet", {}),
    ("apps/v1", "StatefulSet", workload(podManagementPolicy="x", updateStrategy={"type": "y"})),
    ("apps/v1", "StatefulSet", workload(serviceName="A_")),
    ("apps/v1", "StatefulSet", {"metadata": {"name": "a.b"}, **workload()}),
    ("apps/v1", "ControllerRevision", {"revision": -1}),
    ("batch/v1", "Job", {}),
    ("batch/v1", "Job", {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}),
    ("batch/v1", "Job", {"spec": {"parallelism": -1, "completionMode": "x", "template": JOB_TEMPLATE}}),
    ("batch/v1", "Job", {"spec": {"completionMode": "Indexed", "parallelism": 1, "template": JOB_TEMPLATE}}),
    ("batch/v1", "Job", {"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": JOB_TEMPLATE}}),
    ("batch/v1", "Job", {"spec": {"manualSelector": True, "template": JOB_TEMPLATE}}),
    ("batch/v1", "CronJob", {}),
    (
        "batch/v1",
        "CronJob",
        {"spec": {"schedule": "x", "concurrencyPolicy": "y", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
    ),
    ("batch/v1", "CronJob", {"spec": {"schedule": "99 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}}),
    (
        "batch/v1",
        "CronJob",
        {"metadata": {"name": "a" * 53}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
    ),
    (RBAC, "Role", {"rules": [{}]}),
    (RBAC, "Role", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
    (RBAC, "ClusterRole", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["y"]}]}),
    (RBAC, "ClusterRole", {"aggregationRule": {}}),
    (RBAC, "RoleBinding", {}),
    (
        RBAC,
        "RoleBinding",
        {
            "roleRef": {"kind": "x", "name": "a/b"},
            "subjects": [{"kind": "User"}, {"kind": "x", "name": "y"}, {"kind": "ServiceAccount", "name": "A_"}],
        },
    ),
    (RBAC, "ClusterRoleBinding", {"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
    (
        RBAC,
        "ClusterRoleBinding",
        {
            "roleRef": {"apiGroup": "x", "kind": "ClusterRole", "name": "a"},
            "subjects": [{"kind": "Group", "apiGroup": "y", "name": "a"}],
        },
    ),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"renewTime": "2026-01-01"}}),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"preferredHolder": "x"}}),
    (NETWORKING, "Ingress", {}),
    (NETWORKING, "Ingress", {"spec": {"defaultBackend": {}}}),
    (
        NETWORKING,
        "Ingress",
        {
            "spec": {
                "rules": [
                    {
                        "host": "1.2.3.4",
                        "http": {
                            "paths": [
                                {"path": "x", "pathType": "Prefix", "backend": {"service": {"name": "A"}}},
                                {"backend": {}},
                                {"pathType": "z", "backend": {"service": {"name": "a", "port": {"number": 99999}}}},
                            ]
                        },
                    }
                ]
            }
        },
    ),
    (NETWORKING, "Ingress", {"spec": {"rules": [{"http": {"paths": []}}]}}),
    (NETWORKING, "IngressClass", {}),
    (NETWORKING, "IngressClass", {"spec": {"controller": "x"}}),
    (NETWORKING, "IngressClass", {"spec": {"controller": "a.b/c", "parameters": {"scope": "Namespace", "kind": "a", "name": "b"}}}),
    (
        NETWORKING,
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["x"],
                "ingress": [{"ports": [{"port": 99999}, {"port": "A_"}, {"endPort": 5}, {"protocol": "x"}], "from": [{}]}],
            }
        },
    ),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": "200%"}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": -1, "unhealthyPodEvictionPolicy": "x"}}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 2000000000}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1, "preemptionPolicy": "x"}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "system-x"}, "value": 1}),
    (STORAGE, "StorageClass", {}),
    (STORAGE, "StorageClass", {"provisioner": "a b", "reclaimPolicy": "x", "volumeBindingMode": "y"}),
    (STORAGE, "CSIDriver", {"spec": {"fsGroupPolicy": "x", "volumeLifecycleModes": ["y"]}}),
    (STORAGE, "CSINode", {"spec": {"drivers": [{}]}}),
    (STORAGE, "VolumeAttachment", {}),
    (STORAGE, "CSIStorageCapacity", {}),
    (STORAGE, "VolumeAttributesClass", {}),
    ("autoscaling/v1", "HorizontalPodAutoscaler", {}),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {"spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "a/b", "name": "x"}}},
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {"spec": {"minReplicas": 0, "maxReplicas": 3, "scaleTargetRef": {"kind": "a", "name": "x"}}},
    ),
    ("discovery.k8s.io/v1", "EndpointSlice", {}),
    ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "x"}),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        {
            "addressType": "IPv4",
            "endpoints": [{}, {"addresses": ["::1"]}, {"addresses": ["x"]}],
            "ports": [{"name": "a"}, {"name": "a", "protocol": "x"}],
        },
    ),
    ("node.k8s.io/v1", "RuntimeClass", {}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "A"}),
    (FLOW, "FlowSchema", {}),
    (FLOW, "PriorityLevelConfiguration", {}),
    (FLOW, "PriorityLevelConfiguration", {"spec": {"type": "Limited"}}),
    (ADMISSION, "ValidatingWebhookConfiguration", webhook(name="a")),
    (ADMISSION, "ValidatingWebhookConfiguration", webhook(sideEffects="Some")),
    (ADMISSION, "ValidatingWebhookConfiguration", {"webhooks": [{}]}),
    (ADMISSION, "MutatingWebhookConfiguration", {"webhooks": [WEBHOOK, WEBHOOK]}),
    (ADMISSION, "MutatingWebhookConfiguration", webhook(rules=[{}])),
    (
        ADMISSION,
        "MutatingWebhookConfiguration",
        webhook(
            rules=[
                {
                    "operations": ["x", "*"],
                    "apiGroups": ["*", "a"],
                    "apiVersions": ["*", "b"],
                    "resources": ["*", "c"],
                    "scope": "d",
                }
            ]
        ),
    ),
    (
        ADMISSION,
        "MutatingWebhookConfiguration",
        webhook(failurePolicy="x", matchPolicy="y", reinvocationPolicy="z", timeoutSeconds=31),
    ),
    (ADMISSION, "MutatingWebhookConfiguration", webhook(clientConfig={"url": "http://a/b?c#d"})),
    (ADMISSION, "MutatingWebhookConfiguration", webhook(clientConfig={"service": {}})),
    (ADMISSION, "MutatingWebhookConfiguration", webhook(admissionReviewVersions=["v2"])),
    (ADMISSION, "MutatingWebhookConfiguration", webhook(matchConditions=[{}])),
    (ADMISSION, "ValidatingAdmissionPolicy", {}),
    (ADMISSION, "ValidatingAdmissionPolicy", {"spec": {**POLICY, "failurePolicy": "x", "paramKind": {}}}),
    (ADMISSION, "ValidatingAdmissionPolicy", {"spec": {**POLICY, "validations": [{"expression": "", "reason": "x"}]}}),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", {}),
    (
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        {"spec": {"policyName": "x", "validationActions": ["Deny", "Warn", "x"], "paramRef": {}}},
    ),
    ("apiregistration.k8s.io/v1", "APIService", {}),
    (
        "apiregistration.k8s.io/v1",
        "APIService",
        {
            "metadata": {"name": "v1.a.b"},
            "spec": {"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": {}},
        },
    ),
    (CERTIFICATES, "CertificateSigningRequest", {}),
    (
        CERTIFICATES,
        "CertificateSigningRequest",
        {
            "spec": {
                "request": "eA==",
                "usages": ["x", "client auth", "client auth"],
                "signerName": "kubernetes.io/legacy-unknown",
                "expirationSeconds": 5,
            }
        },
    ),
    (CERTIFICATES, "CertificateSigningRequest", {"spec": {"request": "eA==", "usages": ["client auth"], "signerName": "a"}}),
    (CERTIFICATES, "CertificateSigningRequest", {"spec": {"request": "eA==", "usages": ["client auth"], "signerName": "A/b_"}}),
)
