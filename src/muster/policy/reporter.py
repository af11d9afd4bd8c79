"""Reports the compliance of a policy: events on its owner, events of its own, and the history in its status.

The policy framework, if installed, owns the policies that it creates, and reads their compliance from core/v1 Events on the
owner. Such an event is written before the status: until the status is written, everything is reported again, so the framework
never misses a message, and may get one twice after a crash. Policies from GitOps have no owner; for all policies, an
`EventRecorder` writes what `kubectl describe` shows, without delaying an evaluation.

Policies are documents here, since both kinds report alike.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from muster.api.policy.v1 import HistoryEvent
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.golang.timestamps import format_micro_time, format_time
from muster.machinery.objects import Object
from muster.policy.names import CONTROLLER
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CORE_EVENTS
from muster.runtime.controller import EventRecorder, object_reference

COMPLIANT: Final = "Compliant"
NON_COMPLIANT: Final = "NonCompliant"
TERMINATING: Final = "Terminating"

MESSAGE_BYTES: Final = 4096
HISTORY_LENGTH: Final = 10
_TRUNCATED: Final = "...[truncated]"
_REFERENCE: Final = ("apiVersion", "kind", "name", "uid")
"""Fields of an owner reference."""


def truncated(message: str) -> str:
    """A message, truncated to the limit of events and histories."""
    text = message.encode()
    if len(text) <= MESSAGE_BYTES:
        return message
    return text[: MESSAGE_BYTES - len(_TRUNCATED)].decode(errors="ignore") + _TRUNCATED


def with_message(
    history: tuple[HistoryEvent, ...], message: str, now: datetime, *, length: int = HISTORY_LENGTH
) -> tuple[HistoryEvent, ...]:
    """The history with this message, newest first."""
    return (HistoryEvent(last_timestamp=format_micro_time(now), message=message), *history)[:length]


class PolicyReporter:
    """Policies are documents with apiVersion, kind and metadata."""

    def __init__(self, client: KubeClient, events: EventRecorder, instance: str, *, clock: Clock = SYSTEM) -> None:
        """`instance` is the host name in events."""
        self._client = client
        self._events = events
        self._instance = instance
        self._clock = clock
        self._stamp = 0

    async def report_compliance(self, policy: Object, compliant: str, message: str) -> None:
        """Report to the policy's owner, if it has one; to be called before the status is written. Raises KubeError."""
        owners = policy["metadata"].get("ownerReferences") or ()
        if owners:
            event = self._owner_event(policy, owners[0], compliant, truncated(message))
            await self._client.create(CORE_EVENTS, event, event["metadata"]["namespace"])

    def record_info(self, policy: Object, message: str, *, violation: bool) -> None:
        """Record why a policy could not be evaluated, or had nothing to evaluate."""
        self._events.event(
            policy, "Warning" if violation else "Normal", "PolicyInfo", message, action=f"policy: {policy['metadata']['name']}"
        )

    def record_update(self, policy: Object, compliant: str, message: str) -> None:
        """Record the policy's state; `message` is without the state."""
        self._events.event(
            policy,
            "Warning" if compliant == NON_COMPLIANT else "Normal",
            "PolicyUpdate",
            f"Policy status is {compliant}: {message}",
            action="Policy status updated",
        )

    def _owner_event(self, policy: Object, owner: Object, compliant: str, message: str) -> Object:
        metadata = policy["metadata"]
        namespace = metadata["namespace"]
        now = self._clock.now()
        # Named as by client-go's recorders, with the time in nanoseconds, but unique.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1_000_000_000))
        suffix = f"{self._stamp:x}"
        related = object_reference(policy)
        related.pop("resourceVersion", None)
        return {
            "apiVersion": CORE_EVENTS.api_version,
            "kind": CORE_EVENTS.kind,
            "metadata": {"name": f"{owner['name'][: 252 - len(suffix)]}.{suffix}", "namespace": namespace},
            "involvedObject": {**{field: owner.get(field, "") for field in _REFERENCE}, "namespace": namespace},
            "reason": f"policy: {namespace}/{metadata['name']}",
            "message": message,
            "type": "Normal" if compliant == COMPLIANT else "Warning",
            "action": "ComplianceStateUpdate",
            "source": {"component": CONTROLLER, "host": self._instance},
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "count": 1,
            "related": related,
            "reportingComponent": CONTROLLER,
            "reportingInstance": self._instance,
        }
