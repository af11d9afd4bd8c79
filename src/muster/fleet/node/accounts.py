"""A pod's client of the API server without a socket: the full request pipeline and RBAC, under its service account.

The identity is that of a token bound to the pod: when the service account or the pod is deleted, requests are refused as they would
be with the token.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from muster.apiserver.auth.serviceaccounts import USER_PREFIX
from muster.apiserver.cluster import Cluster
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.fleet.node.podspec import Pod
from muster.machinery.authentication import UserInfo, authenticated
from muster.machinery.confinement import unconfined
from muster.machinery.logs import diverted
from muster.runtime.client import JSON, Query, Unauthorized


class AccountClient(InProcessClient):
    def __init__(self, server: ApiServer, cluster: Cluster, pod: Pod, node: str, agent: str = "muster") -> None:
        namespace, name = pod.metadata.namespace, pod.spec.service_account_name
        account = cluster.read("/serviceaccounts", f"{namespace}/{name}") or {"metadata": {"uid": ""}}
        self._cluster = cluster
        self._expected = (("/serviceaccounts", f"{namespace}/{name}", account["metadata"]["uid"]), ("/pods", pod.key, pod.uid))
        bound = {"pod-name": pod.metadata.name, "pod-uid": pod.uid, "node-name": node}
        user = UserInfo(
            f"{USER_PREFIX}{namespace}:{name}",
            account["metadata"]["uid"],
            ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
            {f"authentication.kubernetes.io/{key}": (value,) for key, value in bound.items()},
        )
        super().__init__(server.client(cluster, authenticated(user), agent), server.cluster_url(cluster.name))

    def _check(self) -> None:
        for storage, key, uid in self._expected:
            found = self._cluster.read(storage, key)
            if found is None or found["metadata"]["uid"] != uid:
                raise Unauthorized(401, "Unauthorized", "Unauthorized")

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self._check()
        # Logs of the server and its controllers about the request do not belong into the pod's log.
        with diverted(None), unconfined():
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self._check()
        lines = super().lines(path, query, timeout, opened)
        try:
            while True:
                with diverted(None), unconfined():
                    line = await anext(lines, None)
                if line is None:
                    return
                yield line
        finally:
            await lines.aclose()
