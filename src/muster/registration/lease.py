"""How long a cluster counts as alive: its lease's last renewal, and a few lease durations of patience."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from muster.api.cluster.v1 import ManagedCluster
from muster.kube.duration import parse_time
from muster.registration.names import DEFAULT_LEASE_SECONDS, LEASE_PERIODS


def lease_duration(cluster: ManagedCluster) -> timedelta:
    """How often the agent renews its lease."""
    return timedelta(seconds=cluster.spec.lease_duration_seconds or DEFAULT_LEASE_SECONDS)


def grace(cluster: ManagedCluster) -> timedelta:
    """So long without renewal before the cluster counts as gone."""
    return LEASE_PERIODS * lease_duration(cluster)


def renewed_at(lease: Mapping[str, Any]) -> datetime | None:
    """When the lease was last renewed; None when it never was, or says so in no readable way."""
    try:
        return parse_time((lease.get("spec") or {}).get("renewTime") or "")
    except (ValueError, TypeError):
        return None


def expires_at(cluster: ManagedCluster, lease: Mapping[str, Any]) -> datetime | None:
    """When the cluster counts as gone unless the lease is renewed until then; None for one that was never renewed."""
    renewed = renewed_at(lease)
    return None if renewed is None else renewed + grace(cluster)
