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
    "metadata": "What objects of all kinds have: name, labels, owners and the like.",
    "spec": "What is wanted of the object.",
    "status": "How the object is at present. Written by the system, not by users.",
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
        "": "Metadata of an object: what clients and the server know about it, whatever its kind.",
        "annotations": "Notes of tools and people about the object. Nothing is selected by them.",
        "creationTimestamp": "When the object was first stored. Set by the server.",
        "deletionGracePeriodSeconds": "How long the object may take to end once it is deleted. Set by the server.",
        "deletionTimestamp": "From when on the object may go. Set by the server when a deletion is asked for.",
        "finalizers": "Who still has something to do before the object may go. It goes when the list is empty.",
        "generateName": "Beginning of the name, which the server completes if there is no other name.",
        "generation": "Counts the changes of what is wanted. Set by the server.",
        "labels": "Keys and values by which objects are selected.",
        "managedFields": "Which program set which fields. Kept by the server.",
        "name": "Name of the object, which no other object of its kind in the namespace has. It never changes.",
        "namespace": "Namespace of the object; empty for kinds that have none.",
        "ownerReferences": "Objects that this one belongs to. It is removed when the last of them is gone.",
        "resourceVersion": "Version of the object. Two versions are the same or not, nothing else can be told from them.",
        "selfLink": "Not used any more.",
        "uid": "Tells this object from others that had its name before. Set by the server.",
    },
    f"{_META}.ListMeta": {
        "": "Metadata of a list.",
        "continue": "Token with which the next page of the list is asked for; empty on the last page.",
        "remainingItemCount": "How many objects follow this page, if that is known.",
        "resourceVersion": "Version of the collection, from which it can be watched.",
        "selfLink": "Not used any more.",
    },
    f"{_META}.OwnerReference": {
        "": "An object that another one belongs to.",
        "apiVersion": "Group and version of the owner.",
        "blockOwnerDeletion": "Whether a foreground deletion of the owner waits for this object.",
        "controller": "Whether the owner manages this object. At most one does.",
        "kind": "Type of the owner.",
        "name": "Name of the owner.",
        "uid": "Uid of the owner.",
    },
    f"{_META}.LabelSelector": {
        "": "Selects objects by their labels. All conditions must hold; an empty selector selects everything.",
        "matchExpressions": "Conditions on single labels.",
        "matchLabels": "Labels that objects must have with these values.",
    },
}
KINDS: Final[Mapping[str, str]] = {
    "APIService": "A group version, and the API server that serves it.",
    "Binding": "Gives a pod to a node.",
    "CertificateSigningRequest": "A request that a signer issue a certificate.",
    "ClusterRole": "A set of permissions for all namespaces and for objects that have none.",
    "ClusterRoleBinding": "Gives a cluster role to users, groups and service accounts in the whole cluster.",
    "ConfigMap": "Configuration for pods and others, as keys and values.",
    "ControllerRevision": "A state of something that a controller rolls out, kept for the way back.",
    "CronJob": "Makes Jobs at times that a schedule says.",
    "CSIDriver": "A driver of storage that is installed in the cluster.",
    "CSINode": "The drivers of storage that a node has.",
    "CustomResourceDefinition": "A kind that is added to the API.",
    "DaemonSet": "Runs a pod on every node, or on those that are selected.",
    "Deployment": "Runs a number of equal pods and replaces them step by step when they are to change.",
    "Endpoints": "Addresses behind a Service. EndpointSlices have taken its place.",
    "EndpointSlice": "Addresses behind a Service, or a part of them.",
    "Event": "Something that happened to an object, as a component reports it.",
    "FlowSchema": "Which requests to the API server belong to which priority level.",
    "HorizontalPodAutoscaler": "Changes the number of pods so that a measure stays near its target.",
    "Ingress": "Leads requests from outside to Services, by host and path.",
    "IngressClass": "A kind of ingress, and who implements it.",
    "IPAddress": "An address that is taken, and by whom.",
    "Job": "Runs pods until enough of them have succeeded.",
    "Lease": "Says who holds something and for how long, for elections and heartbeats.",
    "LimitRange": "Defaults and bounds of what pods, containers and claims of a namespace ask for.",
    "MutatingWebhookConfiguration": "Webhooks that may change objects before they are stored.",
    "Namespace": "A scope for names, rights and quotas.",
    "NetworkPolicy": "Which traffic the pods that it selects may have.",
    "Node": "A machine that runs pods.",
    "PersistentVolume": "A piece of storage in the cluster.",
    "PersistentVolumeClaim": "A wish for storage, and the volume that fulfils it.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many of the pods that it selects may be away at a time on purpose.",
    "PodTemplate": "A template of pods.",
    "PriorityClass": "A priority of pods by name.",
    "PriorityLevelConfiguration": "How many requests of a priority level the API server serves at a time.",
    "ReplicaSet": "Keeps a number of equal pods running.",
    "ReplicationController": "Keeps a number of equal pods running. Deployments have taken its place.",
    "ResourceQuota": "How much of each resource a namespace may use.",
    "Role": "A set of permissions in one namespace.",
    "RoleBinding": "Gives a role to users, groups and service accounts in one namespace.",
    "RuntimeClass": "A way to run containers, what it costs, and where it is to be had.",
    "Secret": "Passwords, keys and other data that not everybody may see.",
    "Service": "One name and address for a set of pods.",
    "ServiceAccount": "An identity for pods and other programs.",
    "ServiceCIDR": "A range of addresses for Services.",
    "StatefulSet": "Runs pods that keep their names and volumes.",
    "StorageClass": "A kind of storage, and who provides it.",
    "ValidatingAdmissionPolicy": "Expressions that decide which requests are let in.",
    "ValidatingAdmissionPolicyBinding": "Where a policy holds, with which parameters, and what happens to what breaks it.",
    "ValidatingWebhookConfiguration": "Webhooks that may refuse requests.",
    "VolumeAttachment": "The wish that a volume be attached to a node.",
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
