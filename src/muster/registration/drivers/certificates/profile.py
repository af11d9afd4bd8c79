"""Which certificate somebody wants, as data: all that differs between agents, addons, signers and the Secrets they keep them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.registration.names import CLIENT_SIGNER

CLIENT_USAGES: Final = ("digital signature", "key encipherment", "client auth")
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


@dataclass(frozen=True)
class CertificateProfile:
    common_name: str
    organizations: frozenset[str]
    prefix: str
    """Of the names of requests."""
    siblings: str
    """Selects, by label, the requests on the hub that are counted before another is made."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of requests."""
    units: tuple[str, ...] = ()
    """Organizational units."""
    hosts: tuple[str, ...] = ()
    """Alternative names: DNS names or IP addresses."""
    signer: str = CLIENT_SIGNER
    usages: tuple[str, ...] = CLIENT_USAGES
    expiration: int = 0
    """For how many seconds the certificate should be valid; 0 leaves that to the signer."""
    certificate_entry: str = CERTIFICATE
    key_entry: str = KEY
    """Where a Secret keeps the two."""
