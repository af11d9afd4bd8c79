"""Events of a cluster's agents, in the cluster's namespace: created once, then only their series is updated.

Our Events are small; a large one is refused before it is sent to the hub. If an Event that repeats is gone (the hub deletes Events
after an hour), that is no error.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.objects import Object
from muster.runtime.client import NotFound, StatusError
from muster.transport.codecs.received import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import name_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest

MOST_BYTES: Final = 16 * 1024
"""Of an Event as JSON; its note, the longest field, has at most one KiB."""
_FIELDS: Final = (
    "eventTime",
    "series",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "related",
    "note",
    "type",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
)


async def create(request: WriteRequest) -> None:
    event = _event(request)
    resource = request.row.resource
    body: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name_of(event), "namespace": request.cluster},
    }
    body |= {field: event[field] for field in _FIELDS if event.get(field) is not None}
    await request.client.create(resource, body, request.cluster)


async def count(request: WriteRequest) -> None:
    """Update the series of a repeated Event."""
    event = _event(request)
    series = without_nulls(part(event, "series", dict, "the data"))
    if not series:
        raise InvalidEvent("series is empty; of an Event that exists only its series can be changed")
    patch = {"series": {field: series[field] for field in ("count", "lastObservedTime") if field in series}}
    try:
        await request.client.patch(request.row.resource, name_of(event), patch, request.cluster)
    except NotFound:
        return


def _event(request: WriteRequest) -> Object:
    size = len(request.event.data or b"")
    if size > MOST_BYTES:
        message = f"an Event of {size} bytes; at most {MOST_BYTES} are taken"
        raise StatusError(413, "RequestEntityTooLarge", message)
    return own_object(request)
