"""The claims of a service account's token: its account and its validity.

Nothing is verified here, which only the issuing API server can do (TokenReview): holders of the token use the claims to know when
to renew it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec


class _Payload(msgspec.Struct):
    exp: float
    iat: float
    sub: str = ""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    subject: str
    issued: datetime
    expires: datetime

    def after(self, part: float) -> datetime:
        """The time when this part of its lifetime has passed."""
        return self.issued + (self.expires - self.issued) * part

    @property
    def seconds(self) -> float:
        return (self.expires - self.issued).total_seconds()


def read_claims(token: bytes) -> TokenClaims | None:
    """None for a text that is no token, or has no such claims."""
    try:
        payload = token.split(b".")[1]
        found = msgspec.json.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)), type=_Payload)
        return TokenClaims(found.sub, datetime.fromtimestamp(found.iat, UTC), datetime.fromtimestamp(found.exp, UTC))
    except (IndexError, ValueError, OverflowError, OSError, binascii.Error):
        return None
