"""Prunes objects that are no longer part of a ConfigurationPolicy, according to its `pruneObjectBehavior`.

Only enforced policies prune. `DeleteIfCreated` applies to objects that the policy has created and that were not replaced since:
the status has their UIDs. Objects are read from the server directly, since a cache could be behind the policy's own writes, and
deleted by UID. An object that still exists (because of a finalizer or grace period) counts as not pruned; the caller retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.policy.v1 import ConfigurationPolicySpec, RelatedObject
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.runtime.client import Conflict, KubeClient, KubeError, NoKindMatch, NotFound, RESTMapper

log = get_logger("muster.policy.configuration.pruner")

DELETE_ALL: Final = "DeleteAll"
DELETE_IF_CREATED: Final = "DeleteIfCreated"
NO_OBJECT: Final = "-"
"""Name of a related object that does not exist."""


def prunes(spec: ConfigurationPolicySpec) -> bool:
    """Whether the policy may have objects to prune when it is deleted: it needs a finalizer then."""
    return spec.prune_object_behavior in (DELETE_ALL, DELETE_IF_CREATED)


def to_prune(
    spec: ConfigurationPolicySpec, before: Sequence[RelatedObject], related: Sequence[RelatedObject] = ()
) -> list[RelatedObject]:
    """Objects that are no longer related and that the policy may delete."""
    if not prunes(spec) or spec.remediation_action.lower() != "enforce":
        return []
    kept = {one.object for one in related}
    return [one for one in before if one.object not in kept and one.object.metadata.name != NO_OBJECT and _may_go(spec, one)]


def _may_go(spec: ConfigurationPolicySpec, one: RelatedObject) -> bool:
    properties = one.properties
    return spec.prune_object_behavior == DELETE_ALL or bool(properties and properties.created_by_policy and properties.uid)


def described(one: RelatedObject) -> str:
    """GroupVersionKind as Go prints it, then name and namespace."""
    group, _, version = one.object.api_version.rpartition("/")
    metadata = one.object.metadata
    return f'{group}/{version}, Kind={one.object.kind} "{metadata.name}" in namespace {metadata.namespace}'


class Pruner:
    """Prunes objects of the managed cluster."""

    def __init__(self, client: KubeClient, mapper: RESTMapper) -> None:
        self._client = client
        self._mapper = mapper

    async def prune(self, spec: ConfigurationPolicySpec, objects: Sequence[RelatedObject]) -> list[RelatedObject]:
        """Delete the objects. Returns those that still exist, or may exist."""
        return [one for one in objects if not await self._is_gone(spec, one)]

    async def _is_gone(self, spec: ConfigurationPolicySpec, one: RelatedObject) -> bool:
        try:
            resource = await self._mapper.mapping(one.object.api_version, one.object.kind)
            return await self._remove(spec, one, resource)
        except NotFound:
            return True
        except NoKindMatch as error:
            # A kind that is not served has no objects; one that could not be looked up may have some.
            return error.error is None
        except (KubeError, ValueError) as error:
            log.warning("object not pruned", kind=one.object.kind, name=one.object.metadata.name, error=str(error))
            return False

    async def _remove(self, spec: ConfigurationPolicySpec, one: RelatedObject, resource: GVR) -> bool:
        name, namespace = one.object.metadata.name, one.object.metadata.namespace
        found = await self._client.get(resource, name, namespace)
        uid = found["metadata"]["uid"]
        if spec.prune_object_behavior == DELETE_IF_CREATED and (one.properties is None or one.properties.uid != uid):
            return True
        if found["metadata"].get("deletionTimestamp"):
            return False
        try:
            await self._client.delete(resource, name, namespace, uid=uid)
        except Conflict:
            return False
        return await self._left(resource, name, namespace) is None

    async def _left(self, resource: GVR, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
