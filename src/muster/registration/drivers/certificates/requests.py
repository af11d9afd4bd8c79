"""Signing requests and certificates, as data: built, parsed and checked against the clock. Sends no requests to a server."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from muster.api.resource import Document
from muster.kube import certificates
from muster.machinery.clock import Random
from muster.registration.drivers.certificates.profile import CertificateProfile
from muster.runtime.client.builtin import SIGNING_REQUESTS

_BLOCK = re.compile(rb"-----BEGIN ([^-]*)-----")


class UnreadableRequest(ValueError):
    """The content of a request cannot be parsed, or is not signed with its key."""


def new_key() -> bytes:
    return certificates.key_pem(certificates.generate_key())


def is_key(pem: bytes) -> bool:
    """Whether a stored key is usable."""
    try:
        certificates.load_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def key_fingerprint(pem: bytes) -> str:
    """The fingerprint of a stored key's public half; empty if it is no key."""
    return certificates.fingerprint(certificates.load_key(pem).public_key()) if is_key(pem) else ""


def request_object(name: str, profile: CertificateProfile, key: bytes) -> Document:
    """The request for a certificate of this key (PEM)."""
    subject = certificates.subject(profile.common_name, sorted(profile.organizations), profile.units)
    pem = certificates.signing_request(certificates.load_key(key), subject, profile.hosts)
    spec: Document = {"request": base64.b64encode(pem).decode(), "signerName": profile.signer, "usages": list(profile.usages)}
    if profile.expiration:
        spec["expirationSeconds"] = profile.expiration
    return {
        "apiVersion": SIGNING_REQUESTS.api_version,
        "kind": SIGNING_REQUESTS.kind,
        "metadata": {"name": name, "labels": dict(profile.labels)},
        "spec": spec,
    }


def signing_request_of(spec: Mapping[str, Any]) -> x509.CertificateSigningRequest:
    """The PKCS #10 request in a request's spec. Raises UnreadableRequest."""
    try:
        pem = base64.b64decode(spec.get("request") or "", validate=True)
        block = _BLOCK.search(pem)
        if block is None or block[1] != b"CERTIFICATE REQUEST":
            raise ValueError("no PEM block CERTIFICATE REQUEST comes first")
        request = x509.load_pem_x509_csr(pem)
        if not request.is_signature_valid:
            raise ValueError("its signature is not that of its key")
        # Extensions are parsed lazily: errors must show here.
        _ = request.extensions
    except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise UnreadableRequest(str(error)) from error
    return request


def is_for(csr: Mapping[str, Any], profile: CertificateProfile, key: bytes) -> bool:
    """Whether a request has exactly this subject, signer and key."""
    spec = csr.get("spec") or {}
    try:
        request = signing_request_of(spec)
        same_key = request.public_key() == certificates.load_key(key).public_key()
    except ValueError:
        return False
    subject = certificates.common_name(request.subject), frozenset(certificates.organizations(request.subject))
    return same_key and spec.get("signerName") == profile.signer and subject == (profile.common_name, profile.organizations)


def verdict_of(csr: Mapping[str, Any], *kinds: str) -> Mapping[str, Any] | None:
    """The first condition of one of these types: Approved, Denied, Failed."""
    conditions = (csr.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") in kinds), None)


def issued_certificate(csr: Mapping[str, Any]) -> bytes:
    """The certificate (PEM); empty if there is none yet, or none that can be parsed."""
    try:
        return base64.b64decode((csr.get("status") or {}).get("certificate") or "")
    except (ValueError, TypeError):
        return b""


@dataclass(frozen=True)
class Validity:
    """The validity of a certificate; of a chain, the time in which all its certificates are valid."""

    since: datetime
    until: datetime

    def renewal(self, random: Random) -> datetime:
        """When to renew: with between 25 % and 20 % of the life left. Draw once per certificate."""
        return self.until - (self.until - self.since) * (0.20 + 0.05 * random())


def certificate_problem(certificate: bytes, key: bytes, common_name: str, now: datetime) -> str:
    """Why this certificate with this key is unusable for the common name now; empty if it is usable."""
    if not certificate or not key:
        return "there is no client certificate"
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        return "the client certificate cannot be read"
    named = certificates.common_name(chain[0].subject)
    if named != common_name:
        return f"the client certificate is for {named!r}, not for {common_name!r}"
    if not certificates.KeyPair(certificate, key).matches():
        return "the client certificate is not for the stored key"
    until = validity_of(certificate).until
    if now >= until:
        return f"the client certificate expired at {until:%Y-%m-%dT%H:%M:%SZ}"
    return ""


def validity_of(certificate: bytes) -> Validity:
    """The validity of a parsable certificate."""
    chain = x509.load_pem_x509_certificates(certificate)
    return Validity(chain[0].not_valid_before_utc, min(one.not_valid_after_utc for one in chain))
