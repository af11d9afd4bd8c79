"""The status of a ManagedClusterAddOn during a reconcile: each step sets its part, and it is written once.

lastTransitionTime changes with the status of a condition only, so without changes the draft equals the stored status, and nothing
is written. Types, reasons and messages are OCM's: clients, rollouts and scripts depend on them.
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
"""The maximum in the CRD; longer messages are truncated."""


class StatusDraft:
    def __init__(self, addon: ManagedClusterAddOn, now: datetime) -> None:
        self.status: ManagedClusterAddOnStatus = addon.status
        self._now = format_time(now)

    def put(self, **fields: Any) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)

    def set(self, kind: str, status: bool | None, reason: str, message: str) -> None:
        """A status of None is Unknown."""
        word = "Unknown" if status is None else str(status)
        condition = Condition(type=kind, status=word, reason=reason, message=message[:LONGEST_MESSAGE])
        self.put(conditions=with_condition(self.status.conditions, condition, self._now))

    def drop(self, kind: str) -> None:
        self.put(conditions=tuple(condition for condition in self.status.conditions if condition.type != kind))

    def condition(self, kind: str) -> Condition | None:
        return condition_of(self.status.conditions, kind)
