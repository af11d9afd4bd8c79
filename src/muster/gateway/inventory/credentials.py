"""Tokens, certificates and keys as they lie in Secrets: read with bounds, made plain, and dated.

Whoever may write such a Secret may write anything into it. What comes out of here is fit for its use: a token is what may stand
in an Authorization field and nothing more, PEM is certificates alone (a key that somebody left beside them is not passed on), and
a key belongs to its certificate. What a token says of itself is read without knowing whether it is true; it serves to tell when
it ends, and as whom the cluster knows it, to people.

No text of a refusal quotes what was read.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from muster.gateway.target import BearerToken, ClientCertificate
from muster.kube.certificates import common_name

MAX_TOKEN_LENGTH: Final = 16 * 1024
MAX_PEM_LENGTH: Final = 256 * 1024
MAX_AGENT_PEM_LENGTH: Final = 64 * 1024
"""Of what a cluster's agent may write as often as it likes: reading it costs time that is everybody's."""
MAX_CERTIFICATES: Final = 200

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""RFC 6750's b68token."""
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9:._@/-]{1,253}", re.ASCII)
_UNREADABLE: Final = (ValueError, TypeError, OverflowError, UnsupportedAlgorithm)
"""What the library raises for what it cannot read; TypeError for a key that is encrypted."""


class InvalidCredential(ValueError):
    """What is wrong with a credential, fit to be shown."""


class ReadToken(NamedTuple):
    credential: BearerToken
    account: str
    """As whom the token says it is; empty where it does not say."""


class ReadCertificate(NamedTuple):
    credential: ClientCertificate
    account: str


def read_base64(value: str) -> bytes:
    """A value of a Secret, or a CA bundle. Raises InvalidCredential."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCredential("is not base64") from None


def read_token(raw: bytes) -> ReadToken:
    """Raises InvalidCredential."""
    if len(raw) > MAX_TOKEN_LENGTH:
        raise InvalidCredential(f"is longer than {MAX_TOKEN_LENGTH} bytes")
    text = raw.strip().decode("ascii", "replace")
    if not _TOKEN.fullmatch(text):
        raise InvalidCredential("is not a bearer token: it is empty or has characters that no token has")
    claims = _claims(text)
    return ReadToken(BearerToken(text, _instant(claims.get("exp"))), _account(claims.get("sub")))


def read_authorities(raw: bytes, limit: int = MAX_PEM_LENGTH) -> bytes:
    """The certificates in a bundle as PEM, without whatever else is in it. Raises InvalidCredential."""
    return b"".join(_pem(one) for one in _certificates(raw, limit))


def read_certificate(certificate: bytes, key: bytes) -> ReadCertificate:
    """A client certificate, with those that stand behind it, and its key. Raises InvalidCredential, which says which is meant."""
    chain = _certificates(certificate)
    if len(key) > MAX_PEM_LENGTH:
        raise InvalidCredential("has a key of an impossible size")
    try:
        private = serialization.load_pem_private_key(key, None, unsafe_skip_rsa_key_validation=True)
        matching = private.public_key() == chain[0].public_key()
        plain = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    except _UNREADABLE:
        raise InvalidCredential("has no unencrypted private key in PEM") from None
    if not matching:
        raise InvalidCredential("has a key that does not belong to the (first) certificate")
    try:
        expires, name = chain[0].not_valid_after_utc, common_name(chain[0].subject)
    except _UNREADABLE:
        raise InvalidCredential("has a certificate that cannot be read") from None
    pem = b"".join(_pem(one) for one in chain)
    return ReadCertificate(ClientCertificate(pem, plain, expires), _account(name))


def _certificates(raw: bytes, limit: int = MAX_PEM_LENGTH) -> list[x509.Certificate]:
    if len(raw) > limit:
        raise InvalidCredential(f"is longer than {limit} bytes")
    try:
        found = x509.load_pem_x509_certificates(raw)
    except _UNREADABLE:
        raise InvalidCredential("has no certificates in PEM, or one that cannot be read") from None
    if len(found) > MAX_CERTIFICATES:
        raise InvalidCredential(f"has more than {MAX_CERTIFICATES} certificates")
    return found


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says of itself; nothing where it is none. Each claim counts alone: an odd one beside it must not hide when a
    token ends."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _instant(seconds: object) -> datetime | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _account(name: object) -> str:
    return name if isinstance(name, str) and _ACCOUNT.fullmatch(name) else ""
