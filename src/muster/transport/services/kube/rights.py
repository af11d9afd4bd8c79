"""The permissions that the services' account needs on the hub: the deployment puts them into a ClusterRole.

The permission to accept clusters is not included: an attacker who controls a server that all agents can reach cannot accept any
cluster. On a hub with webhooks an agent therefore cannot withdraw its own acceptance over this transport either; an administrator
can.
"""

from __future__ import annotations

from typing import Final

from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.machinery.objects import Object
from muster.runtime.install import READ, rule

SERVICE_RULES: Final[tuple[Object, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters"], [*READ, "create", "update"]),
    rule(CLUSTER_GROUP, ["managedclusters/status"], ["update"]),
    # The webhooks check whether our account may put a cluster into a set, after the agent's own permission was checked here.
    rule(CLUSTER_GROUP, ["managedclustersets/join"], ["create"]),
    rule("certificates.k8s.io", ["certificatesigningrequests"], [*READ, "create"]),
    rule("coordination.k8s.io", ["leases"], [*READ, "update"]),
    rule(ADDON_GROUP, ["managedclusteraddons"], READ),
    rule(ADDON_GROUP, ["managedclusteraddons/status"], ["update"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
    rule("", ["serviceaccounts/token"], ["create"]),
    rule(WORK_GROUP, ["manifestworks"], [*READ, "patch"]),
    rule(WORK_GROUP, ["manifestworks/status"], ["update"]),
)
