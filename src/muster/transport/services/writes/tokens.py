"""A token of a service account in the cluster's namespace on the hub. It is sent to the caller only, and not stored.

The request's uid identifies the response for the caller. It is not sent to the hub, which would take it for the service account's
uid.
"""

from __future__ import annotations

from muster.machinery.objects import Object
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.received import part
from muster.transport.contract.event import HUB_SOURCE, RESOURCE_ID, CloudEvent
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.writes.payload import name_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest


async def create(request: WriteRequest) -> CloudEvent:
    requested = own_object(request)
    name, resource = name_of(requested), request.row.resource
    body: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": request.cluster},
        "spec": without_nulls(part(requested, "spec", dict, "the data")),
    }
    answer = await request.client.create(SERVICE_ACCOUNTS, body, request.cluster, name=name, subresource="token")
    uid = requested["metadata"].get("uid") or request.event.text(RESOURCE_ID)
    answer_object = {**answer, "metadata": {**body["metadata"], "uid": uid}}
    event_type = EventType(request.row.data_type, Subresource.SPEC, Action.CREATE)
    return encode_object(request.row, answer_object, event_type, source=HUB_SOURCE, now=request.clock.now())
