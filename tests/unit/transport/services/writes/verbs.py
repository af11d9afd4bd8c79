"""What tests of verbs share: asking a service for one, and for each verb something good to ask for."""

from typing import Any

import msgspec
import orjson

from muster.api.agents import CLUSTER_LABEL, GRPC_SIGNER, LEASE
from muster.machinery.objects import Object
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    EVENT_ROW,
    LEASE_ROW,
    SIGNING_REQUEST_ROW,
    TOKENS,
    Row,
)
from muster.transport.contract.types import Action, Subresource
from tests.unit.transport.services.conftest import AgentCaller, Hub, agent, publish, service_of, until

CREATE, STATUS = Action.CREATE, Subresource.STATUS
RENEWED = "2026-02-03T04:05:06.000000Z"


async def send(services: dict, row: Row, event: CloudEvent, caller: AgentCaller) -> CloudEvent | None:
    return await service_of(services, row).handle_status_update(event, caller)


def changed(obj: Object, **parts: Any) -> Object:
    """A copy with other metadata, spec or status fields."""
    copy: Object = orjson.loads(orjson.dumps(obj))
    for part, fields in parts.items():
        copy[part] = {**(copy.get(part) or {}), **fields}
    return copy


def with_attribute(event: CloudEvent, name: str, value: Any) -> CloudEvent:
    return msgspec.structs.replace(event, attributes={**event.attributes, name: value})


def payloads(cluster: str) -> list[tuple[Row, Subresource, Action, Object]]:
    """For each verb something that is good but for whose it is."""
    inside = {"name": "x", "namespace": cluster, "uid": "u", "resourceVersion": "1"}
    csr = {"name": f"{cluster}-x", "labels": {CLUSTER_LABEL: cluster}}
    spec = {"signerName": GRPC_SIGNER, "request": "", "usages": []}
    return [
        (CLUSTERS, Subresource.SPEC, CREATE, {"metadata": {"name": cluster}, "spec": {}}),
        (CLUSTERS, Subresource.SPEC, Action.UPDATE, {"metadata": {"name": cluster}, "spec": {}}),
        (CLUSTERS, STATUS, Action.UPDATE, {"metadata": {"name": cluster, "resourceVersion": "1"}, "status": {}}),
        (SIGNING_REQUEST_ROW, Subresource.SPEC, CREATE, {"metadata": csr, "spec": spec}),
        (ADDONS_ALPHA, STATUS, Action.UPDATE, {"metadata": inside, "status": {}}),
        (ADDONS_BETA, STATUS, Action.UPDATE, {"metadata": inside, "status": {}}),
        (ADDONS_BETA, Subresource.SPEC, Action.UPDATE, {"metadata": inside, "status": {}}),
        (LEASE_ROW, Subresource.SPEC, Action.UPDATE, {"metadata": {**inside, "name": LEASE}, "spec": {"renewTime": RENEWED}}),
        (EVENT_ROW, Subresource.SPEC, CREATE, {"metadata": inside, "note": "n"}),
        (EVENT_ROW, Subresource.SPEC, Action.UPDATE, {"metadata": inside, "series": {"count": 2}}),
        (TOKENS, Subresource.SPEC, CREATE, {"metadata": inside, "spec": {}}),
    ]


def introduction(cluster: str = "c1", metadata: Object | None = None, **spec: Any) -> CloudEvent:
    body = {
        "metadata": {"name": cluster, **(metadata or {})},
        "spec": {"hubAcceptsClient": False, **spec},
        "status": {"conditions": None, "version": {}},
    }
    return publish(CLUSTERS, body, Subresource.SPEC, CREATE)


async def update(hub: Hub, services: dict, **parts: Any) -> Object:
    """The cluster after its agent has sent a copy with other parts."""
    cluster = await hub.admin.get(CLUSTERS.resource, "c1")
    await until(lambda: service_of(services, CLUSTERS).list("c1"))
    await send(services, CLUSTERS, publish(CLUSTERS, changed(cluster, **parts)), agent("c1"))
    return await hub.admin.get(CLUSTERS.resource, "c1")
