"""What an account needs on the hub to stand behind the services: whoever deploys a server puts it into a ClusterRole.

The right to accept clusters is not among them: whoever breaks into a server that all agents can reach gets nobody in. Where the hub
has its webhooks an agent therefore cannot take back its own acceptance over this transport either; an administrator can.
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
    # The webhooks ask whether our account may put a cluster into a set, after the agent was asked here.
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
