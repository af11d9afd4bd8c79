"""The permissions of the addon manager on a hub, besides those of the framework: to read the inputs of plans, and to write the
metadata of ManagedClusterAddOns and the status of ClusterManagementAddOns.

An administrator must grant read access to other kinds of configurations; until then they count as missing.
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
    # Required by OwnerReferencesPermissionEnforcement for blockOwnerDeletion.
    rule(GROUP, ["clustermanagementaddons/finalizers"], ["update"]),
    rule(GROUP, ["managedclusteraddons"], [*READ, "create", "patch", "delete"]),
    rule("", ["configmaps"], READ),
    # To notice CRDs of configurations that come and go.
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    rule("apiregistration.k8s.io", ["apiservices"], READ),
)
