"""The parameters of a verb: the event, the caller, the row's known objects, and the client for writes.

`client` is that of our own account, which the API server then authorizes, or of the caller, depending on the hub. The caller's
cluster is proven by its credential; that the event has the same cluster is checked before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from muster.api.cluster.write_rules import ClusterWriteRules
from muster.machinery.clock import Clock, Random
from muster.runtime.auth import Authorizer
from muster.runtime.client import KubeClient
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import Row
from muster.transport.services.interfaces import Caller
from muster.transport.services.objects import KeptObjects
from muster.transport.services.write_cache import WriteCache


@dataclass(frozen=True)
class WriteRequest:
    row: Row
    event: CloudEvent
    caller: Caller
    client: KubeClient
    authorizer: Authorizer
    """Authorizes the caller."""
    rules: ClusterWriteRules
    objects: KeptObjects
    answers: WriteCache
    clock: Clock
    random: Random

    @property
    def cluster(self) -> str:
        return self.caller.cluster


Verb = Callable[[WriteRequest], Awaitable[CloudEvent | None]]
"""Raises KubeError and InvalidEvent. The result is sent to the caller only."""
