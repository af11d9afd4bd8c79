"""Registration of a cluster, and its agents' later changes of its ManagedCluster.

The hub's webhooks check the writer, which is our account: so the agent is checked here, by the same rules
(`muster.api.cluster.write_rules`) and the hub's authorization. Agents may write little: the client configurations of their API
server, taints and labels as far as the rules permit, and their own annotations. They cannot accept clusters or remove what others
have set.

Clusters that register over this transport get an annotation, because not every agent reports its driver. An existing cluster,
created by an administrator for a future agent, gets it too when it registers here, but only while it is unclaimed: no agent has
joined it, and none has set an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster.api import MalformedObject, is_true
from muster.api.agents import DRIVER_ANNOTATION, GRPC_DRIVER
from muster.api.cluster.v1 import JOINED, ManagedCluster
from muster.api.cluster.write_rules import is_agents_own, required_rights
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Forbidden, KubeError
from muster.transport.codecs.received import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import current_version, forbidden, name_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest

log = get_logger("muster.transport.services")

_SPEC_FIELDS: Final = ("managedClusterClientConfigs", "hubAcceptsClient", "taints")
"""The fields that an agent may change. The lease duration is up to the hub."""


async def introduce(request: WriteRequest) -> None:
    requested = own_object(request)
    name, metadata = name_of(requested), requested["metadata"]
    spec = without_nulls(part(requested, "spec", dict, "the data"))
    if spec.get("hubAcceptsClient"):
        raise forbidden(request.row, name, "spec.hubAcceptsClient is true, and an agent cannot accept its own cluster")
    refused = [f"metadata.{field}" for field in ("finalizers", "ownerReferences", "generateName") if metadata.get(field)]
    refused += [f"metadata.annotations[{one}]" for one in metadata.get("annotations") or {} if not is_agents_own(one)]
    if refused:
        raise forbidden(request.row, name, f"a cluster that introduces itself cannot set {', '.join(refused)}")
    resource = request.row.resource
    new: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": _marked(metadata.get("annotations"))},
        "spec": {**spec, "hubAcceptsClient": False},
    }
    if metadata.get("labels"):
        new["metadata"]["labels"] = metadata["labels"]
    await _judge(request, new, None)
    try:
        await request.client.create(resource, new)
    except AlreadyExists:
        await _mark_if_unclaimed(request, name)
        raise


async def _mark_if_unclaimed(request: WriteRequest, name: str) -> None:
    kept = request.objects.named(request.cluster, name)
    if kept is not None and not _is_unclaimed(kept.snapshot.decode()):
        return
    resource = request.row.resource
    try:
        found = await request.client.get(resource, name)
        if _is_unclaimed(found):
            metadata = {**found["metadata"], "annotations": _marked(found["metadata"].get("annotations"))}
            await request.client.update(resource, {**found, "metadata": metadata})
            log.info("cluster was there before and is marked", cluster=name, driver=GRPC_DRIVER)
    except KubeError as error:
        # The registration succeeds all the same; it is repeated later.
        log.warning("cannot mark cluster", cluster=name, driver=GRPC_DRIVER, error=str(error))


def _is_unclaimed(document: Object) -> bool:
    """Whether no agent has used the cluster yet."""
    try:
        cluster = ManagedCluster.decode(document)
    except MalformedObject:
        return False
    metadata = cluster.metadata
    claimed = any(map(is_agents_own, metadata.annotations)) or is_true(cluster.status.conditions, JOINED)
    return not claimed and not metadata.deletion_timestamp


async def update(request: WriteRequest) -> None:
    requested = own_object(request)
    old = await current_version(request, requested)
    new = _changed(request, old, requested)
    if new == old:
        return
    await _judge(request, new, old)
    await request.client.update(request.row.resource, new)


def _changed(request: WriteRequest, old: Object, requested: Object) -> Object:
    """The hub's object with the agent's permitted changes. Raises Forbidden for other changes."""
    before, metadata = old["metadata"], requested["metadata"]
    labels, annotations = _texts(metadata, "labels"), _texts(metadata, "annotations")
    spec, old_spec = without_nulls(part(requested, "spec", dict, "the data")), old.get("spec") or {}
    refused = [f"metadata.{field}" for field in ("finalizers", "ownerReferences") if _differ(before, metadata, field)]
    refused += [f"metadata.labels[{one}]" for one in _foreign(_texts(before, "labels").keys() - labels.keys())]
    refused += [f"metadata.annotations[{one}]" for one in _foreign(_different(_texts(before, "annotations"), annotations))]
    refused += [f"spec.{field}" for field in sorted(_different(old_spec, spec)) if field not in _SPEC_FIELDS]
    if refused:
        raise forbidden(request.row, name_of(requested), f"agents of a cluster cannot change {', '.join(refused)}")
    changed = {**before, "annotations": _marked(annotations)}
    changed.pop("labels", None)
    if labels:
        changed["labels"] = labels
    return {**old, "metadata": changed, "spec": spec}


def _texts(metadata: Object, field: str) -> dict[str, str]:
    return metadata.get(field) or {}


def _differ(before: Object, after: Object, field: str) -> bool:
    return bool((before.get(field) or []) != (after.get(field) or []))


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _foreign(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not is_agents_own(name))


def _marked(annotations: Mapping[str, str] | None) -> dict[str, str]:
    return {**(annotations or {}), DRIVER_ANNOTATION: GRPC_DRIVER}


async def _judge(request: WriteRequest, new: Object, old: Object | None) -> None:
    """Raises Forbidden unless the caller has the required permissions, and InvalidEvent for invalid objects."""
    try:
        cluster = ManagedCluster.decode(new)
    except MalformedObject as error:
        raise InvalidEvent(str(error)) from None
    before = None if old is None else ManagedCluster.decode(old)
    known = () if before is None else before.unread
    if unreadable := [field for field in cluster.unread if field.startswith("spec") and field not in known]:
        raise InvalidEvent(f"ManagedCluster {name_of(new)} cannot be read: {', '.join(unreadable)}")
    who = request.caller.user
    for right in required_rights(who, cluster, before, request.rules):
        if right.asked is None or not (await request.authorizer.authorize(who, right.asked)).allowed:
            raise Forbidden(403, "Forbidden", right.refusal, {"name": right.name, "kind": right.resource})
