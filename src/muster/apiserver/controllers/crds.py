"""CustomResourceDefinitions: names are accepted, resources are served, and on deletion all custom objects are deleted first.
Follows the controllers of `k8s.io/apiextensions-apiserver/pkg/controller` (status, establish, finalizer).

The table of served resources is updated synchronously with the store's events, so a client that has seen a CRD Established finds
its resource served. Status and cleanup are reconciled through the work queue.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import metadata, shared
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.store.api import Event

log = get_logger(__name__)
CRDS = "apiextensions.k8s.io/customresourcedefinitions"
_VERSION = "apiextensions.k8s.io/v1"


class CRDController:
    name = "custom resource definitions"
    resources = (CRDS,)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.deleted:
            self._unserve(cluster, shared(event.entry))
            # Another CRD may be waiting for a name that is free now.
            return [entry.key for entry in cluster.store.list(cluster.name, CRDS)]
        self._serve(cluster, shared(event.entry))
        return (event.entry.key,)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        entries = cluster.store.list(cluster.name, CRDS)
        for entry in entries:
            self._serve(cluster, shared(entry))
        return [entry.key for entry in entries]

    def _serve(self, cluster: Cluster, definition: Object) -> None:
        from muster.apiserver.crd import accepted_names, compiled

        spec = definition["spec"]
        if not accepted_names.is_served(definition):
            return
        try:
            rows = compiled.compile_definition(definition, cluster.webhook_route)
        except Exception as problem:  # an invalid CRD in the store must not stop the server
            log.error("CRD cannot be served", cluster=cluster.name, name=definition["metadata"]["name"], problem=repr(problem))
            return
        cluster.resources.replace_custom(spec["group"], spec["names"]["plural"], rows)

    @staticmethod
    def _unserve(cluster: Cluster, definition: Object) -> None:
        spec = definition["spec"]
        cluster.resources.replace_custom(spec["group"], spec["names"]["plural"], ())

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        from muster.apiserver.crd import accepted_names

        definition = cluster.read(CRDS, key)
        if definition is None:
            return None
        if definition["metadata"].get("deletionTimestamp"):
            return await self._clean_up(cluster, definition) if accepted_names.needs_cleanup(definition) else None
        others = [other for other in cluster.scan(CRDS) if other["metadata"]["name"] != key]
        status = accepted_names.reconcile_status(definition, others, cluster.now())
        if status != definition.get("status"):
            await self._write(cluster, {**definition, "status": status}, "status")
        return None

    async def _clean_up(self, cluster: Cluster, definition: Object) -> float | None:
        """Delete all custom objects; remove the finalizer of the CRD when none is left."""
        from muster.apiserver.crd import accepted_names

        spec = definition["spec"]
        storage = f"{spec['group']}/{spec['names']['plural']}"
        row = cluster.resources.by_storage(storage)
        client = self._context.client(cluster)
        if row is not None:
            for entry in list(cluster.store.list(cluster.name, storage)):
                meta = metadata(entry)
                if meta.deletionTimestamp is None:
                    try:
                        await client.delete(object_path(row.api_version, row.plural, meta.namespace, meta.name))
                    except ApiError as error:
                        if error.code != 404:
                            raise
        if cluster.store.count(cluster.name, storage):
            status = accepted_names.terminating_status(
                definition.get("status") or {}, accepted_names.CLEANUP_STARTED, cluster.now()
            )
            if status != definition.get("status"):
                await self._write(cluster, {**definition, "status": status}, "status")
            return 0.2
        status = accepted_names.terminating_status(definition.get("status") or {}, accepted_names.CLEANUP_DONE, cluster.now())
        updated = await self._write(cluster, {**definition, "status": status}, "status")
        if updated is not None:
            kept = [f for f in updated["metadata"].get("finalizers", ()) if f != accepted_names.FINALIZER]
            updated["metadata"]["finalizers"] = kept
            await self._write(cluster, updated, "")
        return None

    async def _write(self, cluster: Cluster, desired: Object, subresource: str) -> Object | None:
        path = object_path(_VERSION, "customresourcedefinitions", "", desired["metadata"]["name"], subresource)
        try:
            return await self._context.client(cluster, agent="kube-apiserver").update(path, orjson.loads(orjson.dumps(desired)))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return None
