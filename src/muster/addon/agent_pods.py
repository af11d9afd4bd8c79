"""Common parts of addon agents' pods that run Muster's own image, and their namespace."""

from __future__ import annotations

from typing import Final

from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.addons import DELETION_ORPHAN, NAMESPACE_LABEL
from muster.machinery.objects import Object

PULL_SECRET: Final = "open-cluster-management-image-pull-credentials"
"""The Secret that the registration agent copies to addons' namespaces; the name is OCM's."""
_USER: Final = 65532
"""The user ID of the image."""


def pod_basics(account: str) -> Object:
    """The service account and the security context of a pod's spec."""
    return {
        "serviceAccountName": account,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": PULL_SECRET}],
    }


def container_basics(name: str, image: str) -> Object:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
    }


def probe(path: str, port: str | int, **more: int) -> Object:
    return {"httpGet": {"path": path, "port": port}, "periodSeconds": 10, **more}


def install_namespace(name: str) -> list[Object]:
    """The default one is created by the Klusterlet operator. Another one stays when the addon is removed: it may contain other
    objects."""
    if name == DEFAULT_NAMESPACE:
        return []
    metadata = {"name": name, "labels": {NAMESPACE_LABEL: "true"}, "annotations": {DELETION_ORPHAN: ""}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]
