"""Removes objects that a ConfigurationPolicy is no longer about, as its `pruneObjectBehavior` wants it.

Only policies that enforce remove anything. `DeleteIfCreated` is for objects that the policy has created, and that are still the
ones it created: the status has their UIDs. What is to go is asked for directly, since a cache could be behind the policy's own
writes, and deleted by UID. An object that something holds (a finalizer, a grace period) counts as not removed: whoever waits tries
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.policy.v1 import ConfigurationPolicySpec, RelatedObject
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.runtime.client import Conflict, KubeClient, KubeError, NoKindMatch, NotFound, RESTMapper

log = get_logger("muster.policy.configuration.pruning")

DELETE_ALL: Final = "DeleteAll"
DELETE_IF_CREATED: Final = "DeleteIfCreated"
NO_OBJECT: Final = "-"
"""The name of a related object where there is none."""


def prunes(spec: ConfigurationPolicySpec) -> bool:
    """Whether the policy may leave objects behind that are to be removed: it has a finalizer then."""
    return spec.prune_object_behavior in (DELETE_ALL, DELETE_IF_CREATED)


def to_prune(
    spec: ConfigurationPolicySpec, before: Sequence[RelatedObject], related: Sequence[RelatedObject] = ()
) -> list[RelatedObject]:
    """What was related and is so no more, as far as the policy may remove it."""
    if not prunes(spec) or spec.remediation_action.lower() != "enforce":
        return []
    kept = {one.object for one in related}
    return [one for one in before if one.object not in kept and one.object.metadata.name != NO_OBJECT and _may_go(spec, one)]


def _may_go(spec: ConfigurationPolicySpec, one: RelatedObject) -> bool:
    properties = one.properties
    return spec.prune_object_behavior == DELETE_ALL or bool(properties and properties.created_by_policy and properties.uid)


def described(one: RelatedObject) -> str:
    """As Go prints a GroupVersionKind, then which object."""
    group, _, version = one.object.api_version.rpartition("/")
    metadata = one.object.metadata
    return f'{group}/{version}, Kind={one.object.kind} "{metadata.name}" in namespace {metadata.namespace}'


class Pruner:
    """On the managed cluster."""

    def __init__(self, client: KubeClient, mapper: RESTMapper) -> None:
        self._client = client
        self._mapper = mapper

    async def prune(self, spec: ConfigurationPolicySpec, objects: Sequence[RelatedObject]) -> list[RelatedObject]:
        """Remove them. Gives those that are still there, or may be."""
        return [one for one in objects if not await self._is_gone(spec, one)]

    async def _is_gone(self, spec: ConfigurationPolicySpec, one: RelatedObject) -> bool:
        try:
            resource = await self._mapper.mapping(one.object.api_version, one.object.kind)
            return await self._remove(spec, one, resource)
        except NotFound:
            return True
        except NoKindMatch as error:
            # A kind that the server does not have has no objects; one that could not be asked for may have some.
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
