"""Tokens, certificates and keys from Secrets: what is usable comes out plain and dated, and what is not is never quoted."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.inventory.credentials import (
    MAX_PEM_LENGTH,
    MAX_TOKEN_LENGTH,
    InvalidCredential,
    read_authorities,
    read_base64,
    read_certificate,
    read_token,
)
from tests.unit.gateway.inventory.objects import AUTHORITY, NOW, OTHER_AUTHORITY, client_pair, jwt

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_a_token_says_when_it_ends_and_whose_it_is() -> None:
    expires = NOW + timedelta(hours=1)
    read = read_token(f" {jwt(expires)}\n".encode())
    assert read.credential.token == jwt(expires)
    assert read.credential.expires == expires
    assert read.account == "system:serviceaccount:ocm:cluster-gateway"
    assert jwt(expires) not in repr(read)


def test_a_token_that_is_no_jwt_is_used_all_the_same() -> None:
    read = read_token(b"opaque-token")
    assert (read.credential.token, read.credential.expires, read.account) == ("opaque-token", None, "")


@pytest.mark.parametrize(
    "raw", [b"", b" ", b"a b", b"a\r\nX-Remote-User: admin", b"\xff", "tökn".encode(), b"a" * (MAX_TOKEN_LENGTH + 1), b"a\x00b"]
)
def test_what_may_not_stand_in_a_header_is_no_token(raw: bytes) -> None:
    with pytest.raises(InvalidCredential):
        read_token(raw)


@given(_json, _json)
def test_whatever_a_token_says_of_itself_it_is_read(expires: object, subject: object) -> None:
    read = read_token(jwt(expires, subject).encode())
    assert read.credential.expires is None or read.credential.expires.tzinfo is UTC
    assert read.account.isprintable()
    assert " " not in read.account


@given(st.binary(max_size=200))
def test_any_bytes_are_a_token_or_refused(raw: bytes) -> None:
    try:
        token = read_token(raw).credential.token
    except InvalidCredential:
        return
    assert token.isascii()
    assert token.isprintable()
    assert " " not in token


@given(st.text(max_size=40))
def test_any_text_is_base64_or_refused(text: str) -> None:
    with suppress(InvalidCredential):
        assert isinstance(read_base64(text), bytes)


def test_a_bundle_is_its_certificates_and_nothing_that_was_left_beside_them() -> None:
    key = client_pair().key
    bundle = b"# the cluster's\n" + AUTHORITY.pem + key + OTHER_AUTHORITY.pem
    assert read_authorities(bundle) == AUTHORITY.pem + OTHER_AUTHORITY.pem


@given(
    st.binary(max_size=200) | st.sampled_from([AUTHORITY.pem[:100], AUTHORITY.pem.replace(b"M", b"N"), b"x" * (MAX_PEM_LENGTH + 1)])
)
def test_what_is_no_bundle_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidCredential):
        read_authorities(raw)


def test_a_client_certificate_is_dated_and_its_key_is_its_own() -> None:
    pair = client_pair(timedelta(days=3))
    read = read_certificate(pair.certificate + AUTHORITY.pem, pair.key)
    assert read.credential.certificate == pair.certificate + AUTHORITY.pem
    assert read.credential.expires == NOW + timedelta(days=3)
    assert read.account == "gateway"
    assert b"PRIVATE KEY" in read.credential.key
    with pytest.raises(InvalidCredential, match="does not belong"):
        read_certificate(pair.certificate, client_pair().key)


def test_an_encrypted_key_is_refused() -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    with pytest.raises(InvalidCredential, match="unencrypted"):
        read_certificate(client_pair().certificate, key)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_are_no_client_certificate(certificate: bytes, key: bytes) -> None:
    with pytest.raises(InvalidCredential):
        read_certificate(certificate, key)
    with pytest.raises(InvalidCredential):
        read_certificate(client_pair().certificate, key)


def test_an_expiry_beyond_all_calendars_is_none() -> None:
    assert read_token(jwt(10**18).encode()).credential.expires is None
    assert read_token(jwt(True).encode()).credential.expires is None
    assert read_token(jwt(0).encode()).credential.expires == datetime(1970, 1, 1, tzinfo=UTC)
