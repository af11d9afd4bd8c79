"""Long-lived service account tokens: a Secret of type `kubernetes.io/service-account-token` gets a token, and is deleted with its
account. Follows `k8s.io/kubernetes/pkg/controller/serviceaccount` (TokensController).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import timedelta

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.serviceaccounts import TOKEN_SECRET_MARKER, TOKEN_SECRET_TYPE, BoundObject
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.machinery.objects import Object
from muster.store.api import Event

_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_LIFETIME = timedelta(days=3650)


class TokenSecrets:
    name = "service account token secrets"
    resources = ("/secrets", "/serviceaccounts")

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.resource == "/secrets":
            return (event.entry.key,) if not event.deleted and TOKEN_SECRET_MARKER in event.entry.value else ()
        if not event.deleted:
            return ()
        namespace = event.entry.key.partition("/")[0]
        return [e.key for e in cluster.store.list(cluster.name, "/secrets", namespace + "/") if TOKEN_SECRET_MARKER in e.value]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, "/secrets") if TOKEN_SECRET_MARKER in entry.value]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        secret = cluster.read("/secrets", key)
        if secret is None or secret.get("type") != TOKEN_SECRET_TYPE or secret["metadata"].get("deletionTimestamp"):
            return None
        namespace, _, name = key.partition("/")
        annotations = secret["metadata"].get("annotations") or {}
        account = cluster.read("/serviceaccounts", f"{namespace}/{annotations.get(_NAME, '')}")
        path = object_path("v1", "secrets", namespace, name)
        client = self._context.client(cluster)
        try:
            if account is None or annotations.get(_UID, account["metadata"]["uid"]) != account["metadata"]["uid"]:
                await client.delete(path, {"preconditions": {"uid": secret["metadata"]["uid"]}})
            elif "token" not in (secret.get("data") or {}):
                await client.merge(path, await self._token_patch(cluster, secret, account, namespace))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        return None

    async def _token_patch(self, cluster: Cluster, secret: Object, account: Object, namespace: str) -> Object:
        issuer = await cluster.part(Access).token_issuer()
        now = cluster.clock()
        bound = BoundObject("Secret", secret["metadata"]["name"], secret["metadata"]["uid"])
        meta = account["metadata"]
        token = issuer.issue(namespace, meta["name"], meta["uid"], issuer.audiences, now, now + _LIFETIME, bound)
        data = {"token": token, "namespace": namespace, "ca.crt": self._context.ca_pem.decode()}
        return {
            "metadata": {"annotations": {_UID: meta["uid"]}},
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
        }
