"""Works: the spec is sent to the agent, the status comes back, each with metadata.

A work's event has only the spec as data, with the field names of OCM's manifest bundles; metadata are an attribute, as JSON. The
bytes of manifests are never decoded here: they are cut out of the stored object. The status is sent with a sequence id, so that an
older one never replaces a newer one, and with its hash.

An agent's work is the result of `decode_spec`, as in Go's agent: the version is the generation, a label has the source, and an
annotation the event's type. A work that is being deleted comes without a spec, and with the finalizer that the agent removes after
its cleanup. Unlike Go's, this module does not validate manifests: the agent reports errors in the work's status, where Go's agent
only logs them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
import orjson

from muster.api.agents import WORK_FINALIZER
from muster.api.work.v1 import ManifestWorkStatus
from muster.machinery.golang.json import encode_json
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.transport.codecs.received import (
    LARGEST_GENERATION,
    Received,
    parse_document,
    parse_moment,
    part,
    read_deletion,
    read_document,
    read_version,
)
from muster.transport.codecs.sequence import parse_sequence
from muster.transport.codecs.statushash import status_hash, status_parts
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    HUB_SOURCE,
    LOG_TRACING,
    METADATA,
    ORIGINAL_SOURCE,
    RESOURCE_ID,
    RESOURCE_VERSION,
    SEQUENCE,
    STATUS,
    STATUS_HASH,
    TIME,
    WITHHELD,
    Attribute,
    CloudEvent,
    InvalidEvent,
    new_event_id,
)
from muster.transport.contract.rows import WORKS
from muster.transport.contract.types import Action, EventType, Subresource

ORIGINAL_SOURCE_LABEL: Final = "cloudevents.open-cluster-management.io/originalsource"
DATA_TYPE_ANNOTATION: Final = "cloudevents.open-cluster-management.io/datatype"
TRACING: Final = "logging.open-cluster-management.io/"
"""Prefix of annotations that are also sent as an attribute, for programs that log them."""
CLEANED_UP: Final = "Deleted"
"""The condition by which an agent reports that a work is cleaned up."""
_NULL: Final = b"null"


# The hub's side


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Workload(msgspec.Struct):
    manifests: msgspec.Raw = msgspec.Raw(b"[]")


class _Spec(msgspec.Struct, rename="camel"):
    workload: _Workload | None = None
    delete_option: msgspec.Raw = msgspec.Raw(_NULL)
    manifest_configs: msgspec.Raw = msgspec.Raw(_NULL)
    executor: msgspec.Raw = msgspec.Raw(_NULL)


class _Work(msgspec.Struct):
    metadata: msgspec.Raw
    spec: _Spec | None = None


_read_work: Final = msgspec.json.Decoder(_Work).decode
_read_metadata: Final = msgspec.json.Decoder(_Metadata).decode
_read_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def encode_spec(work: bytes | Object, action: Action, *, now: datetime, source: str = HUB_SOURCE, gone: bool = False) -> CloudEvent:
    """The event of a work for its agent; the work is JSON or a document; `gone`: it no longer exists.

    Raises InvalidEvent for an undecodable work, and for a generation that does not fit.
    """
    try:
        read = _read_work(work if isinstance(work, bytes) else orjson.dumps(work))
        metadata = _read_metadata(read.metadata)
    except msgspec.DecodeError as error:
        raise InvalidEvent(f"the ManifestWork cannot be read: {error}") from None
    if metadata.generation > LARGEST_GENERATION:
        raise InvalidEvent(f"ManifestWork {metadata.name!r}: generation {metadata.generation} has more than 31 bits")
    deleted: datetime | None = now if gone else None
    if metadata.deletion_timestamp:
        deleted = parse_moment("metadata.deletionTimestamp", metadata.deletion_timestamp)
    attributes: dict[str, Attribute] = {
        CLUSTER: metadata.namespace,
        ORIGINAL_SOURCE: "",
        TIME: now,
        RESOURCE_ID: metadata.uid,
        RESOURCE_VERSION: metadata.generation,
        METADATA: _sent_metadata(bytes(read.metadata), metadata, deleted, gone).decode(),
        LOG_TRACING: _tracing(metadata.annotations),
    }
    if deleted is not None:
        attributes[DELETED] = deleted
    return CloudEvent(
        id=new_event_id(),
        source=source,
        type=_TYPES[action],
        attributes=attributes,
        data=_bundle(read.spec) if deleted is None else None,
    )


_TYPES: Final = {action: str(EventType(WORKS.data_type, Subresource.SPEC, action)) for action in Action}


def _sent_metadata(raw: bytes, metadata: _Metadata, deleted: datetime | None, gone: bool) -> bytes:
    """Without managedFields, which are often larger than the rest and of no use to agents; for a work that is gone without
    finalizers, which the last state of an object still has."""
    if not gone and not bytes(metadata.managed_fields) and (deleted is None or metadata.deletion_timestamp):
        return raw
    members = _read_members(raw)
    members.pop("managedFields", None)
    if gone:
        members.pop("finalizers", None)
    if deleted is not None and not metadata.deletion_timestamp:
        members["deletionTimestamp"] = msgspec.Raw(f'"{format_time(deleted)}"'.encode())
    return msgspec.json.encode(members)


def _bundle(spec: _Spec | None) -> bytes:
    manifests = b"[]" if spec is None or spec.workload is None else bytes(spec.workload.manifests)
    pieces = [b'{"manifests":', b"[]" if manifests == _NULL else manifests]
    if spec is not None:
        for name, raw in (
            (b',"deleteOption":', spec.delete_option),
            (b',"manifestConfigs":', spec.manifest_configs),
            (b',"executer":', spec.executor),
        ):
            value = bytes(raw)
            if value != _NULL and value != b"[]":
                pieces += (name, value)
    pieces.append(b"}")
    return b"".join(pieces)


def _tracing(annotations: dict[str, str] | None) -> str:
    found = {name: value for name, value in (annotations or {}).items() if name.startswith(TRACING)}
    return encode_json(found) if found else "{}"


def with_status(event: CloudEvent, status: bytes) -> CloudEvent:
    """A work's event with the hub's status, which is JSON."""
    return msgspec.structs.replace(event, attributes={**event.attributes, STATUS: status.decode()})


def withheld(event: CloudEvent) -> CloudEvent:
    """A work's event without the spec: it only reports that the work exists."""
    return msgspec.structs.replace(event, attributes={**event.attributes, WITHHELD: True}, data=None)


class WorkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report about a work."""

    cluster: str
    resource_id: str
    generation: int
    """The generation that the agent has applied, or tried to."""
    sequence: int
    """Later reports have larger numbers."""
    status_hash: str
    """Empty if the agent does not send it."""
    status: Object
    """In the format of the work's own status: conditions and resourceStatus."""
    cleaned_up: bool
    """The work is cleaned up."""


def decode_status(event: CloudEvent) -> WorkStatus:
    """Raises InvalidEvent."""
    generation = read_version(WORKS, event)
    if generation is None:
        raise InvalidEvent(f"attribute {RESOURCE_VERSION!r} is missing: the generation of the work is expected")
    document = read_document(event)
    conditions = _objects(document, "conditions")
    manifests = _objects(document, "resourceStatus")
    return WorkStatus(
        cluster=event.cluster,
        resource_id=_required(event, RESOURCE_ID),
        generation=generation,
        sequence=parse_sequence(_required(event, SEQUENCE)),
        status_hash=event.text(STATUS_HASH),
        status={"conditions": conditions, "resourceStatus": {"manifests": manifests} if manifests else {}},
        cleaned_up=any(item.get("type") == CLEANED_UP and item.get("status") == "True" for item in conditions),
    )


def _objects(document: Object, name: str) -> list[Object]:
    found: list[Any] = part(document, name, list, "the status")
    if not all(isinstance(item, dict) for item in found):
        raise InvalidEvent(f"the status.{name} has an item that is no object")
    return found


def _required(event: CloudEvent, name: str) -> str:
    value = event.text(name)
    if not value:
        raise InvalidEvent(f"attribute {name!r} is missing")
    return value


# The agent's side


