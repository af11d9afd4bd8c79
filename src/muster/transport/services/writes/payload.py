"""The object of an event, after the check that it belongs to the caller's cluster.

Namespace, name, label and uid of the object must be the caller's cluster's, independent of the event's attributes: attributes are
only claims, the object would be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.api.agents import CLUSTER_LABEL
from muster.kube.names import path_segment
from muster.machinery.objects import Object
from muster.runtime.client import BadRequest, Conflict, Forbidden
from muster.transport.codecs.received import part, read_document
from muster.transport.contract.event import RESOURCE_ID, CloudEvent, InvalidEvent
from muster.transport.contract.rows import Belongs, Row
from muster.transport.services.write_cache import is_older
from muster.transport.services.writes.request import WriteRequest

_FIELD: Final[Mapping[Belongs, str]] = {
    Belongs.NAMESPACE: "metadata.namespace",
    Belongs.NAME: "metadata.name",
    Belongs.LABEL: f"metadata.labels[{CLUSTER_LABEL}]",
}


def own_object(request: WriteRequest) -> Object:
    """The object of the event, with a name and valid metadata. Raises InvalidEvent for an invalid object, and Forbidden for one of
    another cluster."""
    row, event = request.row, request.event
    obj = read_object(row, event)
    owner = row.belongs.cluster_of(obj)
    if owner != request.cluster:
        raise forbidden(row, name_of(obj), f"its {_FIELD[row.belongs]} is {owner!r}, and the caller speaks for {request.cluster!r}")
    _check_id(event, obj)
    return obj


def read_object(row: Row, event: CloudEvent) -> Object:
    """Raises InvalidEvent."""
    obj = read_document(event)
    for field, expected in (("apiVersion", row.resource.api_version), ("kind", row.resource.kind)):
        if part(obj, field, str, "the data") not in ("", expected):
            raise InvalidEvent(f"{field} of the data is {obj[field]!r}; {expected!r} is expected")
    metadata = obj["metadata"] = part(obj, "metadata", dict, "the data")
    for field in ("name", "namespace", "uid", "resourceVersion", "generateName"):
        part(metadata, field, str, "metadata")
    for field in ("labels", "annotations"):
        if not all(isinstance(text, str) for text in part(metadata, field, dict, "metadata").values()):
            raise InvalidEvent(f"metadata.{field} has a value that is no string")
    name = metadata.get("name") or ""
    if not name or path_segment(name):
        raise InvalidEvent(f"metadata.name {name!r} names no object")
    return obj


def without_nulls(value: Object) -> Object:
    """Go encodes absent values as null."""
    return {name: item for name, item in value.items() if item is not None}


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def identity_of(obj: Object) -> Object:
    """The metadata that limit a write to this version of this object."""
    metadata = obj["metadata"]
    return {field: metadata[field] for field in ("name", "namespace", "uid", "resourceVersion") if metadata.get(field)}


async def current_version(request: WriteRequest, obj: Object) -> Object:
    """The hub's object of which the caller sends a changed copy, in the caller's version. Raises Conflict if it has another version
    by now, and NotFound."""
    metadata = obj["metadata"]
    name, version, uid = name_of(obj), metadata.get("resourceVersion") or "", metadata.get("uid") or ""
    kept = request.objects.named(request.cluster, name)
    if kept is not None and (not version or kept.snapshot.resource_version == version):
        found = kept.snapshot.decode()
    elif kept is not None and is_older(version, kept.snapshot.resource_version):
        raise conflict(request.row, name)
    else:
        # Not cached, or another version: the cache may be older than what another server has sent to the caller.
        namespace = request.cluster if request.row.resource.namespaced else ""
        found = await request.client.get(request.row.resource, name, namespace)
    live = found["metadata"]
    if (version and live["resourceVersion"] != version) or (uid and live["uid"] != uid):
        raise conflict(request.row, name)
    return found


def forbidden(row: Row, name: str, why: str) -> Forbidden:
    return Forbidden(403, "Forbidden", f'{row.resource} "{name}" is forbidden: {why}', _details(row, name))


def bad_request(message: str) -> BadRequest:
    return BadRequest(400, "BadRequest", message)


def conflict(row: Row, name: str) -> Conflict:
    message = f'{row.resource} "{name}" has been changed since; apply your changes to the latest version and try again'
    return Conflict(409, "Conflict", message, _details(row, name))


def _details(row: Row, name: str) -> dict[str, Any]:
    return {"name": name, "group": row.resource.group, "kind": row.resource.plural}


def _check_id(event: CloudEvent, obj: Object) -> None:
    # Agents of OCM 1.2 send the name where later ones send the uid.
    metadata, claimed = obj["metadata"], event.text(RESOURCE_ID)
    if claimed and claimed not in (metadata.get("uid"), metadata["name"]):
        raise InvalidEvent(f"attribute {RESOURCE_ID!r} is {claimed!r}; the uid of the object in the data is expected")
