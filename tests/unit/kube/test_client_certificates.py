"""Whom a client certificate names, and which authorities vouch for it, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from muster.kube.certificates import CLIENT_AUTH, SERVER_AUTH, CertificateAuthority, generate_key, subject
from muster.kube.client_certificates import ClientAuthorities, certificate_user

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def authority(name: str = "ca", lifetime: timedelta = 10 * DAY) -> CertificateAuthority:
    return CertificateAuthority.create(name, NOW, lifetime)


def leaf(signer: CertificateAuthority, name: x509.Name, usage: x509.ObjectIdentifier = CLIENT_AUTH) -> x509.Certificate:
    return x509.load_pem_x509_certificate(signer.sign(name, generate_key().public_key(), NOW, NOW + DAY, (usage,)))


def named(*uids: str) -> x509.Name:
    return x509.Name([*subject("alice", ("a", "b")), *(x509.NameAttribute(UID, uid) for uid in uids)])


def test_a_subject_is_a_user() -> None:
    user = certificate_user(leaf(authority(), named("7")))
    assert user is not None
    assert (user.name, user.uid, user.groups) == ("alice", "7", ("a", "b"))


@pytest.mark.parametrize("name", [subject("", ("system:masters",)), named("1", "2")])
def test_a_subject_that_is_not_one_user_is_nobody(name: x509.Name) -> None:
    assert certificate_user(leaf(authority(), name)) is None


def test_a_chain_holds_as_long_as_its_shortest_certificate() -> None:
    root, below = authority(lifetime=10 * DAY), authority("below", timedelta(hours=1))
    between = x509.load_pem_x509_certificate(root.vouch(below))
    shown = x509.load_pem_x509_certificate(below.issue("alice", NOW, DAY).certificate)
    found = ClientAuthorities(root.pem).validity([shown, between])
    assert found is not None
    assert found.until == NOW + timedelta(hours=1)
    assert found.holds(NOW)
    assert not found.holds(NOW + timedelta(hours=2))


def test_an_authority_certified_anew_still_vouches_for_what_it_signed() -> None:
    old = authority()
    renewed = CertificateAuthority.create("ca", NOW, DAY)
    shown = leaf(old, subject("alice"))
    assert ClientAuthorities(renewed.pem + old.pem).validity([shown]) is not None
    assert ClientAuthorities(renewed.pem).validity([shown, old.certificate]) is None, "a namesake is another"


@pytest.mark.parametrize("usage", [SERVER_AUTH])
def test_a_certificate_that_is_not_for_clients_is_none(usage: x509.ObjectIdentifier) -> None:
    root = authority()
    assert ClientAuthorities(root.pem).validity([leaf(root, subject("alice"), usage), root.certificate]) is None


def test_a_leaf_cannot_sign_others() -> None:
    root = authority()
    key = generate_key()
    signer = x509.load_pem_x509_certificate(root.sign(subject("mallory"), key.public_key(), NOW, NOW + DAY, (CLIENT_AUTH,)))
    forged = leaf(CertificateAuthority(signer, key), subject("alice"))
    assert ClientAuthorities(root.pem).validity([forged, signer, root.certificate]) is None


def test_a_bundle_that_is_none_is_refused() -> None:
    for pem in (b"", b"nonsense", authority().pem[:-40]):
        with pytest.raises(ValueError, match=r".+"):
            ClientAuthorities(pem)
