"""Namespaces must exist and live: nothing is created in a missing or terminating one."""

from __future__ import annotations

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import Object, Resource

_ALLOWED_WITHOUT_NAMESPACE = frozenset({"authorization.k8s.io/localsubjectaccessreviews"})


class NamespaceLifecycle:
    async def mutate(self, ctx: Context, resource: Resource, operation: Operation) -> Object | None:
        if operation.name == "CREATE" and resource.namespaced and resource.storage not in _ALLOWED_WITHOUT_NAMESPACE:
            self._check(ctx, resource, operation)
        return operation.new

    def _check(self, ctx: Context, resource: Resource, operation: Operation) -> None:
        name = ctx.attributes.namespace
        namespace = ctx.cluster.read("/namespaces", name)
        if namespace is None:
            raise errors.not_found_named("", "namespaces", name)
        if namespace["metadata"].get("deletionTimestamp") or namespace.get("status", {}).get("phase") == "Terminating":
            text = f"unable to create new content in namespace {name} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            created = operation.new["metadata"].get("name", "") if operation.new else ""
            raise errors.forbidden(resource.group, resource.plural, created, text, [cause])
