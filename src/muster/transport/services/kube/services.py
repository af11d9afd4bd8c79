"""One service per row over a Kubernetes API, all with one client: that of the server's own account."""

from __future__ import annotations

import random as chance

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.runtime.auth import Authorizer
from muster.runtime.client import KubeClient
from muster.transport.contract.event import MAX_EVENT
from muster.transport.contract.rows import ROWS, Row
from muster.transport.contract.types import DataType
from muster.transport.services.interfaces import Service
from muster.transport.services.kube.informed import InformedObjects
from muster.transport.services.object_service import ObjectService
from muster.transport.services.objects import NoObjects, ObjectSource


def kube_services(
    client: KubeClient,
    authorizer: Authorizer,
    *,
    rules: ClusterWriteRules | None = None,
    max_event: int = MAX_EVENT,
    clock: Clock = SYSTEM,
    random: Random = chance.random,
) -> dict[DataType, Service]:
    """`authorizer` authorizes agents, `rules` are those of the hub's webhooks, and `max_event` is the size of the largest event
    that is sent to agents. The caller runs each service's `run` as a task."""

    def service(row: Row) -> Service:
        source: ObjectSource = InformedObjects(client, row, clock=clock, random=random) if row.sends else NoObjects()
        return ObjectService(
            row,
            source,
            lambda caller: client,
            authorizer,
            rules=rules,
            own_client=client,
            max_event=max_event,
            clock=clock,
            random=random,
        )

    return {data_type: service(row) for data_type, row in ROWS.items()}
