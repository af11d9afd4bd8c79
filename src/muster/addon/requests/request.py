"""Parsing and validation of an addon's signing request, without requests to a server.

Labels are set by any client; they only select the registrations to compare with. A request is an addon's only if its requestor is
an agent of the cluster in its label, and if it has exactly the content of a registration of the addon there: the subject, the
signer, the single alternative name, client usages and no further extensions. The requestor is the one that the API server recorded,
or for requests of the hub's gRPC server, the one in its annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from muster.addon.agent_addon import CustomSigner, KubeClient, Registration, signer_problem
from muster.api.addons import ADDON_LABEL, dns_name
from muster.api.agents import CLUSTER_LABEL, cluster_group, external_group, is_cluster_name, parse_common_name
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.registration.drivers.certificates.profile import CLIENT_USAGES
from muster.registration.drivers.certificates.requests import UnreadableRequest, signing_request_of
from muster.registration.drivers.grpc.requests import requester_of
from muster.registration.names import CLIENT_SIGNER

NAME_PREFIX: Final = "addon-"
"""The prefix of names of addons' requests."""


class NotAnAddonsRequest(ValueError):
    """A request that an addon's agent would not make; `field` is the invalid field. Its text quotes nothing of the request."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class AddonRequest:
    """A certificate request of an addon's agent."""

    cluster: str
    addon: str
    signer: str
    requester: UserInfo
    """The proven requestor; without a name if there is none."""
    content: x509.CertificateSigningRequest


@dataclass(frozen=True)
class _Subject:
    """The subject of a certificate; lists are sorted."""

    user: str
    organizations: tuple[str, ...]
    units: tuple[str, ...] = ()


def read_request(csr: Mapping[str, Any], accounts: frozenset[str] = frozenset()) -> AddonRequest:
    """The content of the request, for any addon. `accounts` are those of the hub's gRPC servers. Raises NotAnAddonsRequest."""
    metadata, spec = csr.get("metadata") or {}, csr.get("spec") or {}
    labels = metadata.get("labels") or {}
    cluster, addon = str(labels.get(CLUSTER_LABEL) or ""), str(labels.get(ADDON_LABEL) or "")
    if not is_cluster_name(cluster):
        raise NotAnAddonsRequest(f"metadata.labels[{CLUSTER_LABEL}]", "names no cluster")
    if not addon:
        raise NotAnAddonsRequest(f"metadata.labels[{ADDON_LABEL}]", "names no addon")
    if not str(metadata.get("name") or "").startswith(NAME_PREFIX):
        raise NotAnAddonsRequest("metadata.name", f"expected {NAME_PREFIX}…")
    if sorted(spec.get("usages") or ()) != sorted(CLIENT_USAGES):
        raise NotAnAddonsRequest("spec.usages", f"expected {', '.join(CLIENT_USAGES)} and nothing else")
    try:
        content = signing_request_of(spec)
    except UnreadableRequest:
        raise NotAnAddonsRequest("spec.request", "cannot be read, or is not signed by its key") from None
    _check_extensions(content, dns_name(addon))
    recorded = UserInfo.decode(spec)
    requester = requester_of(csr, accounts) if recorded.name in accounts else recorded
    return AddonRequest(cluster, addon, str(spec.get("signerName") or ""), requester, content)


def check_requester(request: AddonRequest) -> None:
    """Check that the requestor is an agent of the cluster itself. Raises NotAnAddonsRequest."""
    if not _is_agent_of(request.requester, request.cluster):
        raise NotAnAddonsRequest("spec.username", f"is no agent of cluster {request.cluster!r}")


def registration_for(request: AddonRequest, registrations: Iterable[Registration]) -> Registration:
    """The registration that matches the request exactly. Raises NotAnAddonsRequest."""
    subject = _subject_of(request.content)
    mine = [one for one in registrations if _signer_of(one) == request.signer]
    if not mine:
        raise NotAnAddonsRequest("spec.signerName", "is not one that the addon is registered with")
    for registration in mine:
        if subject in _subjects_of(registration, request.cluster, request.addon):
            return registration
    raise NotAnAddonsRequest("spec.request", "its subject is not the one that the addon has on this cluster")


def _signer_of(registration: Registration) -> str:
    """Empty for signers that addons may not have, which no request has."""
    if isinstance(registration, KubeClient):
        return CLIENT_SIGNER
    return "" if signer_problem(registration.signer) else registration.signer


def _subjects_of(registration: Registration, cluster: str, addon: str) -> tuple[_Subject, ...]:
    match registration:
        case KubeClient():
            identity = registration.identity(cluster, addon)
            exact = tuple(sorted(identity.groups))
            # All authenticated users are in that group anyway, and older agents include it.
            return (_Subject(identity.user, exact), _Subject(identity.user, tuple(sorted((*exact, AUTHENTICATED)))))
        case CustomSigner():
            user = registration.user or KubeClient().identity(cluster, addon).user
            return (_Subject(user, tuple(sorted(registration.groups)), tuple(sorted(registration.organization_units))),)


def _subject_of(content: x509.CertificateSigningRequest) -> _Subject:
    def values(kind: ObjectIdentifier) -> tuple[str, ...]:
        return tuple(sorted(str(attribute.value) for attribute in content.subject.get_attributes_for_oid(kind)))

    names = values(NameOID.COMMON_NAME)
    organizations, units = values(NameOID.ORGANIZATION_NAME), values(NameOID.ORGANIZATIONAL_UNIT_NAME)
    if len(names) != 1 or len(list(content.subject)) != 1 + len(organizations) + len(units):
        raise NotAnAddonsRequest("spec.request", "its subject has more than one common name, organizations and units")
    return _Subject(names[0], organizations, units)


def _check_extensions(content: x509.CertificateSigningRequest, host: str) -> None:
    """Check that there is exactly one alternative name, and no other extension."""
    found = [extension.value for extension in content.extensions]
    names = [list(value) for value in found if isinstance(value, x509.SubjectAlternativeName)]
    if len(found) != 1 or names != [[x509.DNSName(host)]]:
        raise NotAnAddonsRequest("spec.request", f"expected the alternative name {host} and no other extension")


def _is_agent_of(requester: UserInfo, cluster: str) -> bool:
    identity = parse_common_name(requester.name)
    if identity is not None:
        return identity.cluster == cluster and cluster_group(cluster) in requester.groups
    # Agents with an identity of another provider have its names, and a group that the hub has bound to the cluster.
    return external_group(cluster) in requester.groups
