import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from muster.kube.certificates import (
    CertificateAuthority,
    KeyPair,
    common_name,
    general_name,
    generate_key,
    key_pem,
    load_key,
    organizations,
    signing_request,
    subject,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LONG = "system:open-cluster-management:a-cluster-with-quite-a-long-name:5c5b3a5e-7d8f-4f6a-9c39-2a9a44f6ad11"

KEY_OF_NO_KNOWN_KIND = b"-----BEGIN PRIVATE KEY-----\nMA4CAQAwBQYDKgMEBAIFAA==\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("test-ca", NOW)


def test_a_key_is_written_as_client_go_writes_it_and_read_back() -> None:
    key = generate_key()
    assert key_pem(key).startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert load_key(key_pem(key)).public_key() == key.public_key()


def test_a_key_of_another_form_is_read_and_one_of_another_kind_refused() -> None:
    key = generate_key()
    pkcs8 = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    assert load_key(pkcs8).public_key() == key.public_key()
    other = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ValueError, match="elliptic-curve"):
        load_key(other)


def test_a_request_says_who_asks_and_is_signed_with_the_key() -> None:
    key = generate_key()
    request = x509.load_pem_x509_csr(signing_request(key, subject("agent", ["team", "fleet"]), ["a.example.com", "10.0.0.1"]))
    assert request.is_signature_valid
    assert request.public_key() == key.public_key()
    assert (common_name(request.subject), organizations(request.subject)) == ("agent", ["team", "fleet"])
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [general_name("a.example.com"), general_name("10.0.0.1")]


def test_names_longer_than_x509_allows_go_from_request_to_certificate(authority: CertificateAuthority) -> None:
    request = x509.load_pem_x509_csr(signing_request(generate_key(), subject(LONG, [LONG])))
    pem = authority.sign(request.subject, request.public_key(), NOW, NOW + timedelta(hours=1), [])
    certificate = x509.load_pem_x509_certificate(pem)
    assert (common_name(certificate.subject), organizations(certificate.subject)) == (LONG, [LONG])
    assert authority.signed(certificate)


def test_long_names_are_used_without_warnings() -> None:
    # In a process of its own: pytest lays its own filters over a module's.
    program = (
        "from cryptography import x509\n"
        "from muster.kube.certificates import generate_key, signing_request, subject\n"
        f"print(len(x509.load_pem_x509_csr(signing_request(generate_key(), subject('{LONG}'))).subject))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_of_several_common_names_the_last_counts() -> None:
    name = x509.Name([*subject("first"), *subject("last")])
    assert common_name(name) == "last"
    assert common_name(x509.Name([])) == ""


def test_a_pair_matches_only_its_own_key(authority: CertificateAuthority) -> None:
    pair = authority.issue("one", NOW, timedelta(days=1))
    assert pair.matches()
    assert not KeyPair(pair.certificate, key_pem(generate_key())).matches()
    assert not KeyPair(b"no certificate", pair.key).matches()
    assert not KeyPair(pair.certificate, b"no key").matches()
    assert not KeyPair(pair.certificate, KEY_OF_NO_KNOWN_KIND).matches()
    locked = serialization.BestAvailableEncryption(b"secret")
    encrypted = load_key(pair.key).private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    assert not KeyPair(pair.certificate, encrypted).matches()


def test_a_pairs_key_is_not_shown(authority: CertificateAuthority) -> None:
    assert "PRIVATE KEY" not in repr(authority.pair())


def test_python_serves_with_a_pair(authority: CertificateAuthority, tmp_path: Path) -> None:
    pair = authority.issue("one", NOW, timedelta(days=1), hosts=["localhost"])
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "pair.pem")


def test_a_certificate_does_not_outlive_its_authority() -> None:
    short = CertificateAuthority.create("short-ca", NOW, timedelta(hours=1))
    certificate = x509.load_pem_x509_certificate(short.issue("one", NOW, timedelta(days=1)).certificate)
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=1)


def test_an_authority_of_the_same_name_is_another_one(authority: CertificateAuthority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.issue("one", NOW, timedelta(days=1)).certificate)
    assert CertificateAuthority.load(authority.pair()).signed(certificate)
    assert not CertificateAuthority.create("test-ca", NOW).signed(certificate)
