"""What the framework's controllers may do on a hub, and nothing else.

Roles that addons ask for are bound only by somebody who holds them: the API server sees to that. An administrator lets the addon
manager bind a role by labelling a ClusterRole with the same rules `open-cluster-management.io/aggregate-to-addon-manager: "true"`:
the aggregated role, to which the manager is bound, then has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.install import RBAC_GROUP, READ, binding, named, rule

AGGREGATION_LABEL: Final = "open-cluster-management.io/aggregate-to-addon-manager"

RULES: Final[tuple[Document, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters"], READ),
    rule(ADDON_GROUP, ["managedclusteraddons"], [*READ, "patch"]),
    rule(ADDON_GROUP, ["managedclusteraddons/status"], ["patch"]),
    # Where the server asks whoever names an owner that blocks deletion for this right.
    rule(ADDON_GROUP, ["managedclusteraddons/finalizers"], ["update"]),
    rule(WORK_GROUP, ["manifestworks"], [*READ, "create", "patch", "delete"]),
    rule(RBAC_GROUP, ["rolebindings"], [*READ, "create", "patch", "delete"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
)


def aggregated_role(manager: str) -> str:
    """The role of what administrators let the ClusterManager `manager`'s addon manager hold."""
    return f"open-cluster-management:{manager}-addon-manager:aggregated"


def aggregation(manager: str, subject: Mapping[str, str]) -> list[tuple[GVR, Document]]:
    """The aggregated role and who is bound to it. Its rules are the server's to fill in."""
    name = aggregated_role(manager)
    selectors = [{"matchLabels": {AGGREGATION_LABEL: "true"}}]
    role = {"metadata": named(name), "aggregationRule": {"clusterRoleSelectors": selectors}}
    return [(CLUSTER_ROLES, role), (CLUSTER_ROLE_BINDINGS, binding(name, "ClusterRole", name, subject))]
