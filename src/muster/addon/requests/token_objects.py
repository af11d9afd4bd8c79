"""The objects that an addon's agent needs on the hub for a token instead of a certificate, as documents.

The token is that of a service account in the cluster's namespace. The registration agents of that cluster may create tokens of this
account only. Names, labels and the condition's message are OCM's: agents parse the account's uid from the message.
"""

from __future__ import annotations

from typing import Final

from muster.api import Condition
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import NAME_LABEL, TOKEN_DRIVER, TOKEN_INFRASTRUCTURE_LABEL, drivers_in_use, token_account
from muster.api.agents import cluster_group, external_group
from muster.machinery.objects import GVR, Object
from muster.registration.hub.clusters.rbac import DesiredObject
from muster.registration.names import CLIENT_SIGNER
from muster.runtime.client.builtin import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from muster.runtime.install import RBAC_GROUP, rule

READY: Final = "TokenInfrastructureReady"
FAILED: Final = "TokenInfrastructureApplyFailed"
KINDS: Final[tuple[GVR, ...]] = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
SELECTOR: Final = f"{TOKEN_INFRASTRUCTURE_LABEL}=true"


def wants_token(addon: ManagedClusterAddOn) -> bool:
    """Whether the addon's agent on this cluster uses a token for the hub's API, as it reports itself."""
    registered = any(registration.signer_name == CLIENT_SIGNER for registration in addon.status.registrations)
    return registered and TOKEN_DRIVER in drivers_in_use(addon.status)


def token_role(addon: str) -> str:
    """The name of the role that lets agents create the token, and of its binding."""
    return f"{addon}-token-role"


def token_objects(cluster: str, addon: str) -> tuple[DesiredObject, DesiredObject, DesiredObject]:
    """Account, role and binding."""

    def metadata(name: str) -> Object:
        return {"name": name, "namespace": cluster, "labels": {NAME_LABEL: addon, TOKEN_INFRASTRUCTURE_LABEL: "true"}}

    role = token_role(addon)
    rules = [
        rule("", ["serviceaccounts/token"], ["create"], [token_account(addon)]),
        # For agents that connect over gRPC.
        rule("", ["serviceaccounts/token"], ["subscribe"]),
    ]
    subjects = [
        {"kind": "Group", "apiGroup": RBAC_GROUP, "name": group} for group in (cluster_group(cluster), external_group(cluster))
    ]
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": role}
    return (
        DesiredObject(SERVICE_ACCOUNTS, {"metadata": metadata(token_account(addon))}),
        DesiredObject(ROLES, {"metadata": metadata(role), "rules": rules}),
        DesiredObject(ROLE_BINDINGS, {"metadata": metadata(role), "roleRef": reference, "subjects": subjects}),
    )


def ready(cluster: str, addon: str, uid: str) -> Condition:
    text = f"ServiceAccount {cluster}/{token_account(addon)} (UID: {uid}) is ready"
    return Condition(type=READY, status="True", reason=READY, message=text)


def failed(problem: str) -> Condition:
    return Condition(type=READY, status="False", reason=FAILED, message=f"Failed to apply token infrastructure: {problem}")
