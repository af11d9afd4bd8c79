"""The GVRs of Kubernetes' own kinds, each defined once."""

from __future__ import annotations

from typing import Final

from muster.machinery.objects import GVR


def _core(plural: str, kind: str, *, namespaced: bool = True) -> GVR:
    return GVR("v1", plural, kind, namespaced=namespaced)


def _rbac(plural: str, kind: str, *, namespaced: bool = True) -> GVR:
    return GVR("rbac.authorization.k8s.io/v1", plural, kind, namespaced=namespaced)


def _global(api_version: str, plural: str, kind: str) -> GVR:
    return GVR(api_version, plural, kind, namespaced=False)


NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
NODES: Final = _core("nodes", "Node", namespaced=False)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
PODS: Final = _core("pods", "Pod")
SERVICES: Final = _core("services", "Service")
ENDPOINTS: Final = _core("endpoints", "Endpoints")
ENDPOINT_SLICES: Final = GVR("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
DEPLOYMENTS: Final = GVR("apps/v1", "deployments", "Deployment")
REPLICA_SETS: Final = GVR("apps/v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = GVR("apps/v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = GVR("apps/v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = GVR("apps/v1", "controllerrevisions", "ControllerRevision")
REPLICATION_CONTROLLERS: Final = _core("replicationcontrollers", "ReplicationController")
PERSISTENT_VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES: Final = _global("storage.k8s.io/v1", "storageclasses", "StorageClass")
PERSISTENT_VOLUME_CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
JOBS: Final = GVR("batch/v1", "jobs", "Job")
CRON_JOBS: Final = GVR("batch/v1", "cronjobs", "CronJob")
LEASES: Final = GVR("coordination.k8s.io/v1", "leases", "Lease")
EVENTS: Final = GVR("events.k8s.io/v1", "events", "Event")
CORE_EVENTS: Final = _core("events", "Event")
"""The same objects in the older core API."""

ROLES: Final = _rbac("roles", "Role")
ROLE_BINDINGS: Final = _rbac("rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = _rbac("clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False)

TOKEN_REVIEWS: Final = _global("authentication.k8s.io/v1", "tokenreviews", "TokenReview")
SELF_SUBJECT_REVIEWS: Final = _global("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview")
ACCESS_REVIEWS: Final = _global("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")
SELF_ACCESS_REVIEWS: Final = _global("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
SIGNING_REQUESTS: Final = _global("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest")

CRDS: Final = _global("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition")
API_SERVICES: Final = _global("apiregistration.k8s.io/v1", "apiservices", "APIService")
VALIDATING_WEBHOOKS: Final = _global(
    "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_WEBHOOKS: Final = _global(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
