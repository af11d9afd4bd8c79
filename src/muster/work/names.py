"""Names shared by hub and agent: finalizers, labels, conditions, reasons. All are OCM's except where noted."""

from __future__ import annotations

from typing import Final

from muster.api.agents import WORK_FINALIZER as WORK_FINALIZER

APPLIED_FINALIZER: Final = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"
REPLICA_SET_FINALIZER: Final = "work.open-cluster-management.io/manifest-work-cleanup"
REPLICA_SET_LABEL: Final = "work.open-cluster-management.io/manifestworkreplicaset"
"""The label of works of a ManifestWorkReplicaSet: its `<namespace>.<name>`."""
PLACEMENT_NAME_LABEL: Final = "work.open-cluster-management.io/placementname"
CONFIG_HASH: Final = "open-cluster-management.io/config-spec-hash"
"""The annotation with the hash of what was last applied if fields are ignored."""

APPLIED: Final = "Applied"
AVAILABLE: Final = "Available"
DELETING: Final = "Deleting"
COMPLETE: Final = "Complete"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"
FEEDBACK_SYNCED: Final = "StatusFeedbackSynced"

AGENT: Final = "work-agent"
"""User agent and field manager."""
DEFAULT_SERVICE_ACCOUNT: Final = "klusterlet-work-sa"
EXECUTE_AS: Final = "execute-as"
FAILED_TO_APPLY: Final = "Failed to apply manifest: "
"""The prefix of the message about a manifest that could not be applied."""
WITHHELD: Final = "AppliedManifestWithheld"
"""The reason of Applied for a manifest that only waits for another one of its work (ours)."""

RAW_FEEDBACK: Final = "RawFeedbackJsonString"
PER_MANIFEST: Final = "ExecutorPerManifest"
ALL_REVIEWS: Final = "ExecutorReviewsAlways"
ALL_VERBS: Final = "ExecutorVerbsAll"
AGENT_GATES: Final = (RAW_FEEDBACK, "ExecutorValidatingCaches", PER_MANIFEST, ALL_REVIEWS, ALL_VERBS)
"""Feature gates of the agent. Those about executors, except the caches, are ours: a Klusterlet can set feature gates, but no
flags.
"""
