"""What a service account's token says of itself: whose it is, and from when until when it counts.

Nothing is verified here, which only the API server that issued a token can do (TokenReview): these are facts for whoever holds the
token and wants to know when to ask for the next one.
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
        """When this part of its life is over."""
        return self.issued + (self.expires - self.issued) * part

    @property
    def seconds(self) -> float:
        return (self.expires - self.issued).total_seconds()


def read_claims(token: bytes) -> TokenClaims | None:
    """None of what is no token that tells."""
    try:
        payload = token.split(b".")[1]
        found = msgspec.json.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)), type=_Payload)
        return TokenClaims(found.sub, datetime.fromtimestamp(found.iat, UTC), datetime.fromtimestamp(found.exp, UTC))
    except (IndexError, ValueError, OverflowError, OSError, binascii.Error):
        return None
