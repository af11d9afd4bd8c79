"""Manifests of the gateway's account on the hub, and of its permissions in the namespaces that it reads.

Only an administrator can grant the permission to read clusters' credentials, since nobody else may read Secrets there; not even
the operator of the hub may.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.gateway.install import NAMESPACE_RULES
from muster.gateway.names import COMPONENT, CREDENTIALS_NAMESPACE
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import NAMESPACES, ROLE_BINDINGS, ROLES
from muster.runtime.install import binding, named

ACCOUNT: Final = f"{COMPONENT}-sa"
_ROLE: Final = f"open-cluster-management:{COMPONENT}"


def namespace_permissions(namespace: str, *, credentials: bool) -> list[tuple[GVR, Document]]:
    """Permissions in the namespace of credentials, or in all the others; `namespace` is the account's."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    made: list[tuple[GVR, Document]] = []
    for where, rules in NAMESPACE_RULES.items():
        if (where == CREDENTIALS_NAMESPACE) == credentials:
            made.append((ROLES, {"metadata": named(_ROLE, where), "rules": list(rules)}))
            made.append((ROLE_BINDINGS, binding(_ROLE, "Role", _ROLE, subject, where)))
    return made


def credentials_namespace() -> tuple[GVR, Document]:
    """The namespace of credentials; no pods run there."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return NAMESPACES, {"metadata": {**named(CREDENTIALS_NAMESPACE), "labels": labels}}
