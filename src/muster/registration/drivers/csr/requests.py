"""Signing requests and certificates of agents, as data: made, read strictly, and judged by the clock. Nothing here asks a server.

The label on a request is only a hint: anybody may set it. What counts is what would be signed, so `read_request` takes a request
for a cluster's only if label, organizations and common name agree to the letter and nothing else would get into the certificate:
no alternative names, no further subject attributes, no other usages than a client's. Who asks is what the API server recorded, and
is left to the caller to judge.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from muster.api.resource import Document
from muster.kube import certificates
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import Random
from muster.registration.names import (
    ADDON_LABEL,
    ALL_CLUSTERS_GROUP,
    CLIENT_SIGNER,
    CLUSTER_LABEL,
    AgentIdentity,
    cluster_group,
    parse_common_name,
)
from muster.runtime.client.builtin import SIGNING_REQUESTS

USAGES: Final = ("digital signature", "key encipherment", "client auth")
SHORTEST_EXPIRATION: Final = 3600
"""Certificates that live shorter than this are renewed faster than people can follow."""
_SUBJECT: Final = frozenset((NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME))
_BLOCK = re.compile(rb"-----BEGIN ([^-]*)-----")


class NotAnAgentsRequest(ValueError):
    """A request that is not one of an agent for itself; `field` is where that shows."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class AgentRequest:
    """Somebody's wish for a certificate of an agent."""

    identity: AgentIdentity
    requester: UserInfo
    fingerprint: str
    """Of the public key to be certified."""

    @property
    def renewal(self) -> bool:
        """Whether the agent asks for itself, with the certificate it has."""
        return self.requester.name == self.identity.common_name


def new_key() -> bytes:
    return certificates.key_pem(certificates.generate_key())


def is_key(pem: bytes) -> bool:
    """Whether a stored key can still be used."""
    try:
        certificates.load_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def key_fingerprint(pem: bytes) -> str:
    """Of the public half of a stored key; empty for what is no key."""
    return certificates.fingerprint(certificates.load_key(pem).public_key()) if is_key(pem) else ""


def request_object(name: str, identity: AgentIdentity, key: bytes, expiration: int = 0) -> Document:
    """The request of an agent for a certificate of its key (PEM). Without an expiration the signer decides."""
    subject = certificates.subject(identity.common_name, sorted(identity.organizations))
    pem = certificates.signing_request(certificates.load_key(key), subject)
    spec: Document = {"request": base64.b64encode(pem).decode(), "signerName": CLIENT_SIGNER, "usages": list(USAGES)}
    if expiration:
        spec["expirationSeconds"] = expiration
    return {
        "apiVersion": SIGNING_REQUESTS.api_version,
        "kind": SIGNING_REQUESTS.kind,
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: identity.cluster}},
        "spec": spec,
    }


def read_request(csr: Mapping[str, Any]) -> AgentRequest:
    """Raises NotAnAgentsRequest."""
    labels = (csr.get("metadata") or {}).get("labels") or {}
    spec = csr.get("spec") or {}
    cluster = labels.get(CLUSTER_LABEL)
    if not cluster:
        raise NotAnAgentsRequest(f"metadata.labels[{CLUSTER_LABEL}]", "names no cluster")
    if ADDON_LABEL in labels:
        raise NotAnAgentsRequest(f"metadata.labels[{ADDON_LABEL}]", "it is an addon's")
    if spec.get("signerName") != CLIENT_SIGNER:
        raise NotAnAgentsRequest("spec.signerName", f"expected {CLIENT_SIGNER}")
    if sorted(spec.get("usages") or ()) != sorted(USAGES):
        raise NotAnAgentsRequest("spec.usages", f"expected {', '.join(USAGES)} and nothing else")
    request = _signing_request(spec)
    identity = _subject_of(request)
    if identity.cluster != cluster:
        raise NotAnAgentsRequest("spec.request", f"its subject is of cluster {identity.cluster!r}, its label says {cluster!r}")
    return AgentRequest(identity, UserInfo.decode(spec), certificates.fingerprint(request.public_key()))


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
    # Agents of old ask without the group of all clusters.
    if set(certificates.organizations(subject)) - {ALL_CLUSTERS_GROUP} != {cluster_group(identity.cluster)}:
        raise NotAnAgentsRequest("spec.request", f"its organizations are not those of cluster {identity.cluster!r}")
    return identity


def _signing_request(spec: Mapping[str, Any]) -> x509.CertificateSigningRequest:
    try:
        pem = base64.b64decode(spec.get("request") or "", validate=True)
        block = _BLOCK.search(pem)
        if block is None or block[1] != b"CERTIFICATE REQUEST":
            raise ValueError("no PEM block CERTIFICATE REQUEST comes first")
        request = x509.load_pem_x509_csr(pem)
        if not request.is_signature_valid:
            raise ValueError("its signature is not that of its key")
        # Extensions are read lazily: what cannot be read must show here.
        _ = request.extensions
    except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise NotAnAgentsRequest("spec.request", f"cannot be read: {error}") from error
    return request


def is_for(csr: Mapping[str, Any], identity: AgentIdentity, key: bytes) -> bool:
    """Whether a request is for a certificate of this very agent and key."""
    try:
        spec = csr.get("spec") or {}
        request = _signing_request(spec)
        same_key = request.public_key() == certificates.load_key(key).public_key()
        return same_key and spec.get("signerName") == CLIENT_SIGNER and _subject_of(request) == identity
    except ValueError:
        return False


def verdict_of(csr: Mapping[str, Any], *kinds: str) -> Mapping[str, Any] | None:
    """The first condition of one of these types: Approved, Denied, Failed."""
    conditions = (csr.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") in kinds), None)


def issued_certificate(csr: Mapping[str, Any]) -> bytes:
    """Empty when there is none yet, or none that can be read."""
    try:
        return base64.b64decode((csr.get("status") or {}).get("certificate") or "")
    except (ValueError, TypeError):
        return b""


@dataclass(frozen=True)
class Validity:
    """From when to when a certificate can be used. With others of its chain beside it, as long as all of them can be."""

    since: datetime
    until: datetime

    def renewal(self, random: Random) -> datetime:
        """When to ask for the next: between 25 % and 20 % of the life before its end. Draw once per certificate."""
        return self.until - (self.until - self.since) * (0.20 + 0.05 * random())


def certificate_problem(certificate: bytes, key: bytes, identity: AgentIdentity, now: datetime) -> str:
    """Why an agent cannot use this certificate with this key now; empty when it can."""
    if not certificate or not key:
        return "there is no client certificate"
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        return "the client certificate cannot be read"
    named = certificates.common_name(chain[0].subject)
    if named != identity.common_name:
        return f"the client certificate is for {named!r}, not for {identity.common_name!r}"
    if not certificates.KeyPair(certificate, key).matches():
        return "the client certificate is not for the stored key"
    until = validity_of(certificate).until
    if now >= until:
        return f"the client certificate expired at {until:%Y-%m-%dT%H:%M:%SZ}"
    return ""


def validity_of(certificate: bytes) -> Validity:
    """Of a certificate that can be read."""
    chain = x509.load_pem_x509_certificates(certificate)
    return Validity(chain[0].not_valid_before_utc, min(one.not_valid_after_utc for one in chain))
