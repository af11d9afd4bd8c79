"""The status of a ManagedClusterAddOn while a pass makes it: everybody puts in a part, and it is written once.

Conditions are dated by when their status changed, so saying the same again leaves the draft equal to what was read, and nothing is
written. Their types, reasons and messages are OCM's: clients, rollouts and people's scripts know them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from muster.api.addon.v1alpha1 import ManagedClusterAddOn, ManagedClusterAddOnStatus
from muster.api.meta import Condition, condition_of, with_condition
from muster.machinery.golang.timestamps import format_time

CONFIGURED: Final = "Configured"
REGISTRATION_APPLIED: Final = "RegistrationApplied"
MANIFEST_APPLIED: Final = "ManifestApplied"
HOSTING_MANIFEST_APPLIED: Final = "HostingManifestApplied"
HOSTING_CLUSTER_VALIDITY: Final = "HostingClusterValidity"
HOOK_COMPLETED: Final = "HookManifestCompleted"

LONGEST_MESSAGE: Final = 32768
"""What the definition allows; what servers and addons say is cut to it."""


class StatusDraft:
    def __init__(self, addon: ManagedClusterAddOn, now: datetime) -> None:
        self.status: ManagedClusterAddOnStatus = addon.status
        self._now = format_time(now)

    def put(self, **fields: Any) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)

    def set(self, kind: str, status: bool | None, reason: str, message: str) -> None:
        """None is Unknown."""
        word = "Unknown" if status is None else str(status)
        condition = Condition(type=kind, status=word, reason=reason, message=message[:LONGEST_MESSAGE])
        self.put(conditions=with_condition(self.status.conditions, condition, self._now))

    def drop(self, kind: str) -> None:
        self.put(conditions=tuple(condition for condition in self.status.conditions if condition.type != kind))

    def condition(self, kind: str) -> Condition | None:
        return condition_of(self.status.conditions, kind)
