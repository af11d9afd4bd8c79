"""What the framework's controllers may do on a hub, and nothing else.

Roles that addons ask for are bound only by somebody who holds them: the API server sees to that. An administrator lets the addon
manager bind a role by labelling a ClusterRole with the same rules `open-cluster-management.io/aggregate-to-addon-manager: "true"`:
the aggregated role, to which the manager is bound, then has them.
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
"""To hear that an administrator lets the addon manager bind other roles. Processes of other addons have rights of their own."""
RULES: Final[tuple[Document, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters"], READ),
    rule(ADDON_GROUP, ["clustermanagementaddons"], READ),
    rule(ADDON_GROUP, ["managedclusteraddons"], [*READ, "patch"]),
    rule(ADDON_GROUP, ["managedclusteraddons/status"], ["patch"]),
    # Where the server asks whoever names an owner that blocks deletion for this right.
    rule(ADDON_GROUP, ["managedclusteraddons/finalizers"], ["update"]),
    rule(WORK_GROUP, ["manifestworks"], [*READ, "create", "patch", "delete"]),
    rule(RBAC_GROUP, ["rolebindings"], [*READ, "create", "patch", "delete"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
)
