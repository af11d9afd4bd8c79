"""The permissions of the framework's controllers on a hub.

By RBAC's escalation check, roles that addons request can only be bound by an account that has their permissions. An administrator
lets the addon manager bind a role by labelling a ClusterRole with the same rules
`open-cluster-management.io/aggregate-to-addon-manager: "true"`: they become part of the aggregated role, to which the manager is
bound.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.runtime.install import RBAC_GROUP, READ, rule

AGGREGATED_ROLE: Final = "open-cluster-management:addon-manager:aggregated"
AGGREGATION_RULES: Final[tuple[Document, ...]] = (rule(RBAC_GROUP, ["clusterroles"], READ, [AGGREGATED_ROLE]),)
"""To watch the roles that administrators permit. Processes of other addons have permissions of their own."""
RULES: Final[tuple[Document, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters"], READ),
    rule(ADDON_GROUP, ["clustermanagementaddons"], READ),
    rule(ADDON_GROUP, ["managedclusteraddons"], [*READ, "patch"]),
    rule(ADDON_GROUP, ["managedclusteraddons/status"], ["patch"]),
    # Required by OwnerReferencesPermissionEnforcement for blockOwnerDeletion.
    rule(ADDON_GROUP, ["managedclusteraddons/finalizers"], ["update"]),
    rule(WORK_GROUP, ["manifestworks"], [*READ, "create", "patch", "delete"]),
    rule(RBAC_GROUP, ["rolebindings"], [*READ, "create", "patch", "delete"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
)
