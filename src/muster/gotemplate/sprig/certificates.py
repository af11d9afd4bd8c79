"""sprig's private keys and certificates, made with `cryptography` (imported when first needed)."""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, Any

from muster.gotemplate.golang import fmt
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.sprig.encodings import CorruptInput, decode_base64
from muster.gotemplate.values import Struct
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import decode, encode

if TYPE_CHECKING:
    from cryptography import x509

CERTIFICATES = FuncTable()
_CERTIFICATE = "sprig.certificate"


def _certificate(cert: str, key: str) -> Struct:
    return Struct({"Cert": cert, "Key": key}, _CERTIFICATE)


# Keys


def _key_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ed25519
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    form = PrivateFormat.PKCS8 if isinstance(key, ed25519.Ed25519PrivateKey) else PrivateFormat.TraditionalOpenSSL
    return str(key.private_bytes(Encoding.PEM, form, NoEncryption()).decode())


def _rsa(bits: int) -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@CERTIFICATES.add("genPrivateKey", "string", "string")
def gen_private_key(kind: str) -> str:
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519

    if kind in ("", "rsa"):
        return _key_pem(_rsa(4096))
    if kind == "dsa":
        return _key_pem(dsa.generate_private_key(2048))
    if kind == "ecdsa":
        return _key_pem(ec.generate_private_key(ec.SECP256R1()))
    if kind == "ed25519":
        return _key_pem(ed25519.Ed25519PrivateKey.generate())
    return f"Unknown type {kind}"


def _load_key(pem: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if "-----BEGIN " not in pem:
        raise GoError("no PEM data in input")
    kind = pem.partition("-----BEGIN ")[2].partition("-----")[0]
    if kind != "PRIVATE KEY" and not kind.endswith(" PRIVATE KEY"):
        raise GoError(f"no private key data in PEM block of type {kind}")
    name = kind.removesuffix("PRIVATE KEY").strip()
    if name not in ("", "RSA", "EC", "DSA"):
        raise GoError(f"invalid private key type {kind}")
    try:
        return load_pem_private_key(encode(pem), password=None)
    except (ValueError, TypeError) as error:
        reason = "decoding PEM as PKCS#8" if not name else f"parsing {name} private key from PEM"
        raise GoError(f"{reason}: {error}") from None


# Certificates


def _addresses(values: list[Any]) -> list[x509.GeneralName]:
    from cryptography import x509

    names: list[x509.GeneralName] = []
    for value in values:
        if not isinstance(value, str):
            raise GoError(f"error parsing ip: {fmt.show(value)} is not a string")
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(value)))
        except ValueError:
            raise GoError(f"error parsing ip: {value}") from None
    return names


def _dns_names(values: list[Any]) -> list[x509.GeneralName]:
    from cryptography import x509

    for value in values:
        if not isinstance(value, str):
            raise GoError(f"error processing alternate dns name: {fmt.show(value)} is not a string")
    return [x509.DNSName(value) for value in values]


def _issue(
    name: str, ips: list[Any], dns: list[Any], days: int, key: Any, signer: tuple[Any, Any] | None, is_ca: bool = False
) -> Struct:
    """A certificate for the key, signed by (certificate, key) or by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed25519
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    names = _addresses(ips)
    names = _dns_names(dns) + names
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    now = datetime.datetime.now(datetime.UTC)
    signing_key = key if signer is None else signer[1]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_encipherment=True, key_cert_sign=is_ca, content_commitment=False,
                data_encipherment=False, key_agreement=False, crl_sign=False, encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )  # fmt: skip
    if is_ca:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    if signer is not None:
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer[1].public_key())
        builder = builder.add_extension(issuer_key, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    try:
        made = builder.sign(signing_key, algorithm)
    except (ValueError, TypeError) as error:
        raise GoError(f"error creating certificate: {error}") from None
    return _certificate(made.public_bytes(Encoding.PEM).decode(), _key_pem(key))


def _given_key(pem: str) -> Any:
    try:
        return _load_key(pem)
    except GoError as error:
        raise GoError(f"parsing private key: {error}") from None


def _signer(ca: Struct) -> tuple[Any, Any]:
    from cryptography import x509

    pem = str(ca.fields["Cert"])
    if "-----BEGIN " not in pem:
        raise GoError("unable to decode certificate")
    try:
        certificate = x509.load_pem_x509_certificate(encode(pem))
    except ValueError as error:
        raise GoError(f"error parsing certificate: decodedSignerCert.Bytes: {error}") from None
    try:
        return certificate, _load_key(str(ca.fields["Key"]))
    except GoError as error:
        raise GoError(f"error parsing private key: {error}") from None


@CERTIFICATES.add("genCA", "string, int", _CERTIFICATE)
def gen_ca(name: str, days: int) -> Struct:
    return _issue(name, [], [], days, _rsa(2048), None, is_ca=True)


@CERTIFICATES.add("genCAWithKey", "string, int, string", _CERTIFICATE)
def gen_ca_with_key(name: str, days: int, key: str) -> Struct:
    return _issue(name, [], [], days, _given_key(key), None, is_ca=True)


@CERTIFICATES.add("genSelfSignedCert", "string, list, list, int", _CERTIFICATE)
def gen_self_signed_cert(name: str, ips: list[Any], dns: list[Any], days: int) -> Struct:
    return _issue(name, ips, dns, days, _rsa(2048), None)


@CERTIFICATES.add("genSelfSignedCertWithKey", "string, list, list, int, string", _CERTIFICATE)
def gen_self_signed_cert_with_key(name: str, ips: list[Any], dns: list[Any], days: int, key: str) -> Struct:
    return _issue(name, ips, dns, days, _given_key(key), None)


@CERTIFICATES.add("genSignedCert", f"string, list, list, int, {_CERTIFICATE}", _CERTIFICATE)
def gen_signed_cert(name: str, ips: list[Any], dns: list[Any], days: int, ca: Struct) -> Struct:
    return _issue(name, ips, dns, days, _rsa(2048), _signer(ca))


@CERTIFICATES.add("genSignedCertWithKey", f"string, list, list, int, {_CERTIFICATE}, string", _CERTIFICATE)
def gen_signed_cert_with_key(name: str, ips: list[Any], dns: list[Any], days: int, ca: Struct, key: str) -> Struct:
    return _issue(name, ips, dns, days, _given_key(key), _signer(ca))


@CERTIFICATES.add("buildCustomCert", "string, string", _CERTIFICATE)
def build_custom_cert(cert: str, key: str) -> Struct:
    from cryptography import x509

    try:
        cert_pem = decode(decode_base64(encode(cert)))
    except CorruptInput:
        raise GoError("unable to decode base64 certificate") from None
    try:
        key_pem = decode(decode_base64(encode(key)))
    except CorruptInput:
        raise GoError("unable to decode base64 private key") from None
    if "-----BEGIN " not in cert_pem:
        raise GoError("unable to decode certificate")
    try:
        x509.load_pem_x509_certificate(encode(cert_pem))
    except ValueError as error:
        raise GoError(f"error parsing certificate: decodedCert.Bytes: {error}") from None
    try:
        _load_key(key_pem)
    except GoError as error:
        raise GoError(f"error parsing private key: {error}") from None
    return _certificate(cert_pem, key_pem)
