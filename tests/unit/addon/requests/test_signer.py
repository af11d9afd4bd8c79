"""Certificates of addons' own signers: with which authority, for whom, for how long, and what is never signed or shown."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.addon.requests.request import read_request
from muster.addon.requests.signer import NoSigningAuthority, authority_in, certificate_for
from muster.api.addons import dns_name
from muster.kube.certificates import CertificateAuthority, SigningKey, key_pem
from muster.registration.drivers.certificates.requests import issued_certificate
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import SECRETS, SIGNING_REQUESTS
from tests.support.addon_hub import AddonHub
from tests.support.addon_requests import ADDON, content, request_of, subject_of
from tests.support.template_addons import template_of
from tests.unit.addon.requests.test_approval import SIGNER, may_sign, until_approved
from tests.unit.registration.drivers.test_grpc_signer import rsa_authority

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SUBJECT = subject_of("me", ("g2", "g1"), ("unit",))


def pkcs8(key: SigningKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def secret_of(certificate: bytes, key: bytes, name: str = "ca") -> dict[str, Any]:
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
    metadata = {"name": name, "namespace": HUB_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def elliptic(now: datetime = NOW, lifetime: timedelta = timedelta(days=365)) -> CertificateAuthority:
    return CertificateAuthority.create("own-ca", now, lifetime)


def certified(authority: CertificateAuthority, now: datetime = NOW, **spec: Any) -> x509.Certificate:
    csr = request_of(content(SUBJECT), signer=SIGNER, **spec)
    return x509.load_pem_x509_certificate(certificate_for(csr, read_request(csr), authority, now))


@pytest.mark.parametrize("make", [elliptic, rsa_authority])
@pytest.mark.parametrize("form", [key_pem, pkcs8])
def test_authorities_on_rsa_and_elliptic_curves_sign_in_either_form(make: Any, form: Any) -> None:
    made = make(NOW)
    authority = authority_in(secret_of(made.pem, form(made.key)), NOW)
    certificate = certified(authority)
    assert made.signed(certificate)
    assert certificate.issuer == made.certificate.subject


def test_a_certificate_is_for_clients_and_servers_and_for_a_day() -> None:
    certificate = certified(elliptic())
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    key_usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (key_usage.digital_signature, key_usage.key_encipherment, key_usage.key_cert_sign) == (True, True, False)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName(dns_name(ADDON))]
    assert {(part.oid, part.value) for part in certificate.subject} == set(SUBJECT)
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=24)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_it_never_outlives_the_authority_nor_what_was_asked_for() -> None:
    assert certified(elliptic(lifetime=timedelta(hours=3))).not_valid_after_utc == NOW + timedelta(hours=3)
    assert certified(elliptic(), expirationSeconds=3600).not_valid_after_utc == NOW + timedelta(hours=1)
    assert certified(elliptic(), expirationSeconds=10**9).not_valid_after_utc == NOW + timedelta(hours=24)


def test_a_long_name_is_certified_as_it_is() -> None:
    user = "u" * 500
    csr = request_of(content(subject_of(user, ())), signer=SIGNER)
    certificate = x509.load_pem_x509_certificate(certificate_for(csr, read_request(csr), elliptic(), NOW))
    assert [part.value for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]


def unusable() -> dict[str, tuple[dict[str, Any], str]]:
    good, other = elliptic(), elliptic()
    pair = good.pair()
    leaf = good.issue("leaf", NOW, timedelta(days=1))
    encrypted = good.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pass")
    )
    return {
        "no data": ({}, "tls.key"),
        "null data": ({"data": None}, "tls.key"),
        "no base64": ({"data": {"tls.crt": "***", "tls.key": "***"}}, "tls.crt"),
        "numbers": ({"data": {"tls.crt": 3, "tls.key": 3}}, "tls.crt"),
        "no key": (secret_of(pair.certificate, b"secret-words"), "tls.key"),
        "an encrypted key": (secret_of(pair.certificate, encrypted), "tls.key"),
        "no certificate": (secret_of(b"secret-words", pair.key), "tls.crt"),
        "another's key": (secret_of(pair.certificate, other.pair().key), "tls.crt"),
        "no authority": (secret_of(leaf.certificate, leaf.key), "tls.crt"),
        "one that has ended": (secret_of(*_parts(elliptic(NOW - timedelta(days=2), timedelta(days=1)))), "ended"),
    }


def _parts(authority: CertificateAuthority) -> tuple[bytes, bytes]:
    pair = authority.pair()
    return pair.certificate, pair.key


@pytest.mark.parametrize("case", unusable())
def test_a_secret_that_cannot_sign_is_told_by_its_entry_and_never_quoted(case: str) -> None:
    secret, named = unusable()[case]
    with pytest.raises(NoSigningAuthority, match=named) as caught:
        authority_in(secret, NOW)
    assert "secret-words" not in str(caught.value)
    assert "BEGIN" not in str(caught.value)


def custom(ca: str = "ca", signer: str = SIGNER, **reference: str) -> dict[str, Any]:
    subject = {"user": "me", "groups": ["g1", "g2"], "organizationUnit": ["unit"]}
    return {
        "type": "CustomSigner",
        "customSigner": {"signerName": signer, "signingCA": {"name": ca, **reference}, "subject": subject},
    }


@pytest.fixture
async def own(hub: AddonHub) -> AddonHub:
    """A hub with an addon that has a signer of its own."""
    hub.configs.put(template_of(registration=[custom()]))
    await hub.cluster()
    await hub.offer("hello", "hello-1")
    await hub.enable(template="hello-1")
    await may_sign(hub)
    return hub


async def issued(hub: AddonHub, name: str) -> x509.Certificate:
    async def look() -> bytes:
        return issued_certificate(await hub.admin.get(SIGNING_REQUESTS, name))

    return x509.load_pem_x509_certificate(await hub.until(look, f"a certificate for {name}"))


async def approve(hub: AddonHub, name: str) -> None:
    csr = await hub.admin.get(SIGNING_REQUESTS, name)
    csr["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "yes"}]}
    await hub.admin.update(SIGNING_REQUESTS, csr, subresource="approval")


async def test_an_addons_request_is_approved_and_signed_by_its_own_authority(own: AddonHub) -> None:
    authority = elliptic(own.clock.now())
    await own.admin.create(SECRETS, secret_of(*_parts(authority)))
    await own.ask("addon-1", pem=content(SUBJECT), signer=SIGNER)
    assert authority.signed(await issued(own, "addon-1"))


async def test_a_missing_authority_is_told_and_waited_for_and_harms_nobody_else(own: AddonHub) -> None:
    own.configs.put(template_of(registration=[custom("missing", "example.com/broken")], name="broken-1"))
    await own.offer("broken", "broken-1")
    await own.enable(name="broken", template="broken-1")
    await may_sign(own, "example.com/broken")
    key = rsa.generate_private_key(65537, 2048)
    pem = content(SUBJECT, names=[x509.DNSName(dns_name("broken"))])
    await own.ask("addon-broken", pem=pem, addon="broken", signer="example.com/broken")
    [note] = await own.until(lambda: own.notes("SigningFailed"), "an event")
    assert f"Secret {HUB_NAMESPACE}/missing" in note
    await own.admin.create(SECRETS, secret_of(*_parts(elliptic(own.clock.now()))))
    await own.ask("addon-good", pem=content(SUBJECT), signer=SIGNER)
    await issued(own, "addon-good")
    assert key_pem(key) not in note.encode()


async def test_an_authority_that_is_put_right_signs_what_waits(own: AddonHub, capfd: pytest.CaptureFixture[str]) -> None:
    await own.admin.create(SECRETS, secret_of(b"nonsense", b"secret-words"))
    await own.ask("addon-1", pem=content(SUBJECT), signer=SIGNER)
    [note] = await own.until(lambda: own.notes("SigningFailed"), "an event")
    assert "secret-words" not in note
    good = secret_of(*_parts(elliptic(own.clock.now())))
    await own.admin.patch(SECRETS, "ca", {"data": good["data"]}, HUB_NAMESPACE)

    async def look() -> bytes:
        await own.clock.advance(60)
        return issued_certificate(await own.admin.get(SIGNING_REQUESTS, "addon-1"))

    await own.until(look, "a certificate")
    written = "".join(capfd.readouterr())
    assert "secret-words" not in written
    assert "PRIVATE KEY" not in written


async def test_what_an_addon_is_not_registered_for_fails_whoever_approved_it(own: AddonHub) -> None:
    await own.admin.create(SECRETS, secret_of(*_parts(elliptic(own.clock.now()))))
    await own.ask("addon-1", pem=content(subject_of("you", ("g1",))), signer=SIGNER)
    await approve(own, "addon-1")

    async def look() -> bool:
        return await own.verdict("addon-1") == "Approved,Failed"

    await own.until(look, "the request to fail")


async def test_requests_of_others_signers_are_left_to_them(own: AddonHub) -> None:
    await own.admin.create(SECRETS, secret_of(*_parts(elliptic(own.clock.now()))))
    await own.ask("addon-foreign", pem=content(subject_of("you", ())), signer="example.com/foreign")
    await approve(own, "addon-foreign")
    await own.ask("addon-good", pem=content(SUBJECT), signer=SIGNER)
    await issued(own, "addon-good")
    assert await own.verdict("addon-foreign") == "Approved"


async def test_the_authority_of_the_hubs_own_agents_is_nobodys(own: AddonHub) -> None:
    own.configs.put(template_of(registration=[custom("signer-secret")]))
    await own.admin.create(SECRETS, secret_of(*_parts(elliptic(own.clock.now())), name="signer-secret"))
    await own.ask("addon-1", pem=content(SUBJECT), signer=SIGNER)
    await until_approved(own, "addon-1")
    [note] = await own.until(lambda: own.notes("SigningFailed"), "an event")
    assert "signer-secret" in note
    assert not issued_certificate(await own.admin.get(SIGNING_REQUESTS, "addon-1"))
