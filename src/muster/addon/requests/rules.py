"""What the controllers of addons' credentials need on the hub, and how administrators let them do more.

By itself the manager approves for one signer, Kubernetes' for clients of the API, and signs for none. A template that brings a
signer of its own is served once an administrator has written a ClusterRole with the aggregation label that has the verbs `approve`
and `sign` on that signer by its name; reading the signing authority takes a Role in the Secret's namespace, or that ClusterRole.

Whoever writes a role has to hold what is in it: that the manager may create any account's token follows from the roles it makes
for agents with the token driver, of which each names one account.
"""

from __future__ import annotations

from typing import Final

from muster.api.addon.v1alpha1 import GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.registration.names import CLIENT_SIGNER
from muster.runtime.install import RBAC_GROUP, READ, rule

APPROVAL_RULES: Final = (
    rule("certificates.k8s.io", ["certificatesigningrequests"], READ),
    rule("certificates.k8s.io", ["certificatesigningrequests/approval", "certificatesigningrequests/status"], ["update"]),
    rule("certificates.k8s.io", ["signers"], ["approve"], [CLIENT_SIGNER]),
    rule(CLUSTER_GROUP, ["managedclusters"], READ),
    rule(GROUP, ["managedclusteraddons", "clustermanagementaddons"], READ),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
)
TOKEN_RULES: Final = (
    rule("", ["serviceaccounts"], [*READ, "create", "patch", "delete"]),
    rule("", ["serviceaccounts/token"], ["create", "subscribe"]),
    rule(RBAC_GROUP, ["roles", "rolebindings"], [*READ, "create", "patch", "delete"]),
    rule(GROUP, ["managedclusteraddons"], READ),
    rule(GROUP, ["managedclusteraddons/status"], ["patch"]),
)
TEMPLATE_RULES: Final = (rule(GROUP, ["addontemplates", "addondeploymentconfigs"], READ),)
"""To render template addons."""
RULES: Final = (*APPROVAL_RULES, *TOKEN_RULES, *TEMPLATE_RULES)
