"""A wanted certificate, as data: all that differs between agents, addons, signers and the Secrets that store them."""

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
    """Prefix of the names of requests."""
    siblings: str
    """Label selector of the requests on the hub that are counted before another one is created."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of requests."""
    units: tuple[str, ...] = ()
    """Organizational units."""
    hosts: tuple[str, ...] = ()
    """Alternative names: DNS names or IP addresses."""
    signer: str = CLIENT_SIGNER
    usages: tuple[str, ...] = CLIENT_USAGES
    expiration: int = 0
    """The requested validity in seconds; 0 leaves it to the signer."""
    certificate_entry: str = CERTIFICATE
    key_entry: str = KEY
    """The entries of the Secret for the key and the certificate."""
