"""An addon's signing request, read and judged. Nothing here asks a server.

Labels are hints that anybody may set; they say which credentials to compare with. A request is an addon's only if it is made by an
agent of the very cluster that its label names, and if what would be signed is exactly what the addon is registered for there: its
subject, its signer, its one alternative name, a client's usages and no further extensions. Who asks is what the API server
recorded, or for requests that the hub's gRPC server made, whom that names; anybody else's word for it does not count.
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
"""Of the names of all addons' requests."""


class NotAnAddonsRequest(ValueError):
    """A request that an addon's agent would not make; `field` is where that shows. Its text quotes nothing of the request."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class AddonRequest:
    """A wish for a certificate of an addon's agent."""

    cluster: str
    addon: str
    signer: str
    requester: UserInfo
    """Who asks, as far as that is proved; one without a name where nothing is."""
    content: x509.CertificateSigningRequest


@dataclass(frozen=True)
class _Subject:
    """Who a certificate is to be for; lists are sorted."""

    user: str
    organizations: tuple[str, ...]
    units: tuple[str, ...] = ()


def read_request(csr: Mapping[str, Any], accounts: frozenset[str] = frozenset()) -> AddonRequest:
    """What would be signed, for whichever addon. `accounts` are those of the hub's gRPC servers. Raises NotAnAddonsRequest."""
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
    """That an agent of the cluster itself asks. Raises NotAnAddonsRequest."""
    if not _is_agent_of(request.requester, request.cluster):
        raise NotAnAddonsRequest("spec.username", f"is no agent of cluster {request.cluster!r}")


def registration_for(request: AddonRequest, registrations: Iterable[Registration]) -> Registration:
    """The registration that a request is for, word for word. Raises NotAnAddonsRequest."""
    subject = _subject_of(request.content)
    mine = [one for one in registrations if _signer_of(one) == request.signer]
    if not mine:
        raise NotAnAddonsRequest("spec.signerName", "is not one that the addon is registered with")
    for registration in mine:
        if subject in _subjects_of(registration, request.cluster, request.addon):
            return registration
    raise NotAnAddonsRequest("spec.request", "its subject is not the one that the addon has on this cluster")


def _signer_of(registration: Registration) -> str:
    """Empty for signers that no addon may have, which no request names."""
    if isinstance(registration, KubeClient):
        return CLIENT_SIGNER
    return "" if signer_problem(registration.signer) else registration.signer


def _subjects_of(registration: Registration, cluster: str, addon: str) -> tuple[_Subject, ...]:
    match registration:
        case KubeClient():
            identity = registration.identity(cluster, addon)
            exact = tuple(sorted(identity.groups))
            # Everybody is in that group anyway, and older agents ask for it by name.
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
    """Exactly one alternative name, and nothing else."""
    found = [extension.value for extension in content.extensions]
    names = [list(value) for value in found if isinstance(value, x509.SubjectAlternativeName)]
    if len(found) != 1 or names != [[x509.DNSName(host)]]:
        raise NotAnAddonsRequest("spec.request", f"expected the alternative name {host} and no other extension")


def _is_agent_of(requester: UserInfo, cluster: str) -> bool:
    identity = parse_common_name(requester.name)
    if identity is not None:
        return identity.cluster == cluster and cluster_group(cluster) in requester.groups
    # Agents whose identity comes from a provider have names of its making, and a group that the hub has bound to the cluster.
    return external_group(cluster) in requester.groups
