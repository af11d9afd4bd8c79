"""Certificates of registration agents: the request that an agent makes, and the check of it on the hub.

The label on a request is only a hint: every requester can set it. What would be signed decides, so `read_request` accepts a request
for a cluster only if label, organizations and common name agree exactly and the certificate would contain nothing else: no
alternative names, no further subject attributes, no usages but a client's. The requester is the user that the API server recorded,
or the one that a driver determines; the caller judges it. The driver selects the signer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from muster.api.agents import GRPC_SIGNER
from muster.kube import certificates
from muster.kube.names import GENERATED_SUFFIX_LENGTH
from muster.machinery.authentication import UserInfo
from muster.registration.drivers.certificates.profile import CLIENT_USAGES, CertificateProfile
from muster.registration.drivers.certificates.requests import UnreadableRequest, signing_request_of
from muster.registration.names import (
    ADDON_LABEL,
    ALL_CLUSTERS_GROUP,
    CLIENT_SIGNER,
    CLUSTER_LABEL,
    AgentIdentity,
    cluster_group,
    parse_common_name,
)

AGENT_SIGNERS: Final = (CLIENT_SIGNER, GRPC_SIGNER)
"""The signers from which agents request certificates."""
SHORTEST_EXPIRATION: Final = 3600
"""Certificates with a shorter life would be renewed faster than administrators can follow."""
LONGEST_PREFIX: Final = 63 - GENERATED_SUFFIX_LENGTH
"""The length to which the API server truncates a generateName; upstream's agents use one."""
_SUBJECT: Final = frozenset((NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME))


def agent_profile(identity: AgentIdentity, *, signer: str = CLIENT_SIGNER, expiration: int = 0) -> CertificateProfile:
    """The certificate of an agent."""
    return CertificateProfile(
        identity.common_name,
        identity.organizations,
        f"{identity.cluster}-"[:LONGEST_PREFIX],
        f"{CLUSTER_LABEL}={identity.cluster},!{ADDON_LABEL}",
        {CLUSTER_LABEL: identity.cluster},
        signer=signer,
        expiration=expiration,
    )


class NotAnAgentsRequest(ValueError):
    """Raised for a request that no agent made for itself; `field` is the field that shows it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class AgentRequest:
    """A request for an agent's certificate."""

    identity: AgentIdentity
    requester: UserInfo
    """The authenticated user that made the request; without a name if unknown."""
    fingerprint: str
    """The fingerprint of the public key to be certified."""

    @property
    def renewal(self) -> bool:
        """Whether the agent made the request with its present certificate."""
        return self.requester.name == self.identity.common_name


def read_request(csr: Mapping[str, Any], signer: str = CLIENT_SIGNER, requester: UserInfo | None = None) -> AgentRequest:
    """Parse a request; `requester` replaces the user that the API server recorded. Raises NotAnAgentsRequest."""
    labels = (csr.get("metadata") or {}).get("labels") or {}
    spec = csr.get("spec") or {}
    cluster = labels.get(CLUSTER_LABEL)
    if not cluster:
        raise NotAnAgentsRequest(f"metadata.labels[{CLUSTER_LABEL}]", "names no cluster")
    if ADDON_LABEL in labels:
        raise NotAnAgentsRequest(f"metadata.labels[{ADDON_LABEL}]", "it is an addon's")
    if spec.get("signerName") != signer:
        raise NotAnAgentsRequest("spec.signerName", f"expected {signer}")
    if sorted(spec.get("usages") or ()) != sorted(CLIENT_USAGES):
        raise NotAnAgentsRequest("spec.usages", f"expected {', '.join(CLIENT_USAGES)} and nothing else")
    try:
        request = signing_request_of(spec)
    except UnreadableRequest as error:
        raise NotAnAgentsRequest("spec.request", f"cannot be read: {error}") from error
    identity = _subject_of(request)
    if identity.cluster != cluster:
        raise NotAnAgentsRequest("spec.request", f"its subject is of cluster {identity.cluster!r}, its label says {cluster!r}")
    who = UserInfo.decode(spec) if requester is None else requester
    return AgentRequest(identity, who, certificates.fingerprint(request.public_key()))


def read_any_request(csr: Mapping[str, Any]) -> AgentRequest:
    """Parse the request of an agent of any driver, with the user that the API server recorded. Raises NotAnAgentsRequest."""
    signer = (csr.get("spec") or {}).get("signerName")
    if signer not in AGENT_SIGNERS:
        raise NotAnAgentsRequest("spec.signerName", f"expected one of {', '.join(AGENT_SIGNERS)}")
    return read_request(csr, signer)


def _subject_of(request: x509.CertificateSigningRequest) -> AgentIdentity:
    subject = request.subject
    if {attribute.oid for attribute in subject} - _SUBJECT:
        raise NotAnAgentsRequest("spec.request", "its subject has more than organizations and a common name")
    if len(subject.get_attributes_for_oid(NameOID.COMMON_NAME)) != 1:
        raise NotAnAgentsRequest("spec.request", "its subject has not exactly one common name")
    if any(isinstance(extension.value, x509.SubjectAlternativeName) for extension in request.extensions):
        raise NotAnAgentsRequest("spec.request", "it asks for alternative names")
    identity = parse_common_name(certificates.common_name(subject))
    if identity is None:
        raise NotAnAgentsRequest("spec.request", "its common name is no agent's")
    # Old agents do not include the group of all clusters.
    if set(certificates.organizations(subject)) - {ALL_CLUSTERS_GROUP} != {cluster_group(identity.cluster)}:
        raise NotAnAgentsRequest("spec.request", f"its organizations are not those of cluster {identity.cluster!r}")
    return identity
