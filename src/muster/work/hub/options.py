"""The options of the hub's side of works, with the defaults of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from muster.registration.names import HUB_NAMESPACE

NIL_EXECUTOR_VALIDATING: Final = "NilExecutorValidating"
MANIFEST_WORK_REPLICA_SET: Final = "ManifestWorkReplicaSet"
CLEAN_UP_COMPLETED: Final = "CleanUpCompletedManifestWork"
BY_BINDING: Final = "ExecutorByBinding"
BY_BINDING_ONLY: Final = "ExecutorByBindingOnly"
GATES: Final = (NIL_EXECUTOR_VALIDATING, MANIFEST_WORK_REPLICA_SET, CLEAN_UP_COMPLETED, BY_BINDING, BY_BINDING_ONLY)
"""Those about bindings are ours: a ClusterManager can set feature gates, but no flags."""
UNSUPPORTED_GATES: Final = ("CloudEventsDrivers",)
"""Feature gates of upstream's hub that can only be disabled here."""

REPLICA_SET_CONTROLLER: Final = "manifest-work-replica-sets"
FINISHED_WORK_CONTROLLER: Final = "finished-works"
BINDING_CONTROLLER: Final = "service-account-bindings"
"""The controllers, by name."""

MANIFEST_LIMIT: Final = 512_000
"""Maximum bytes of all manifests of a work."""
ADDON_NAMESPACE: Final = "open-cluster-management-agent-addon"
"""The default namespace of managed service accounts on a managed cluster."""


class ExecutorAuthorization(Enum):
    """How users are authorized to write works that run as an executor."""

    ACCESS_REVIEW = "access-review"
    """By the verb execute-as, granted by RBAC or any other authorizer of the hub."""
    BINDINGS = "bindings"
    """By a ManagedServiceAccountBinding."""
    EITHER = "either"

    @property
    def by_bindings(self) -> bool:
        return self is not ExecutorAuthorization.ACCESS_REVIEW


def authorization(gates: Mapping[str, bool], otherwise: ExecutorAuthorization) -> ExecutorAuthorization:
    """The authorization that feature gates select."""
    if gates.get(BY_BINDING_ONLY):
        return ExecutorAuthorization.BINDINGS
    return ExecutorAuthorization.EITHER if gates.get(BY_BINDING) else otherwise


@dataclass(frozen=True)
class WorkHubOptions:
    namespace: str = HUB_NAMESPACE
    """The namespace of the hub's Lease and serving certificate."""
    nil_executor_validating: bool = False
    """Whether a work without executor counts as running as the agents' own account."""
    replica_sets: bool = False
    clean_up_completed: bool = False
    authorization: ExecutorAuthorization = ExecutorAuthorization.ACCESS_REVIEW
    manifest_limit: int = MANIFEST_LIMIT
    addon_namespace: str = ADDON_NAMESPACE
    workers: int = 16

    @property
    def disabled_controllers(self) -> frozenset[str]:
        """The names of controllers that are not made."""
        on = {
            REPLICA_SET_CONTROLLER: self.replica_sets,
            FINISHED_WORK_CONTROLLER: self.clean_up_completed,
            BINDING_CONTROLLER: self.authorization.by_bindings,
        }
        return frozenset(name for name, is_on in on.items() if not is_on)
