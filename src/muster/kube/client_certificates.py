"""The user of a client certificate, and its verification against a set of CAs.

TLS verifies a client's certificate against all CAs that a server loads, and only reports success. A server with several sets of CAs
verifies each set here: `ClientAuthorities.validity` follows the chain that TLS has verified from the leaf up to the first
certificate of the set, verifies every signature on the way again, and that the leaf permits client authentication. Validity periods
are checked by the caller, since they end while a connection is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.kube.certificates import CLIENT_AUTH, common_name, has_issued, is_authority, organizations
from muster.machinery.authentication import UserInfo

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' own attribute of a subject, for the uid."""


def certificate_user(certificate: x509.Certificate) -> UserInfo | None:
    """The common name is the user, the organizations are the groups; None without a name, or with an invalid uid."""
    name = common_name(certificate.subject)
    uids = certificate.subject.get_attributes_for_oid(_UID)
    if not name or len(uids) > 1 or any(not isinstance(uid.value, str) or not uid.value for uid in uids):
        return None
    digest = sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    extra = {CREDENTIAL_ID: (f"X509SHA256={digest}",)}
    uid = str(uids[0].value) if uids else ""
    return UserInfo(name, uid, tuple(organizations(certificate.subject)), extra)


@dataclass(frozen=True, slots=True)
class Validity:
    """The time in which every certificate of a chain is valid."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        return self.since <= now <= self.until


class ClientAuthorities:
    """A CA bundle. Every certificate in it is a trust anchor, whoever signed it."""

    def __init__(self, pem: bytes) -> None:
        """Raises ValueError."""
        self._authorities = x509.load_pem_x509_certificates(pem)
        self.pem: bytes = b"".join(authority.public_bytes(Encoding.PEM) for authority in self._authorities)

    def validity(self, chain: Sequence[x509.Certificate]) -> Validity | None:
        """When a chain of a client, leaf first, is valid by these CAs; None for never."""
        if not chain or not _of_client(chain[0]):
            return None
        path: list[x509.Certificate] = []
        for certificate in chain:
            if path and not _vouches(certificate, path[-1]):
                return None
            path.append(certificate)
            if certificate in self._authorities:
                return _common_validity(path)
            # A CA may have a renewed certificate with the same key: the one with the longest validity is used.
            issuers = [authority for authority in self._authorities if _vouches(authority, certificate)]
            if issuers:
                return _common_validity([*path, max(issuers, key=lambda one: one.not_valid_after_utc)])
        return None


def _common_validity(path: Sequence[x509.Certificate]) -> Validity:
    return Validity(max(one.not_valid_before_utc for one in path), min(one.not_valid_after_utc for one in path))


def _of_client(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # without extended key usages, all are permitted
    except (x509.DuplicateExtension, ValueError):
        return False
    return CLIENT_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _vouches(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    return is_authority(authority) and has_issued(authority, certificate)
