"""When the credentials of a request expire: the notAfter of a client certificate, the `exp` of a token.

Whether they are still valid is decided by `Access`; this module only computes when to check again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from cryptography import x509

from muster.apiserver.auth.serviceaccounts import LEEWAY_SECONDS
from muster.http import Request
from muster.kube.websocket_token import upgrade_token

_MEMO = "muster.certificate-end"
_BEARER = "bearer "


def expiration_times(request: Request) -> Sequence[datetime]:
    """The times at which a credential of the request expires, in order."""
    tokens = (_authorization_token(request.headers.get("authorization") or ""), _websocket_token(request))
    found = [_certificate_end(request), *(_token_end(token) for token in tokens if token)]
    return sorted(end for end in found if end is not None)


def _certificate_end(request: Request) -> datetime | None:
    der = request.connection.peer_certificate
    if der is None:
        return None
    memo = request.connection.memo
    if _MEMO not in memo:
        memo[_MEMO] = x509.load_der_x509_certificate(der).not_valid_after_utc
    end: datetime = memo[_MEMO]
    return end


def _authorization_token(header: str) -> str:
    return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""


def _websocket_token(request: Request) -> str:
    if not request.upgrade:
        return ""
    try:
        return upgrade_token(request.headers.get("upgrade"), request.headers.getall("sec-websocket-protocol"))
    except ValueError:
        return ""


def _token_end(token: str) -> datetime | None:
    """The expiration of a JWT; None for other tokens."""
    try:
        return datetime.fromtimestamp(unverified_claims(token)["exp"], UTC) + timedelta(seconds=LEEWAY_SECONDS)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


def bearer_token(request: Request) -> str:
    """The token that authentication uses: from the Authorization header, else from a WebSocket's subprotocols; "" if there is
    none."""
    return _authorization_token(request.headers.get("authorization") or "") or _websocket_token(request)


def unverified_claims(token: str) -> Mapping[str, Any]:
    """The claims of a JWT, without verification of the signature; empty if the token is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
