"""One service per row over a store, with the same code as over a Kubernetes API: only the source of objects and the clients for
writes differ.
"""

from __future__ import annotations

import random as chance
from functools import partial

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.runtime.auth import Authorizer
from muster.store.api import Store
from muster.transport.contract.event import MAX_EVENT
from muster.transport.contract.rows import ROWS, Row
from muster.transport.contract.types import DataType
from muster.transport.services.interfaces import Service
from muster.transport.services.object_service import ObjectService
from muster.transport.services.objects import NoObjects, ObjectSource
from muster.transport.services.store.clients import HubClients
from muster.transport.services.store.source import StoreSource


def store_services(
    store: Store,
    cluster: str,
    clients: HubClients,
    authorizer: Authorizer,
    *,
    rules: ClusterWriteRules | None = None,
    max_event: int = MAX_EVENT,
    clock: Clock = SYSTEM,
    random: Random = chance.random,
) -> dict[DataType, Service]:
    """`cluster` is the logical cluster of the hub. The caller runs each service's `run` as a task."""

    def service(row: Row) -> Service:
        source: ObjectSource = StoreSource(row, store, cluster) if row.sends else NoObjects()
        return ObjectService(
            row,
            source,
            partial(clients.for_row, row),
            authorizer,
            rules=rules,
            own_client=clients.administrator,
            max_event=max_event,
            clock=clock,
            random=random,
        )

    return {data_type: service(row) for data_type, row in ROWS.items()}
