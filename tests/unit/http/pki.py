"""Throw-away certificate authorities for tests."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Authority:
    def __init__(self, name: str, parent: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = _name(name)
        issuer = parent or self
        self.certificate = (
            self._builder(self.subject, issuer.subject, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(issuer.key, hashes.SHA256())
        )

    @staticmethod
    def _builder(
        subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int = 1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        end = now + datetime.timedelta(days=days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - datetime.timedelta(days=1))
            .not_valid_after(end)
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *, client: bool, days: int = 1) -> tuple[bytes, bytes, bytes]:
        """Certificate PEM, key PEM and certificate DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = self._builder(_name(common_name), self.subject, key, days=days).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if not client:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return (
            certificate.public_bytes(serialization.Encoding.PEM),
            _pem_key(key),
            certificate.public_bytes(serialization.Encoding.DER),
        )


def client_context(server_ca: Authority, certificate: bytes | None = None, key: bytes = b"") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=server_ca.pem.decode())
    if certificate is not None:
        with tempfile.TemporaryDirectory() as directory:
            cert_file, key_file = Path(directory, "crt"), Path(directory, "key")
            cert_file.write_bytes(certificate)
            key_file.write_bytes(key)
            context.load_cert_chain(cert_file, key_file)
    return context
