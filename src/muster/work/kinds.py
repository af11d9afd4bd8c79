"""The kinds of works and their records, on the hub and on managed clusters."""

from __future__ import annotations

from typing import Final

from muster.api.work.v1 import AppliedManifestWork, ManifestWork
from muster.api.work.v1alpha1 import ManifestWorkReplicaSet
from muster.runtime.client import served

MANIFEST_WORKS: Final = served(ManifestWork)
APPLIED_WORKS: Final = served(AppliedManifestWork)
REPLICA_SETS: Final = served(ManifestWorkReplicaSet)
