"""What a verb is given: the event, who sent it, what is known of the row's objects, and with what to write.

`client` writes in whoever's name the hub is to be written to: our own account's, which the API server then judges, or the caller's.
The caller's cluster is what the credential proves; that the event names no other is checked before a verb is called.
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
    """Says what the caller may."""
    rules: ClusterWriteRules
    objects: KeptObjects
    answers: WriteCache
    clock: Clock
    random: Random

    @property
    def cluster(self) -> str:
        return self.caller.cluster


Verb = Callable[[WriteRequest], Awaitable[CloudEvent | None]]
"""Raises KubeError and InvalidEvent. What it gives is for the caller alone."""
