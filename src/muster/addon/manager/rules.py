"""What the addon manager may do on a hub, beside what the framework needs: read what it plans from, and write the metadata of
ManagedClusterAddOns and the status of ClusterManagementAddOns.

Configurations of other kinds than these an administrator lets the manager's account read; until then they count as missing.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.runtime.install import READ, rule

RULES: Final[tuple[Document, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters", "placements", "placementdecisions"], READ),
    rule(GROUP, ["clustermanagementaddons", "addontemplates", "addondeploymentconfigs"], READ),
    rule(GROUP, ["clustermanagementaddons/status"], ["patch"]),
    # Where the server asks whoever names an owner that blocks deletion for this right.
    rule(GROUP, ["clustermanagementaddons/finalizers"], ["update"]),
    rule(GROUP, ["managedclusteraddons"], [*READ, "create", "patch", "delete"]),
    rule("", ["configmaps"], READ),
    # To hear of kinds of configurations that come and go.
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    rule("apiregistration.k8s.io", ["apiservices"], READ),
)
