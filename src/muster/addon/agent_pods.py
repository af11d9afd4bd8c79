"""What pods of addons' agents have in common where Muster's own image runs them, and the namespace that they run in."""

from __future__ import annotations

from typing import Final

from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.addons import DELETION_ORPHAN, NAMESPACE_LABEL
from muster.machinery.objects import Object

PULL_SECRET: Final = "open-cluster-management-image-pull-credentials"
"""That the registration agent copies to addons' namespaces; the name is OCM's."""
_USER: Final = 65532
"""As whom the image runs."""


def pod_basics(account: str) -> Object:
    """Of a pod's spec: who runs it, and how little that one may do on its node."""
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
    """The default one is the klusterlet's. Another one stays when the addon goes: there may be others in it."""
    if name == DEFAULT_NAMESPACE:
        return []
    metadata = {"name": name, "labels": {NAMESPACE_LABEL: "true"}, "annotations": {DELETION_ORPHAN: ""}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]
