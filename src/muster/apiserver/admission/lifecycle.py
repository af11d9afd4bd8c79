"""The NamespaceLifecycle plugin: nothing is created in a missing or terminating namespace; nor are objects of a CRD that is
terminating.

The check is made twice: as the first step of admission, and again at the moment a creation is queued for writing, because a slow
webhook may have given the namespace time to terminate. Queued writes count as made. So a creation is either queued before the
deletion of the namespace, and the namespace controller sees it, or it is rejected.
"""

from __future__ import annotations

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.objects import shared
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_ALLOWED_WITHOUT_NAMESPACE = frozenset({"authorization.k8s.io/localsubjectaccessreviews"})
_CRDS = "apiextensions.k8s.io/customresourcedefinitions"


class NamespaceLifecycle:
    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        if operation.name == "CREATE" and resource.storage not in _ALLOWED_WITHOUT_NAMESPACE:
            name = operation.new["metadata"].get("name", "") if operation.new else ""
            try:
                check_namespace(ctx, resource, name)
            except errors.ApiError:  # another server on the same database may just have created the namespace
                await ctx.cluster.store.synced()
                check_namespace(ctx, resource, name)
        return operation.new


def check_namespace(ctx: Context, resource: ServedResource, name: str) -> None:
    """Raise ApiError if the request may not create an object of this resource in its namespace."""
    if resource.is_custom:
        definition = _head(ctx, _CRDS, f"{resource.plural}.{resource.group}")
        if definition is None:
            raise errors.no_such_resource()
        if definition["metadata"].get("deletionTimestamp"):
            text = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource.group, resource.plural, name, text)
    if not resource.namespaced:
        return
    where = ctx.attributes.namespace
    namespace = _head(ctx, "/namespaces", where)
    if namespace is None:
        raise errors.not_found_named("", "namespaces", where)
    if namespace["metadata"].get("deletionTimestamp") or namespace.get("status", {}).get("phase") == "Terminating":
        text = f"unable to create new content in namespace {where} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {where} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(resource.group, resource.plural, name, text, [cause])


def _head(ctx: Context, storage: str, key: str) -> Object | None:
    entry = ctx.cluster.store.head(ctx.cluster.name, storage, key)
    return None if entry is None else shared(entry)
