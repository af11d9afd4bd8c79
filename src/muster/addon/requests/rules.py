"""The permissions of the controllers of addons' credentials on the hub, and how administrators extend them.

By itself the manager approves for one signer, Kubernetes' for API clients, and signs for none. A template with its own signer works
once an administrator has created a ClusterRole with the aggregation label and the verbs `approve` and `sign` on that signer by its
name; reading the signing CA needs a Role in the Secret's namespace, or that ClusterRole.

By RBAC's escalation check, the manager needs the permissions that it grants: it may create tokens of any account because it creates
roles for agents with the token driver, each for one account.
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
