"""The objects of a gRPC server on a Kubernetes hub: its service account, with permissions for its services and for authentication.

The hub's driver trusts the requestor annotation of this account's certificate signing requests.
"""

from __future__ import annotations

from typing import Final

from muster.api.agents import GRPC_SERVER_ACCOUNT
from muster.machinery.objects import Object
from muster.runtime.client import KubeClient
from muster.runtime.install import RBAC_GROUP, READ, account_permissions, apply_all, ensure_namespace, rule
from muster.transport.services.kube.rights import SERVICE_RULES

MANAGER: Final = "muster-grpc-server-install"
ROLE: Final = "open-cluster-management:cluster-manager-grpc-server"
SERVER_RULES: Final[tuple[Object, ...]] = (
    *SERVICE_RULES,
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    # Without these every call of an agent is reviewed by the hub: slower, but just as correct.
    rule(RBAC_GROUP, ["roles", "rolebindings", "clusterroles", "clusterrolebindings"], READ),
)


async def install(client: KubeClient, namespace: str) -> None:
    """Apply everything, with an administrator's permissions; can be repeated. Raises the errors of the client."""
    await ensure_namespace(client, namespace)
    await apply_all(client, account_permissions(GRPC_SERVER_ACCOUNT, namespace, ROLE, SERVER_RULES), MANAGER)
