"""Which credentials an addon should have on this cluster: a pure function of its ManagedClusterAddOn and the agent's configuration.

Each registration of the status becomes a `WantedCredential`: the Secret's name and namespace, a client certificate or a token, and
further entries. A registration that cannot be fulfilled becomes `Blocked`, with a remedy; the others are not affected. The status
is written by the addon's manager, so it is validated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final

import orjson

from muster.api import condition_of, is_true
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ManagedClusterAddOn, RegistrationConfig
from muster.api.addons import (
    ADDON_LABEL,
    CLUSTER_NAME_ENTRY,
    HOSTING_CLUSTER_ANNOTATION,
    AddonIdentity,
    cluster_addon_group,
    dns_name,
    hub_kubeconfig_secret,
    request_prefix,
    signer_secret,
    token_account,
    token_user,
)
from muster.api.resource import Document
from muster.kube.names import dns1123_subdomain
from muster.registration.drivers.certificates.agents import LONGEST_PREFIX
from muster.registration.drivers.certificates.profile import CERTIFICATE, KEY, CertificateProfile
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.flags import CSR, TOKEN
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, hub_kubeconfig
from muster.registration.names import CLIENT_SIGNER, CLUSTER_LABEL

TOKEN_ENTRY: Final = "token"
TOKEN_READY: Final = "TokenInfrastructureReady"
REGISTRATION_APPLIED: Final = "RegistrationApplied"
LONGEST_NAME: Final = 63
"""Of an addon: its requests and Secrets are found by a label of that value."""
_ACCOUNT_UID: Final = re.compile(r"\(UID: ([^\s()]+)\)")
_USERS: Final[Mapping[str, Document]] = {
    CSR: {"client-certificate": CERTIFICATE, "client-key": KEY},
    TOKEN: {"tokenFile": TOKEN_ENTRY},
}


@dataclass(frozen=True)
class Situation:
    """What the agent knows."""

    cluster: str
    driver: str = CSR
    """By which addons' agents prove themselves to the hub's API server."""
    api: HubAddress | None = None
    """The hub's API server; None if the agent has no address of it for addons."""
    certificate_seconds: int = 0


@dataclass(frozen=True)
class AgentLocation:
    namespace: str
    hosted: bool
    """Whether it is on the cluster that the agent runs on, if that is another than the managed one."""


@dataclass(frozen=True)
class WantedCredential:
    addon: str
    secret: str
    location: AgentLocation
    entries: Mapping[str, bytes]
    """What stands in the Secret beside certificate or token."""
    profile: CertificateProfile | None = None
    """None where a token is wanted."""
    account: str = ""
    account_uid: str = ""
    """The service account on the hub that a token is of; no uid while it is not known to be there."""

    @property
    def driver(self) -> str:
        return TOKEN if self.profile is None else CSR

    @cached_property
    def digest(self) -> str:
        """Of all that a stored credential must agree with: another one means that it was got for something else."""
        profile = self.profile
        parts = [self.account, self.account_uid] if profile is None else _certified(profile)
        return sha256(orjson.dumps([self.driver, parts, _text(self.entries)])).hexdigest()[:32]


def _certified(profile: CertificateProfile) -> list[object]:
    return [profile.signer, profile.common_name, sorted(profile.organizations), profile.units, profile.hosts]


def _text(entries: Mapping[str, bytes]) -> list[tuple[str, str]]:
    return sorted((name, value.decode(errors="replace")) for name, value in entries.items())


@dataclass(frozen=True)
class Blocked:
    """A registration that cannot be fulfilled until somebody acts."""

    driver: str
    secret: str
    problem: str


@dataclass(frozen=True)
class Registrations:
    wanted: tuple[WantedCredential, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    settled: bool = True
    """Whether this is all: what is not among it is to go."""
    awaited: tuple[str, ...] = ()
    """Drivers of registrations of which the hub has not said yet as whom they are."""


NONE: Final = Registrations()


@dataclass
class _Found:
    wanted: list[WantedCredential] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)


def location_of(addon: ManagedClusterAddOn) -> AgentLocation:
    namespace = addon.status.namespace or addon.spec.install_namespace or DEFAULT_NAMESPACE
    return AgentLocation(namespace, HOSTING_CLUSTER_ANNOTATION in addon.metadata.annotations)


