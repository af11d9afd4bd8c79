"""AWS' Signature Version 4: authenticates a request with a secret key that is not sent; in headers, or in a presigned URL.

The *canonical request* is signed: method, path, query, some headers and a hash of the body, normalized. `Canonical` is that form. A
signer makes it from the request to be sent, a verifier from the received one, and both compute the `signature` from it with the
secret, so there is only one implementation.

Pure functions without a clock; no secret is part of an error or a `repr`. For all services but S3, whose paths are encoded
differently.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from muster.aws.interfaces import AwsCredentials

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_UNRESERVED: Final = "-_.~"

Pairs = Iterable[tuple[str, str]]
"""Decoded query parameters, in any order."""


@dataclass(frozen=True)
class Scope:
    """The scope of a signature: one day, one region, one service."""

    date: str
    """YYYYMMDD"""
    region: str
    service: str

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@dataclass(frozen=True)
class Canonical:
    """`path` is as sent, `query` has no signature, `headers` are the signed ones, including host."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    payload: str
    """SHA-256 of the body, in hexadecimal."""

    @property
    def signed_headers(self) -> str:
        return ";".join(sorted({name.lower() for name, _ in self.headers}))

    def __str__(self) -> str:
        lines = (
            self.method.upper(),
            canonical_path(self.path),
            canonical_query(self.query),
            canonical_headers(self.headers),
            self.signed_headers,
            self.payload,
        )
        return "\n".join(lines)

    def signature(self, secret: str, time: str, scope: Scope) -> str:
        """`time` is the time of signing, as sent."""
        to_sign = "\n".join((ALGORITHM, time, str(scope), hashlib.sha256(str(self).encode()).hexdigest()))
        return hmac.new(signing_key(secret, scope), to_sign.encode(), hashlib.sha256).hexdigest()


def canonical_path(path: str) -> str:
    """Dot segments are resolved, slashes collapsed, and escapes escaped once more."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    end = "/" if path.endswith("/") and kept else ""
    return quote("/" + "/".join(kept) + end, safe="/~")


def canonical_query(pairs: Pairs) -> str:
    escaped = sorted((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in escaped)


def canonical_headers(headers: Pairs) -> str:
    """A line for each, and an empty one; white space is collapsed, several values of one name are joined."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(" ".join(value.split()))
    return "".join(f"{name}:{','.join(values[name])}\n" for name in sorted(values))


def signing_key(secret: str, scope: Scope) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (scope.date, scope.region, scope.service, TERMINATOR):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def payload_hash(body: bytes = b"") -> str:
    return hashlib.sha256(body).hexdigest()


def timestamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime(TIME_FORMAT)


def sign(
    credentials: AwsCredentials,
    region: str,
    service: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
) -> dict[str, str]:
    """The headers to add to a request. All of `headers` are signed: it must not contain those that proxies change."""
    parts, time = urlsplit(url), timestamp(now)
    added = {"X-Amz-Date": time}
    if credentials.session_token:
        added["X-Amz-Security-Token"] = credentials.session_token
    signed = {"host": _host(url), **headers, **added}
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    canonical = Canonical(method, parts.path, query, tuple(signed.items()), payload_hash(body))
    scope = Scope(time[:8], region, service)
    proof = canonical.signature(credentials.secret_access_key, time, scope)
    added["Authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, SignedHeaders={canonical.signed_headers}, Signature={proof}"
    )
    return added


def presign(
    credentials: AwsCredentials,
    region: str,
    service: str,
    url: str,
    headers: Mapping[str, str],
    seconds: int,
    now: datetime,
) -> str:
    """A URL that authenticates this one GET, if `headers` are sent with it."""
    parts, time = urlsplit(url), timestamp(now)
    signed = (("host", _host(url)), *headers.items())
    scope = Scope(time[:8], region, service)
    query = parse_qsl(parts.query, keep_blank_values=True)
    query += [
        ("X-Amz-Algorithm", ALGORITHM),
        ("X-Amz-Credential", f"{credentials.access_key_id}/{scope}"),
        ("X-Amz-Date", time),
        ("X-Amz-Expires", str(seconds)),
        ("X-Amz-SignedHeaders", ";".join(sorted(name.lower() for name, _ in signed))),
    ]
    if credentials.session_token:
        query.append(("X-Amz-Security-Token", credentials.session_token))
    canonical = Canonical("GET", parts.path, tuple(query), signed, payload_hash())
    query.append(("X-Amz-Signature", canonical.signature(credentials.secret_access_key, time, scope)))
    written = "&".join(f"{quote(name, safe=_UNRESERVED)}={quote(value, safe=_UNRESERVED)}" for name, value in query)
    return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}?{written}"


def _host(url: str) -> str:
    """As clients send it: without the scheme's default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"
