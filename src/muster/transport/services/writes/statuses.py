"""The status of a ManagedCluster or of an addon, as its agent has it: the whole status, valid for the version that the agent saw.

Controllers of the hub write into the same status, so an agent that has not seen their last word gets a Conflict. The write goes to
the status alone: whatever else is in the agent's copy stays there.
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
