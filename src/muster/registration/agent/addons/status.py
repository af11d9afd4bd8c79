"""The agent's part of an addon's status, for one write: a pure function.

Conditions: the state of its credentials and, for health by lease, Available. If an addon has several credentials, one failure
decides. The driver of addons' client credentials is set once; for tokens also the user name, since OCM's hubs take it from here.
The rest of the status is kept.

While one driver replaces another, the hub grants permissions to both identities, and sees by the conditions when that ends
(`drivers_in_use`). So old conditions of the new driver are removed when it is set, and those of the old driver when the new
credential exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from muster.api import Condition, with_condition
from muster.api.addon.v1alpha1 import ManagedClusterAddOn, RegistrationConfig, Subject
from muster.api.addons import CREDENTIAL_CONDITIONS, token_user
from muster.registration.agent.addons.registrations import has_kube_client
from muster.registration.drivers.flags import TOKEN
from muster.registration.names import CLIENT_SIGNER


@dataclass(frozen=True)
class AddonFacts:
    driver: str
    credentials: tuple[Condition, ...] = ()
    """Of each credential of which something is known."""
    available: Condition | None = None
    """None if this agent does not report it."""


def reported(addon: ManagedClusterAddOn, facts: AddonFacts, now: str) -> ManagedClusterAddOn:
    status = addon.status
    conditions = status.conditions
    speaks = has_kube_client(addon)
    if speaks and status.kube_client_driver != facts.driver:
        conditions = _without(conditions, CREDENTIAL_CONDITIONS[facts.driver])
    for condition in (*worst(facts.credentials), *([facts.available] if facts.available else [])):
        conditions = with_condition(conditions, condition, now)
    if speaks:
        conditions = _settled(conditions, facts)
    status = msgspec.structs.replace(status, conditions=conditions)
    if speaks and status.kube_client_driver != facts.driver:
        kept = status.registrations
        if facts.driver == TOKEN:
            kept = tuple(_by_token(addon, one) for one in kept)
        status = msgspec.structs.replace(status, kube_client_driver=facts.driver, registrations=kept)
    return msgspec.structs.replace(addon, status=status)


def _settled(conditions: tuple[Condition, ...], facts: AddonFacts) -> tuple[Condition, ...]:
    """Without what another driver said, once the credential of this one is there; certificates of custom signers have their say."""
    others = set(CREDENTIAL_CONDITIONS.values()) - {
        CREDENTIAL_CONDITIONS[facts.driver],
        *(credential.type for credential in facts.credentials),
    }
    if not any(condition.type == CREDENTIAL_CONDITIONS[facts.driver] and condition.status == "True" for condition in conditions):
        return conditions
    return _without(conditions, *others)


def _without(conditions: tuple[Condition, ...], *types: str) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type not in types)


def worst(conditions: Iterable[Condition]) -> list[Condition]:
    """One of each type: the first that is not True, else the first."""
    chosen: dict[str, Condition] = {}
    for condition in conditions:
        known = chosen.get(condition.type)
        if known is None or (known.status == "True" and condition.status != "True"):
            chosen[condition.type] = condition
    return list(chosen.values())


def _by_token(addon: ManagedClusterAddOn, registration: RegistrationConfig) -> RegistrationConfig:
    if registration.signer_name != CLIENT_SIGNER:
        return registration
    user = token_user(addon.metadata.namespace, addon.metadata.name)
    return msgspec.structs.replace(registration, subject=Subject(user=user))
