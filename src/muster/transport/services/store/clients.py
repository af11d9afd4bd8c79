"""Clients for writes to a hub without Kubernetes: as the agent's own user, so that authorization, admission and managedFields are
the agent's.

Certificate signing requests are the exception. Their approver trusts the requestor annotation only if this server's account made
the request, with any storage: so they are made as that account, which has no other permission.
"""

from __future__ import annotations

from typing import Final

from muster.apiserver.cluster import Cluster
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.install import account_permissions, apply_all, ensure_namespace, rule
from muster.transport.contract.rows import SIGNING_REQUEST_ROW, Row
from muster.transport.services.interfaces import Caller

FIELD_MANAGER: Final = "grpc-server"
ROLE: Final = "open-cluster-management:grpc-server:signing-requests"


class HubClients:
    """`namespace` and `account` are those of the server's service account."""

    def __init__(self, server: ApiServer, cluster: Cluster, namespace: str, account: str) -> None:
        self._server = server
        self._cluster = cluster
        self._namespace = namespace
        self._account = account
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        user = UserInfo(f"system:serviceaccount:{namespace}:{account}", groups=groups)
        self._own = self._as(user)
        self.administrator: KubeClient = InProcessClient(server.client(cluster, agent=FIELD_MANAGER), cluster.name)
        """With all permissions; for this process's own writes."""

    def for_row(self, row: Row, caller: Caller) -> KubeClient:
        return self._own if row.data_type == SIGNING_REQUEST_ROW.data_type else self._as(caller.user)

    async def install_account(self) -> None:
        """Create the server's account and its permission. Several servers may do it concurrently."""
        await ensure_namespace(self.administrator, self._namespace)
        rights = [rule(SIGNING_REQUESTS.group, [SIGNING_REQUESTS.plural], ["create"])]
        documents: list[tuple[GVR, dict[str, object]]] = account_permissions(self._account, self._namespace, ROLE, rights)
        await apply_all(self.administrator, documents, FIELD_MANAGER)

    def _as(self, user: UserInfo) -> KubeClient:
        client = self._server.client(self._cluster, user, FIELD_MANAGER)
        # A bootstrap token may be limited to the cluster of one name.
        return InProcessClient(client, self._cluster.name, names_creations=True)
