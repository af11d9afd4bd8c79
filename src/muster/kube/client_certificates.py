"""Whom a client certificate names, and whether certain authorities vouch for it.

TLS verifies a client's certificate against all authorities that a server loads, and says only that one of them fits. A server that
trusts some authorities for one thing and others for another asks here, of each set by itself: `ClientAuthorities.validity` follows
the chain that TLS has verified from the leaf up to the first certificate of the set, checks every signature on the way again, and
that the leaf may be used by clients. The times are left to the caller, for they pass while a connection lives.
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
"""Kubernetes' own attribute of a subject."""


def certificate_user(certificate: x509.Certificate) -> UserInfo | None:
    """The common name is the user, the organizations are the groups; None without a name, or where its uid is not one text."""
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
    """A bundle. Every certificate in it is trusted by itself, whoever signed it."""

    def __init__(self, pem: bytes) -> None:
        """Raises ValueError."""
        self._authorities = x509.load_pem_x509_certificates(pem)
        self.pem: bytes = b"".join(authority.public_bytes(Encoding.PEM) for authority in self._authorities)

    def validity(self, chain: Sequence[x509.Certificate]) -> Validity | None:
        """When these authorities vouch for the first certificate of a chain, leaf first, as one of a client; None for never."""
        if not chain or not _of_client(chain[0]):
            return None
        path: list[x509.Certificate] = []
        for certificate in chain:
            if path and not _vouches(certificate, path[-1]):
                return None
            path.append(certificate)
            if certificate in self._authorities:
                return _common_validity(path)
            # An authority may have been certified anew for the same key: the one that lasts longest counts.
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
        return True  # without any usage named, every one is meant
    except (x509.DuplicateExtension, ValueError):
        return False
    return CLIENT_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _vouches(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    return is_authority(authority) and has_issued(authority, certificate)
