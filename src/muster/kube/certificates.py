"""Certificates with P-256 keys: keys, signing requests and CAs, in the encodings of Kubernetes' programs.

Key generation takes microseconds on this curve, so certificates are made on the event loop. Certificates are backdated a little
because of clock skew. X.509 limits a common name to 64 characters; Go does not enforce that, and agents in a fleet have longer ones
(`system:open-cluster-management:<cluster>:<agent>`), so here a name may have any length.
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

# The library warns whenever a longer name is parsed, from whichever module that happens in.
warnings.filterwarnings("ignore", message=r"Attribute's length must be .* <= 64, but it was ", category=UserWarning)


def generate_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""Keys of existing CAs; our own are P-256."""


def key_pem(key: SigningKey) -> bytes:
    """As `EC PRIVATE KEY` or `RSA PRIVATE KEY`, as Go programs write them."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """From any PEM encoding; ValueError for other kinds of keys."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"expected an elliptic-curve private key, found {type(key).__name__}")
    return key


def load_signing_key(pem: bytes) -> SigningKey:
    """The key of a CA, from any PEM encoding; ValueError or TypeError for other kinds of keys, or an encrypted one."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"expected an elliptic-curve or RSA private key, found {type(key).__name__}")
    return key


def fingerprint(key: PublicKeyTypes) -> str:
    """The fingerprint of a public key, as in kubeadm's `--discovery-token-ca-cert-hash`."""
    info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{sha256(info).hexdigest()}"


def subject(common_name: str, organizations: Iterable[str] = (), units: Iterable[str] = ()) -> x509.Name:
    attributes = [(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    attributes += [(NameOID.ORGANIZATIONAL_UNIT_NAME, name) for name in units]
    attributes.append((NameOID.COMMON_NAME, common_name))
    return x509.Name([x509.NameAttribute(kind, name, _validate=False) for kind, name in attributes])


def common_name(name: x509.Name) -> str:
    """Of several the last, as Go reads it, so that all servers see the same user. "" if there is none."""
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
        """Whether both can be decoded and the (first) certificate has this key."""
        try:
            certified = x509.load_pem_x509_certificate(self.certificate).public_key()
            return certified == serialization.load_pem_private_key(self.key, None).public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # TypeError: the key is encrypted.
            return False


class UnusableAuthority(ValueError):
    """The certificate and key cannot sign; `of_key` is whether the key is the problem. Its text quotes neither."""

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
        """A self-signed CA; `path_length` is the number of permitted CAs below it."""
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
        """Decode an existing CA, in PEM: with any supported key, and the certificate of that key if there are several, so that a
        bundle with its predecessor is accepted. Raises UnusableAuthority."""
        try:
            private = load_signing_key(key)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # The library's own texts may quote their input.
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
        """A new key with its certificate."""
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
        """A certificate (PEM) for a public key; it never outlives the CA."""
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
        """A cross-signed certificate (PEM) for another CA; with it, clients that trust only this CA accept certificates of the
        other."""
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
        """Copied from the CA's own certificate: others compute it differently, and OpenSSL requires that both agree."""
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._own_identifier())

    def signed(self, certificate: x509.Certificate) -> bool:
        """Whether this CA itself signed the certificate (not another one with the same name)."""
        return has_issued(self.certificate, certificate)


def has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Whether a certificate has the CA as its issuer and a valid signature of it."""
    if authority.subject != certificate.issuer:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # cryptography raises several types for an invalid signature
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
