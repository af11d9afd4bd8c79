"""Namespaces: a new one gets its default service account and the root CA ConfigMap; the content of a deleted one is deleted before
it is finalized. Follows `k8s.io/kubernetes/pkg/controller/namespace/deletion`.

As in kube-controller-manager, nothing is deleted for some seconds after the deletion of the namespace, so that others can clean up
first. Then its pods are deleted, and when none is left all other resources. The conditions of the namespace show what remains and
why; the namespace is finalized when nothing remains.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable

from muster.apiserver.bootstrap import ROOT_CA_CONFIGMAP, ROOT_CA_DESCRIPTION
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import metadata
from muster.machinery.objects import Object
from muster.store.api import Event

DELETION_GRACE_PERIOD = 5.0
"""Seconds between the deletion of a namespace and that of its content (`namespaceDeletionGracePeriod` upstream)."""
_NAMESPACES = "/namespaces"
_PODS = "/pods"
_FINALIZER = "kubernetes"
_CONTENT_DELETED = "All content successfully deleted, may be waiting on finalization"
_DELETE_OPTIONS = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_DELETED_LAST = frozenset({"/events"})
"""Deleted last, so that Events about the deletion can still be read."""


class NamespaceController:
    name = "namespaces"
    resources = (_NAMESPACES, "/serviceaccounts", "/configmaps")

    def __init__(self, context: ControllerContext, grace_period: float = DELETION_GRACE_PERIOD) -> None:
        self._context = context
        self._grace_period = grace_period
        self._terminating: dict[tuple[str, str], tuple[str, float]] = {}
        """(cluster, name) of each terminating namespace → its uid, and when it was first observed to be terminating."""

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.resource == _NAMESPACES:
            return (event.entry.key,)
        namespace, _, name = event.entry.key.partition("/")
        mine = name == "default" if event.resource == "/serviceaccounts" else name == ROOT_CA_CONFIGMAP
        return (namespace,) if mine else ()

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        if cluster.store.generation(cluster.name, _NAMESPACES) <= 1:
            return ()
        return [entry.key for entry in cluster.store.list(cluster.name, _NAMESPACES) if entry.revision > 1]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        namespace = cluster.read(_NAMESPACES, key)
        if namespace is None:
            self._terminating.pop((cluster.name, key), None)
            # Another server on the same database may have created an object before it saw the deletion.
            await self._delete_content(cluster, key)
            return None
        if namespace["metadata"].get("deletionTimestamp"):
            return await self._finalize(cluster, namespace)
        await self._create_defaults(cluster, key)
        return None

    async def _create_defaults(self, cluster: Cluster, name: str) -> None:
        client = self._context.client(cluster)
        if cluster.entry("/serviceaccounts", f"{name}/default") is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await _ignore_exists(client.create(object_path("v1", "serviceaccounts", name), account))
        ca = self._context.ca_pem.decode()
        current = cluster.read("/configmaps", f"{name}/{ROOT_CA_CONFIGMAP}")
        if current is not None and (current.get("data") or {}).get("ca.crt") == ca:
            return
        desired: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA_CONFIGMAP, "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION}},
            "data": {"ca.crt": ca},
        }
        path = object_path("v1", "configmaps", name)
        if current is None:
            await _ignore_exists(client.create(path, desired))
        else:
            await client.merge(f"{path}/{ROOT_CA_CONFIGMAP}", {"data": {"ca.crt": ca}})

    async def _finalize(self, cluster: Cluster, namespace: Object) -> float | None:
        name = namespace["metadata"]["name"]
        if _FINALIZER not in (namespace.get("spec") or {}).get("finalizers", ()):
            return None
        if (rest := self._remaining_grace(cluster, namespace)) > 0:
            return rest
        remaining, waiting_for = await self._delete_content(cluster, name)
        await self._set_conditions(cluster, namespace, remaining, waiting_for)
        if remaining:
            return 0.2
        finalizers = [f for f in namespace["spec"]["finalizers"] if f != _FINALIZER]
        path = object_path("v1", "namespaces", "", name, "finalize")
        current = cluster.read(_NAMESPACES, name)
        if current is not None and current["metadata"]["uid"] == namespace["metadata"]["uid"]:
            body = {**current, "spec": {**current["spec"], "finalizers": finalizers}}
            await self._context.client(cluster).update(path, body)
        return None

    def _remaining_grace(self, cluster: Cluster, namespace: Object) -> float:
        """Seconds until the deletion of the content may begin."""
        key, uid, now = (cluster.name, namespace["metadata"]["name"]), namespace["metadata"]["uid"], time.monotonic()
        known, since = self._terminating.get(key, ("", now))
        if known != uid:
            known, since = self._terminating[key] = (uid, now)
        return since + self._grace_period - now

    async def _delete_content(self, cluster: Cluster, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """Delete all objects; return the number of remaining ones by resource and by finalizer."""
        client = self._context.client(cluster)
        rows = cluster.resources.storages()
        remaining: dict[str, int] = {}
        finalizers: dict[str, int] = {}
        ordered = sorted(rows, key=lambda storage: (storage != _PODS, storage in _DELETED_LAST))
        for storage in ordered:
            row = rows[storage]
            if remaining.get("pods"):
                break
            if not row.namespaced or "delete" not in row.verbs:
                continue
            for entry in list(cluster.store.list(cluster.name, storage, name + "/")):
                meta = metadata(entry)
                if meta.deletionTimestamp is None and _is_terminating(cluster, name):
                    path = object_path(row.api_version, row.plural, name, meta.name)
                    await _ignore_not_found(client.delete(path, {**_DELETE_OPTIONS, "preconditions": {"uid": meta.uid}}))
            left = cluster.store.list(cluster.name, storage, name + "/")
            if left:
                remaining[row.group_resource] = len(left)
                for entry in left:
                    for finalizer in metadata(entry).finalizers or ():
                        finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        return remaining, finalizers

    async def _set_conditions(
        self, cluster: Cluster, namespace: Object, remaining: dict[str, int], finalizers: dict[str, int]
    ) -> None:
        conditions = deletion_conditions(namespace, remaining, finalizers, cluster.now())
        status = {**(namespace.get("status") or {}), "conditions": conditions}
        if conditions == (namespace.get("status") or {}).get("conditions"):
            return
        path = object_path("v1", "namespaces", "", namespace["metadata"]["name"], "status")
        await _ignore_not_found(self._context.client(cluster).merge(path, {"status": status}))


def _is_terminating(cluster: Cluster, name: str) -> bool:
    """Checked before each deletion: the namespace may have been created again while its old content was deleted."""
    namespace = cluster.read(_NAMESPACES, name)
    return namespace is None or bool(namespace["metadata"].get("deletionTimestamp"))


def deletion_conditions(namespace: Object, remaining: dict[str, int], finalizers: dict[str, int], now: str) -> list[Object]:
    """The five conditions of a terminating namespace; transition times of unchanged ones are kept."""
    content = finalizer_text = ""
    if remaining:
        parts = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(remaining.items()))
        content = f"Some resources are remaining: {parts}"
    if finalizers:
        parts = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(finalizers.items()))
        finalizer_text = f"Some content in the namespace has finalizers remaining: {parts}"
    desired = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", False, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            bool(remaining),
            "SomeResourcesRemain" if remaining else "ContentRemoved",
            content or "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(finalizers),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            finalizer_text or "All content-preserving finalizers finished",
        ),
    ]
    old = {c["type"]: c for c in (namespace.get("status") or {}).get("conditions") or ()}
    conditions = []
    for kind, is_true, reason, message in desired:
        status = "True" if is_true else "False"
        known = old.get(kind)
        since = known["lastTransitionTime"] if known and known["status"] == status else now
        conditions.append({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    return conditions


async def _ignore_exists(call: Awaitable[object]) -> None:
    """Ignore that the object exists already, or that its namespace is gone or terminating."""
    try:
        await call
    except ApiError as error:
        if error.code not in (403, 404, 409):
            raise


async def _ignore_not_found(call: Awaitable[object]) -> None:
    """Ignore that the object is gone, or was replaced by another one of the same name."""
    try:
        await call
    except ApiError as error:
        if error.code not in (404, 409):
            raise
