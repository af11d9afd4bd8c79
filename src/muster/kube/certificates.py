"""Certificates on P-256 keys: keys, signing requests and authorities, in the forms that Kubernetes' programs write and read.

Key generation takes microseconds on this curve, so certificates are made on the event loop. Certificates are backdated a little
because the clocks of a fleet disagree. X.509 ends a common name at 64 characters; Go does not care, and agents in a fleet have
longer ones (`system:open-cluster-management:<cluster>:<agent>`), so here a name may have any length.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

BACKDATE = timedelta(minutes=5)
CA_LIFETIME = timedelta(days=3650)
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH

# The library warns whenever a longer name is read, from whatever module that happens in.
warnings.filterwarnings("ignore", message=r"Attribute's length must be .* <= 64, but it was ", category=UserWarning)


def generate_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""What authorities of others may have; our own are on P-256."""


def key_pem(key: SigningKey) -> bytes:
    """As `EC PRIVATE KEY` or `RSA PRIVATE KEY`, the forms that Go programs write."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """From any form of PEM; ValueError for every other kind of key."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"expected an elliptic-curve private key, found {type(key).__name__}")
    return key


def load_signing_key(pem: bytes) -> SigningKey:
    """Of an authority, from any form of PEM; ValueError or TypeError for what is no such key, or is encrypted."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"expected an elliptic-curve or RSA private key, found {type(key).__name__}")
    return key


def fingerprint(key: PublicKeyTypes) -> str:
    """By which people tell public keys apart, whatever they are wrapped in; in the form of kubeadm's hashes of authorities."""
    info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{sha256(info).hexdigest()}"


def subject(common_name: str, organizations: Iterable[str] = (), units: Iterable[str] = ()) -> x509.Name:
    attributes = [(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    attributes += [(NameOID.ORGANIZATIONAL_UNIT_NAME, name) for name in units]
    attributes.append((NameOID.COMMON_NAME, common_name))
    return x509.Name([x509.NameAttribute(kind, name, _validate=False) for kind, name in attributes])


def common_name(name: x509.Name) -> str:
    """Of several the last, as Go reads it: nobody may be one to us and another to the servers around us. "" without any."""
    names = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def organizations(name: x509.Name) -> list[str]:
    return [str(part.value) for part in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def signing_request(key: ec.EllipticCurvePrivateKey, name: x509.Name, hosts: Iterable[str] = ()) -> bytes:
    """A request (PEM) for a certificate of this key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    names = [general_name(host) for host in hosts]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def matches(self) -> bool:
        """Whether both can be read and the (first) certificate is for this key."""
        try:
            certified = x509.load_pem_x509_certificate(self.certificate).public_key()
            return certified == serialization.load_pem_private_key(self.key, None).public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # TypeError: the key is encrypted.
            return False


class UnusableAuthority(ValueError):
    """Nothing can be signed with a certificate and a key; `of_key` tells which of the two to look after. No text of it quotes
    either."""

    def __init__(self, problem: str, *, of_key: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.of_key = of_key


class CertificateAuthority:
    def __init__(self, certificate: x509.Certificate, key: SigningKey) -> None:
        self.certificate = certificate
        self.key = key

    @classmethod
    def create(
        cls, common_name: str, now: datetime, lifetime: timedelta = CA_LIFETIME, *, path_length: int | None = None
    ) -> CertificateAuthority:
        """A self-signed one; `path_length` is how many authorities may follow below it."""
        key = generate_key()
        name = subject(common_name)
        builder = _builder(name, name, key.public_key(), now - BACKDATE, now + lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        builder = builder.add_extension(_key_usage(sign_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, pair: KeyPair) -> CertificateAuthority:
        return cls(x509.load_pem_x509_certificate(pair.certificate), load_key(pair.key))

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> CertificateAuthority:
        """One of others, in PEM: on whichever key, and of several certificates the one that the key is for, so that a bundle with
        its predecessor will do. Raises UnusableAuthority."""
        try:
            private = load_signing_key(key)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # The library's own texts may quote what they read.
            raise UnusableAuthority("expected an unencrypted RSA or elliptic-curve private key in PEM", of_key=True) from None
        try:
            found = x509.load_pem_x509_certificates(certificate)
        except ValueError:
            raise UnusableAuthority("expected a certificate in PEM") from None
        own = next((one for one in found if one.public_key() == private.public_key()), None)
        if own is None:
            raise UnusableAuthority("there is no certificate for the key in it")
        if not is_authority(own):
            raise UnusableAuthority("the certificate is not one of an authority (basic constraints)")
        return cls(own, private)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self) -> KeyPair:
        return KeyPair(self.pem, key_pem(self.key))

    def issue(
        self,
        common_name: str,
        now: datetime,
        lifetime: timedelta,
        *,
        organizations: Iterable[str] = (),
        usages: Iterable[ObjectIdentifier] = (CLIENT_AUTH,),
        hosts: Iterable[str] = (),
    ) -> KeyPair:
        """A new key and a certificate for it."""
        key = generate_key()
        names = [general_name(host) for host in hosts]
        certificate = self.sign(
            subject(common_name, organizations), key.public_key(), now - BACKDATE, now + lifetime, usages, names
        )
        return KeyPair(certificate, key_pem(key))

    def sign(
        self,
        name: x509.Name,
        public_key: ec.EllipticCurvePublicKey | object,
        not_before: datetime,
        not_after: datetime,
        usages: Iterable[ObjectIdentifier],
        alternative_names: Iterable[x509.GeneralName] = (),
    ) -> bytes:
        """A certificate (PEM) for somebody's public key; it never outlives the authority."""
        not_after = min(not_after, self.certificate.not_valid_after_utc)
        builder = _builder(name, self.certificate.subject, public_key, not_before, not_after)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(sign_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        builder = builder.add_extension(self._key_identifier(), critical=False)
        names = list(alternative_names)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def vouch(self, other: CertificateAuthority) -> bytes:
        """A certificate (PEM) for another authority; beside what that one signed, it convinces whoever trusts this one alone."""
        theirs, mine = other.certificate, self.certificate
        not_before = max(theirs.not_valid_before_utc, mine.not_valid_before_utc)
        not_after = min(theirs.not_valid_after_utc, mine.not_valid_after_utc)
        builder = _builder(theirs.subject, mine.subject, theirs.public_key(), not_before, not_after)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(sign_certificates=True), critical=True)
        builder = builder.add_extension(other._own_identifier(), critical=False)
        builder = builder.add_extension(self._key_identifier(), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _own_identifier(self) -> x509.SubjectKeyIdentifier:
        try:
            return self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        """As the authority's own certificate has it: others derive it otherwise, and OpenSSL insists that both agree."""
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._own_identifier())

    def signed(self, certificate: x509.Certificate) -> bool:
        """Whether this authority itself signed the certificate (not merely one of the same name)."""
        return has_issued(self.certificate, certificate)


def has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Whether a certificate names the authority as its issuer and has its signature."""
    if authority.subject != certificate.issuer:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # cryptography raises several kinds for "no"; none of them is a server fault
        return False
    return True


def _builder(
    name: x509.Name, issuer: x509.Name, public_key: object, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public_key)  # type: ignore[arg-type]  # any key type a request may carry
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before.astimezone(UTC))
        .not_valid_after(not_after.astimezone(UTC))
    )


def is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
