"""Replaces the status of a ManagedCluster or of an addon with the agent's, for the version that the agent has.

Controllers of the hub write to the same status, so an agent with an older version gets a Conflict. Only the status is written:
other changes in the agent's copy are ignored.
"""

from __future__ import annotations

from muster.transport.codecs.received import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import identity_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest


async def replace_status(request: WriteRequest) -> None:
    obj = own_object(request)
    if not obj["metadata"].get("resourceVersion"):
        raise InvalidEvent("metadata.resourceVersion is empty; the version that the status was made from is expected")
    resource = request.row.resource
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": identity_of(obj),
        "status": without_nulls(part(obj, "status", dict, "the data")),
    }
    await request.client.update(resource, body, subresource="status")
