"""The installation of the placement controller on a hub: CRDs, an account and its role.

`install` applies all of it with one field manager and can be repeated at any time. It needs an administrator's permissions; the
controller then runs as `placement-controller-sa`, which may read the inputs of scheduling and write its results.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.api.cluster.v1 import GROUP
from muster.api.crds import HUB, definitions
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.placement.hub.options import PlacementOptions
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CRDS
from muster.runtime.install import READ, account_permissions, apply_all, await_definitions, ensure_namespace, rule

MANAGER: Final = "muster-placement-install"
ACCOUNT: Final = "placement-controller-sa"
LOCK: Final = "placement-lock"
"""The Lease of the controller's leader election."""

_CHOSEN_FROM: Final = (
    "managedclusters",
    "managedclustersets",
    "managedclustersetbindings",
    "addonplacementscores",
    "placements",
)
_SERVED: Final = (*_CHOSEN_FROM, "placementdecisions")
KINDS: Final = tuple(kind for kind in HUB if kind.resource.plural in _SERVED)
RULES: Final[tuple[Document, ...]] = (
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "update"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
    rule(GROUP, _CHOSEN_FROM, READ),
    rule(GROUP, ["placementdecisions"], [*READ, "create", "update", "patch", "delete"]),
    rule(GROUP, ["placements/status", "placementdecisions/status"], ["update", "patch"]),
    # Required by OwnerReferencesPermissionEnforcement for blockOwnerDeletion.
    rule(GROUP, ["placements/finalizers"], ["update"]),
    # To authenticate and authorize callers of the debug service.
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
)


def role(manager: str) -> str:
    """The role of the ClusterManager `manager`'s placement controller."""
    return f"open-cluster-management:{manager}-placement:controller"


def permissions(options: PlacementOptions, manager: str = "cluster-manager") -> list[tuple[GVR, Document]]:
    return account_permissions(ACCOUNT, options.namespace, role(manager), RULES)


async def install(client: KubeClient, options: PlacementOptions, *, clock: Clock = SYSTEM) -> None:
    """Apply everything, and wait until the CRDs are served. Raises InstallError and the errors of the client."""
    await ensure_namespace(client, options.namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(KINDS)], MANAGER)
    await apply_all(client, permissions(options), MANAGER)
    await await_definitions(client, [kind.name for kind in KINDS], clock)