def decode_spec(event: CloudEvent) -> Received:
    """The work of an event, as a ManifestWork without status, and if it is withheld without spec. Raises InvalidEvent,
    InvalidType."""
    generation = read_version(WORKS, event)
    deleted = read_deletion(event)
    if generation is None and deleted is None:
        raise InvalidEvent(f"attribute {RESOURCE_VERSION!r} is missing: the generation of the work is expected")
    event_type = event.event_type
    cluster, resource_id = _required(event, CLUSTER), _required(event, RESOURCE_ID)
    named, metadata = _received_metadata(event, event_type, cluster, resource_id, generation)
    obj: Object = {"apiVersion": WORKS.resource.api_version, "kind": WORKS.resource.kind, "metadata": metadata}
    held = False
    is_withheld = event.attributes.get(WITHHELD) is True
    if deleted is None and not is_withheld:
        bundle = read_document(event)
        spec: Object = {"workload": {"manifests": _objects(bundle, "manifests")}}
        for field, (name, kind) in _BUNDLE.items():
            if value := part(bundle, name, kind, "the data"):
                spec[field] = value
        obj["spec"] = spec
    elif deleted is not None:
        held = bool(part(metadata, "finalizers", list, METADATA))
        metadata["finalizers"] = [WORK_FINALIZER]
        metadata["deletionTimestamp"] = format_time(deleted)
    return Received(
        event_type=event_type,
        cluster=cluster,
        resource_id=resource_id,
        version=generation,
        deleted=deleted,
        obj=obj if named or deleted is None else None,
        held=held,
        withheld=is_withheld and deleted is None,
    )


_BUNDLE: Final[dict[str, tuple[str, type[Any]]]] = {
    "deleteOption": ("deleteOption", dict),
    "manifestConfigs": ("manifestConfigs", list),
    "executor": ("executer", dict),
}
"""Besides the manifests: a work's fields and their names in a bundle."""


def _received_metadata(
    event: CloudEvent, event_type: EventType, cluster: str, resource_id: str, generation: int | None
) -> tuple[bool, Object]:
    """The work's metadata, and whether the event has its name."""
    written = event.text(METADATA)
    metadata = parse_document(f"attribute {METADATA!r}", written) if written else {}
    named = bool(part(metadata, "name", str, METADATA))
    if not named:
        metadata["name"] = resource_id
    metadata["uid"] = resource_id
    metadata["namespace"] = cluster
    metadata.pop("resourceVersion", None)
    if generation is not None:
        metadata["generation"] = generation
    annotations = part(metadata, "annotations", dict, METADATA)
    annotations[DATA_TYPE_ANNOTATION] = str(event_type.data_type)
    if tracing := event.text(LOG_TRACING):
        found = parse_document(f"attribute {LOG_TRACING!r}", tracing)
        annotations.update((name, value) for name, value in found.items() if name.startswith(TRACING))
    labels = part(metadata, "labels", dict, METADATA)
    labels[ORIGINAL_SOURCE_LABEL] = event.source
    metadata["annotations"], metadata["labels"] = annotations, labels
    return named, metadata


def encode_status(metadata: Object, status: ManifestWorkStatus, *, source: str, sequence: int, now: datetime) -> CloudEvent:
    """The status report of a work with this metadata, which `decode_spec` has made.

    Raises InvalidEvent if the work has no label with its source.
    """
    original = (metadata.get("labels") or {}).get(ORIGINAL_SOURCE_LABEL)
    if not original:
        raise InvalidEvent(f"work {metadata.get('name')!r} has no label {ORIGINAL_SOURCE_LABEL}: its source is unknown")
    conditions, manifests = status_parts(status)
    data: Object = {"conditions": conditions}
    if manifests:
        data["resourceStatus"] = manifests
    return CloudEvent(
        id=new_event_id(),
        source=source,
        type=_STATUS_TYPE,
        attributes={
            CLUSTER: metadata["namespace"],
            ORIGINAL_SOURCE: original,
            TIME: now,
            RESOURCE_ID: metadata["uid"],
            RESOURCE_VERSION: metadata.get("generation") or 0,
            SEQUENCE: str(sequence),
            STATUS_HASH: status_hash(status),
            METADATA: orjson.dumps(metadata).decode(),
            LOG_TRACING: _tracing(metadata.get("annotations")),
        },
        data=orjson.dumps(data),
    )


_STATUS_TYPE: Final = str(EventType(WORKS.data_type, Subresource.STATUS, Action.UPDATE))
