"""Health of an addon by its lease, which its agent renews about once a minute: a pure function, and when it changes next.

A renewal is valid for five minutes. A lease that was never renewed, or whose time cannot be parsed, counts as expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from muster.api import Condition
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time

AVAILABLE: Final = "Available"
GRACE: Final = timedelta(seconds=300)
UPDATED: Final = "ManagedClusterAddOnLeaseUpdated"
STOPPED: Final = "ManagedClusterAddOnLeaseUpdateStopped"
NOT_FOUND: Final = "ManagedClusterAddOnLeaseNotFound"
LONGEST: Final = 3600.0
"""Timers stand still while a machine sleeps."""


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class Lease(msgspec.Struct, omit_defaults=True):
    """What is kept of a Lease."""

    metadata: _Metadata
    spec: Any = None

    @property
    def renewed(self) -> datetime | None:
        text = self.spec.get("renewTime") if isinstance(self.spec, dict) else None
        try:
            return parse_time(text) if isinstance(text, str) else None
        except (GoError, ValueError, OverflowError):
            return None


decode_lease = msgspec.json.Decoder(Lease).decode


def reduced_lease(raw: bytes) -> bytes:
    lease = decode_lease(raw)
    if isinstance(lease.spec, dict):
        lease.spec = {"renewTime": lease.spec.get("renewTime")}
    return msgspec.json.encode(lease)


@dataclass(frozen=True)
class Health:
    available: Condition
    again: float | None = None
    """Seconds until it is another, if nothing happens."""


def health_of(addon: str, lease: Lease | None, now: datetime, *, hosted: bool = False, unseen: str = "") -> Health:
    """`unseen` is why leases of the addon cannot be seen at all, if so."""
    if lease is None:
        hint = unseen or (_hosted_hint() if hosted else "")
        text = " ".join(filter(None, (f"The status of {addon} add-on is unknown.", hint)))
        return Health(Condition(type=AVAILABLE, status="Unknown", reason=NOT_FOUND, message=text))
    renewed = lease.renewed
    left = (renewed - now + GRACE).total_seconds() if renewed is not None else 0.0
    if left > 0:
        text = f"{addon} add-on is available."
        return Health(Condition(type=AVAILABLE, status="True", reason=UPDATED, message=text), min(left, LONGEST))
    return Health(Condition(type=AVAILABLE, status="False", reason=STOPPED, message=f"{addon} add-on is not available."))


def _hosted_hint() -> str:
    return (
        f"Its lease is read on the cluster that this cluster's agent runs on: compare it with the annotation "
        f"{HOSTING_CLUSTER_ANNOTATION}."
    )
