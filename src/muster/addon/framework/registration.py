"""The registrations in an addon's status, which the registration agent uses: credentials, identities, and the namespace.

Identities follow from names alone. Of the status, which agents write, only one field is used: the driver of this cluster's kube
client, which selects one of two identities that both belong to the agent.
"""

from __future__ import annotations

from typing import Final

from muster.addon.agent_addon import Agent, CustomSigner, Registration
from muster.addon.framework.status_draft import REGISTRATION_APPLIED, StatusDraft
from muster.api.addon.conversion import KUBE_CLIENT_SIGNER
from muster.api.addon.v1alpha1 import (
    DEFAULT_NAMESPACE,
    ManagedClusterAddOn,
    RegistrationConfig,
    Subject,
)
from muster.api.addons import TOKEN_DRIVER, token_user

_APPLIED: Final = "Registration of the addon agent is configured"


def register(draft: StatusDraft, addon: ManagedClusterAddOn, agent: Agent, refused: str) -> None:
    """`refused` is why its permissions could not be granted, if so."""
    cluster, name = addon.metadata.namespace, addon.metadata.name
    driver = draft.status.kube_client_driver
    draft.put(
        registrations=tuple(registration_config(registration, cluster, name, driver) for registration in agent.registrations),
        namespace=install_namespace(addon, agent),
    )
    if refused:
        draft.set(REGISTRATION_APPLIED, False, "SetPermissionFailed", f"Failed to set permission for hub agent: {refused}")
    else:
        draft.set(REGISTRATION_APPLIED, True, "SetPermissionApplied" if agent.registrations else "NilRegistration", _APPLIED)


def install_namespace(addon: ManagedClusterAddOn, agent: Agent) -> str:
    return agent.namespace or addon.spec.install_namespace or DEFAULT_NAMESPACE


def registration_config(registration: Registration, cluster: str, addon: str, driver: str) -> RegistrationConfig:
    if isinstance(registration, CustomSigner):
        units = registration.organization_units
        subject = Subject(user=registration.user, groups=registration.groups, organization_unit=units)
        return RegistrationConfig(signer_name=registration.signer, subject=subject)
    if driver == TOKEN_DRIVER:
        return RegistrationConfig(signer_name=KUBE_CLIENT_SIGNER, subject=Subject(user=token_user(cluster, addon)))
    identity = registration.identity(cluster, addon)
    return RegistrationConfig(signer_name=KUBE_CLIENT_SIGNER, subject=Subject(user=identity.user, groups=identity.groups))
