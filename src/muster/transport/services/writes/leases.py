"""Renewal of a cluster's Lease: one request that changes only the time.

The Lease belongs to the hub: its controller creates it, with the label by which it is found, and sets its duration. A renewal is
for the version that the agent has; with an older version the agent gets a Conflict and the newest version on its stream.
"""

from __future__ import annotations

from muster.api.agents import LEASE
from muster.transport.codecs.received import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import current_version, forbidden, name_of, own_object
from muster.transport.services.writes.request import WriteRequest


async def renew(request: WriteRequest) -> None:
    lease = own_object(request)
    if name_of(lease) != LEASE:
        raise forbidden(request.row, name_of(lease), f"agents renew {LEASE} and no other Lease")
    renewed = part(lease, "spec", dict, "the data").get("renewTime")
    if not isinstance(renewed, str) or not renewed:
        raise InvalidEvent("spec.renewTime is empty; the time of the renewal is expected")
    found = await current_version(request, lease)
    await request.client.update(request.row.resource, {**found, "spec": {**(found.get("spec") or {}), "renewTime": renewed}})
