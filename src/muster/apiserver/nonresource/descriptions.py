"""Descriptions for `kubectl explain`: of built-in kinds and of the fields that every object has, written for this project.

Custom resources bring their own descriptions. For built-in kinds only types, enumerations and lists are taken from Kubernetes
(`registry.builtin_types`); its prose is not copied, so their other fields have no description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Document = dict[str, Any]

OBJECT_FIELDS: Final[Mapping[str, str]] = {
    "apiVersion": "Group and version of the schema that the object is written in, such as v1 or apps/v1.",
    "kind": "Type of the object, such as Pod.",
    "metadata": "Standard metadata: name, labels, owners and so on.",
    "spec": "Desired state of the object.",
    "status": "Current state of the object. Written by the system, not by users.",
}
LIST_FIELDS: Final[Mapping[str, str]] = {
    "apiVersion": OBJECT_FIELDS["apiVersion"],
    "kind": "Type of the list, such as PodList.",
    "metadata": "State of the collection as a whole.",
    "items": "The objects of the list.",
}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    f"{_META}.ObjectMeta": {
        "": "Metadata that objects of all kinds have.",
        "annotations": "Additional data of tools and users. Not used for selection.",
        "creationTimestamp": "When the object was first stored. Set by the server.",
        "deletionGracePeriodSeconds": "Seconds that the object may take to terminate after a deletion. Set by the server.",
        "deletionTimestamp": "Time at which the object is to be deleted. Set by the server when a deletion is requested.",
        "finalizers": "Components that have work to do before the object is removed, which happens when the list is empty.",
        "generateName": "Prefix from which the server generates a unique name if no name is given.",
        "generation": "Sequence number of the desired state. Set by the server.",
        "labels": "Keys and values by which objects can be selected.",
        "managedFields": "Which field managers have set which fields. Maintained by the server.",
        "name": "Name of the object, unique for its kind in the namespace. It cannot be changed.",
        "namespace": "Namespace of the object; empty for cluster-scoped kinds.",
        "ownerReferences": "Owners of the object. It is deleted when the last of them is gone.",
        "resourceVersion": "Opaque version of the object, which can only be compared for equality.",
        "selfLink": "Not used any more.",
        "uid": "Unique identifier, different from earlier objects of the same name. Set by the server.",
    },
    f"{_META}.ListMeta": {
        "": "Metadata of a list.",
        "continue": "Token for requesting the next page of the list; empty on the last page.",
        "remainingItemCount": "Number of objects after this page, if known.",
        "resourceVersion": "Version of the collection, from which it can be watched.",
        "selfLink": "Not used any more.",
    },
    f"{_META}.OwnerReference": {
        "": "An owner of an object.",
        "apiVersion": "Group and version of the owner.",
        "blockOwnerDeletion": "Whether a foreground deletion of the owner waits for this object.",
        "controller": "Whether the owner manages this object. At most one does.",
        "kind": "Type of the owner.",
        "name": "Name of the owner.",
        "uid": "Uid of the owner.",
    },
    f"{_META}.LabelSelector": {
        "": "Selects objects by their labels. All conditions must be true; an empty selector selects everything.",
        "matchExpressions": "Conditions on single labels.",
        "matchLabels": "Labels and the values that objects must have.",
    },
}
KINDS: Final[Mapping[str, str]] = {
    "APIService": "A group version, and the API server that serves it.",
    "Binding": "Assigns a pod to a node.",
    "CertificateSigningRequest": "A request that a signer issue a certificate.",
    "ClusterRole": "A set of permissions for all namespaces and for cluster-scoped objects.",
    "ClusterRoleBinding": "Grants a cluster role to users, groups and service accounts in the whole cluster.",
    "ConfigMap": "Configuration for pods and others, as keys and values.",
    "ControllerRevision": "A previous state that a controller keeps for rollbacks.",
    "CronJob": "Creates Jobs on a schedule.",
    "CSIDriver": "A storage driver that is installed in the cluster.",
    "CSINode": "The storage drivers of a node.",
    "CustomResourceDefinition": "A custom kind that is added to the API.",
    "DaemonSet": "Runs a pod on every node, or on selected ones.",
    "Deployment": "Runs a number of equal pods and updates them gradually.",
    "Endpoints": "Addresses of the pods of a Service. Superseded by EndpointSlices.",
    "EndpointSlice": "Addresses of the pods of a Service, or a part of them.",
    "Event": "A report of a component about something that happened to an object.",
    "FlowSchema": "Assigns requests to the API server to a priority level.",
    "HorizontalPodAutoscaler": "Changes the number of pods so that a metric stays near its target.",
    "Ingress": "Routes requests from outside to Services, by host and path.",
    "IngressClass": "A class of ingresses, and the controller that implements it.",
    "IPAddress": "An allocated address, and the object that uses it.",
    "Job": "Runs pods until enough of them have succeeded.",
    "Lease": "A lock with an expiration, for leader election and heartbeats.",
    "LimitRange": "Defaults and limits for the resources of pods, containers and claims in a namespace.",
    "MutatingWebhookConfiguration": "Webhooks that may change objects before they are stored.",
    "Namespace": "A scope for names, permissions and quotas.",
    "NetworkPolicy": "Which network traffic is allowed for the selected pods.",
    "Node": "A machine that runs pods.",
    "PersistentVolume": "A piece of storage in the cluster.",
    "PersistentVolumeClaim": "A request for storage, and the volume that is bound to it.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many of the selected pods may be evicted at a time.",
    "PodTemplate": "A template of pods.",
    "PriorityClass": "A named priority of pods.",
    "PriorityLevelConfiguration": "How many requests of a priority level the API server serves concurrently.",
    "ReplicaSet": "Keeps a number of equal pods running.",
    "ReplicationController": "Keeps a number of equal pods running. Superseded by Deployments.",
    "ResourceQuota": "How much of each resource a namespace may use.",
    "Role": "A set of permissions in one namespace.",
    "RoleBinding": "Grants a role to users, groups and service accounts in one namespace.",
    "RuntimeClass": "A container runtime configuration, its overhead, and the nodes that support it.",
    "Secret": "Confidential data such as passwords and keys.",
    "Service": "A common name and address for a set of pods.",
    "ServiceAccount": "An identity for pods and other programs.",
    "ServiceCIDR": "A range of addresses for Services.",
    "StatefulSet": "Runs pods with stable names and volumes.",
    "StorageClass": "A class of storage, and its provisioner.",
    "ValidatingAdmissionPolicy": "Expressions that decide whether requests are admitted.",
    "ValidatingAdmissionPolicyBinding": "Where a policy applies, with which parameters, and how violations are handled.",
    "ValidatingWebhookConfiguration": "Webhooks that may reject requests.",
    "VolumeAttachment": "A request to attach a volume to a node.",
    "VolumeAttributesClass": "Properties of volumes that can be changed while they are in use.",
}


def described(name: str, raw: Mapping[str, Any]) -> Document:
    """A schema of the catalogue with the descriptions of it and its fields."""
    texts = _TYPES.get(name)
    if texts is None:
        kind = name.rpartition(".")[2]
        if not raw.get("x-kubernetes-group-version-kind") or not _is_object(raw):
            return dict(raw)
        texts = {"": KINDS.get(kind, ""), **OBJECT_FIELDS}
    return with_texts(raw, texts)


def with_texts(raw: Mapping[str, Any], texts: Mapping[str, str]) -> Document:
    """Add descriptions by field; that of the type itself has the empty name."""
    properties = {field: _with_text(child, texts.get(field, "")) for field, child in raw.get("properties", {}).items()}
    found: Document = {**raw, "properties": properties}
    if texts.get(""):
        found["description"] = texts[""]
    return found


def _is_object(raw: Mapping[str, Any]) -> bool:
    return {"apiVersion", "kind", "metadata"} <= set(raw.get("properties", ()))


def _with_text(node: Mapping[str, Any], text: str) -> Document:
    if not text:
        return dict(node)
    if "$ref" in node:  # other keywords beside a $ref are ignored
        return {"allOf": [{"$ref": node["$ref"]}], "description": text}
    return {**node, "description": text}