def has_kube_client(addon: ManagedClusterAddOn) -> bool:
    return any(registration.signer_name == CLIENT_SIGNER for registration in addon.status.registrations)


def registrations_of(addon: ManagedClusterAddOn, situation: Situation) -> Registrations:
    name, found = addon.metadata.name, _Found()
    known: set[str] = set()
    for registration in addon.status.registrations:
        secret = secret_name(name, registration)
        if secret not in known:
            known.add(secret)
            _add(found, addon, registration, secret, situation)
    # A status that was not written yet, or of which a part could not be read, is no word of what is wanted no longer.
    reported = bool(addon.status.registrations) or is_true(addon.status.conditions, REGISTRATION_APPLIED)
    settled = reported and not addon.unread and not found.awaited
    return Registrations(tuple(found.wanted), tuple(found.blocked), settled, tuple(found.awaited))


def secret_name(addon: str, registration: RegistrationConfig) -> str:
    signer = registration.signer_name
    return hub_kubeconfig_secret(addon) if signer == CLIENT_SIGNER else signer_secret(addon, signer)


def _add(found: _Found, addon: ManagedClusterAddOn, registration: RegistrationConfig, secret: str, situation: Situation) -> None:
    kube_client = registration.signer_name == CLIENT_SIGNER
    driver = situation.driver if kube_client else CSR
    problem = _problem(addon.metadata.name, secret, situation, kube_client)
    if problem:
        found.blocked.append(Blocked(driver, secret, problem))
        return
    if kube_client and driver == CSR and registration.subject.user == token_user(situation.cluster, addon.metadata.name):
        # From the time when it came by tokens: who it is by a certificate follows, and its rights with it.
        found.awaited.append(driver)
        return
    name, cluster = addon.metadata.name, situation.cluster
    entries = {CLUSTER_NAME_ENTRY: cluster.encode()}
    if kube_client and situation.api is not None:
        entries[KUBECONFIGS.key] = hub_kubeconfig(situation.api, _USERS[driver])
    if driver == TOKEN:
        account = token_account(name)
        found.wanted.append(
            WantedCredential(name, secret, location_of(addon), entries, account=account, account_uid=account_uid(addon))
        )
    else:
        profile = addon_profile(cluster, name, registration, situation.certificate_seconds)
        found.wanted.append(WantedCredential(name, secret, location_of(addon), entries, profile))


def _problem(addon: str, secret: str, situation: Situation, kube_client: bool) -> str:
    if len(addon) > LONGEST_NAME:
        return f"the addon's name is longer than {LONGEST_NAME} characters, which requests on the hub cannot be labelled with"
    if problems := dns1123_subdomain(secret):
        return f"no Secret can be called {secret!r}, as the registration would have it: {problems[0]}"
    if kube_client and situation.api is None:
        return (
            "the agent reaches its hub over gRPC alone and knows no address of the hub's API server, which the addon's kubeconfig "
            f"needs: join the cluster again with --bootstrap-kubeconfig, or put a key {KUBECONFIGS.key!r} into the bootstrap Secret"
        )
    return ""


def addon_profile(cluster: str, addon: str, registration: RegistrationConfig, expiration: int = 0) -> CertificateProfile:
    """The certificate that a registration asks for."""
    subject, kube_client = registration.subject, registration.signer_name == CLIENT_SIGNER
    groups = frozenset(subject.groups)
    return CertificateProfile(
        subject.user or AddonIdentity(cluster, addon, addon).user,
        groups or frozenset({cluster_addon_group(cluster, addon)} if kube_client else ()),
        request_prefix(cluster, addon)[:LONGEST_PREFIX],
        f"{CLUSTER_LABEL}={cluster},{ADDON_LABEL}={addon}",
        {CLUSTER_LABEL: cluster, ADDON_LABEL: addon},
        units=subject.organization_unit,
        hosts=(dns_name(addon),),
        signer=registration.signer_name,
        expiration=expiration,
    )


def account_uid(addon: ManagedClusterAddOn) -> str:
    """The uid of the service account for the addon's tokens, as the hub reports it; empty while there is none."""
    ready = condition_of(addon.status.conditions, TOKEN_READY)
    if ready is None or ready.status != "True":
        return ""
    found = _ACCOUNT_UID.search(ready.message)
    return found[1] if found else ""
