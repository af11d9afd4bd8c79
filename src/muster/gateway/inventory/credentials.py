"""Parses tokens, certificates and keys from Secrets, with limits.

Whoever may write such a Secret may write anything into it. What is returned is fit for its use: a token has only the characters
of an Authorization field, PEM has only certificates (a private key beside them is dropped), and a private key belongs to its
certificate. The claims of a token are read without verifying it; they are used for its time of expiry and, for display, the
account.

No error message quotes what was read.
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
"""For what a cluster's agent may write as often as it likes: parsing it blocks the event loop."""
MAX_CERTIFICATES: Final = 200

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""RFC 6750's b68token."""
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9:._@/-]{1,253}", re.ASCII)
_PARSE_ERRORS: Final = (ValueError, TypeError, OverflowError, UnsupportedAlgorithm)
"""Errors of the library for invalid input; TypeError for an encrypted key."""


class InvalidCredential(ValueError):
    """What is wrong with a credential; the message may be shown to users."""


class ParsedToken(NamedTuple):
    credential: BearerToken
    account: str
    """The subject of the token; empty if it has none."""


class ParsedCertificate(NamedTuple):
    credential: ClientCertificate
    account: str


def read_base64(value: str) -> bytes:
    """Decodes a value of a Secret, or a CA bundle. Raises InvalidCredential."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCredential("is not base64") from None


def read_token(raw: bytes) -> ParsedToken:
    """Raises InvalidCredential."""
    if len(raw) > MAX_TOKEN_LENGTH:
        raise InvalidCredential(f"is longer than {MAX_TOKEN_LENGTH} bytes")
    text = raw.strip().decode("ascii", "replace")
    if not _TOKEN.fullmatch(text):
        raise InvalidCredential("is not a bearer token: it is empty or has invalid characters")
    claims = _claims(text)
    return ParsedToken(BearerToken(text, _instant(claims.get("exp"))), _account(claims.get("sub")))


def read_authorities(raw: bytes, limit: int = MAX_PEM_LENGTH) -> bytes:
    """The certificates of a bundle as PEM, without anything else in it. Raises InvalidCredential."""
    return b"".join(_pem(one) for one in _certificates(raw, limit))


def read_certificate(certificate: bytes, key: bytes) -> ParsedCertificate:
    """A client certificate with its intermediates, and its key. Raises InvalidCredential, which names the invalid part."""
    chain = _certificates(certificate)
    if len(key) > MAX_PEM_LENGTH:
        raise InvalidCredential("has a key of an impossible size")
    try:
        private = serialization.load_pem_private_key(key, None, unsafe_skip_rsa_key_validation=True)
        matching = private.public_key() == chain[0].public_key()
        plain = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    except _PARSE_ERRORS:
        raise InvalidCredential("has no unencrypted private key in PEM") from None
    if not matching:
        raise InvalidCredential("has a key that does not belong to the (first) certificate")
    try:
        expires, name = chain[0].not_valid_after_utc, common_name(chain[0].subject)
    except _PARSE_ERRORS:
        raise InvalidCredential("has a certificate that cannot be read") from None
    pem = b"".join(_pem(one) for one in chain)
    return ParsedCertificate(ClientCertificate(pem, plain, expires), _account(name))


def _certificates(raw: bytes, limit: int = MAX_PEM_LENGTH) -> list[x509.Certificate]:
    if len(raw) > limit:
        raise InvalidCredential(f"is longer than {limit} bytes")
    try:
        found = x509.load_pem_x509_certificates(raw)
    except _PARSE_ERRORS:
        raise InvalidCredential("has no certificates in PEM, or one that cannot be read") from None
    if len(found) > MAX_CERTIFICATES:
        raise InvalidCredential(f"has more than {MAX_CERTIFICATES} certificates")
    return found


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JWT; empty if it is none. Each claim is read alone: an invalid one must not hide the time of expiry."""
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
