"""A token of a service account on the hub as an addon's credential: asked for, and again when a fifth of its life is left.

How long a token lives is read from the token itself, so nothing has to be remembered beside it. An account that was made anew has
another uid, by which a stored credential is known to be of another (`WantedCredential.digest`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from muster.api.resource import Document
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_time
from muster.registration.agent.addons.registrations import TOKEN_ENTRY
from muster.registration.drivers.certificates.machine import LONGEST_SLEEP
from muster.registration.drivers.seam import Progress, Report
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import SERVICE_ACCOUNTS

DEFAULT_SECONDS: Final = 31_536_000
SHORTEST_SECONDS: Final = 600
REFRESHED: Final = "AddonTokenRefreshed"
FAILED: Final = "TokenCreationFailed"
RENEWAL: Final = 0.2
"""Of a token's life: with so much left it is renewed."""
SHORTEST_PAUSE: Final = 30.0
"""Between two requests, however short the hub makes tokens live."""


class _Claims(msgspec.Struct):
    exp: float
    iat: float


@dataclass(frozen=True)
class Lifetime:
    since: datetime
    until: datetime

    @property
    def renewal(self) -> datetime:
        return self.until - (self.until - self.since) * RENEWAL


def lifetime_of(token: bytes) -> Lifetime | None:
    """None of what is no token that tells."""
    try:
        payload = token.split(b".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)), type=_Claims)
        return Lifetime(datetime.fromtimestamp(claims.iat, UTC), datetime.fromtimestamp(claims.exp, UTC))
    except (IndexError, ValueError, OverflowError, OSError, binascii.Error):
        return None


def token_problem(token: bytes, now: datetime) -> str:
    """Why a stored token cannot be used; empty when it can."""
    lifetime = lifetime_of(token)
    if lifetime is None:
        return "there is no token"
    return "" if now < lifetime.until else f"the token expired at {format_time(lifetime.until)}"


def refreshed(token: bytes) -> Report | None:
    """What is told of a token that is in use."""
    lifetime = lifetime_of(token)
    if lifetime is None:
        return None
    return Report(True, REFRESHED, f"Addon token refreshed, expires at {format_time(lifetime.until)}")


class TokenSource:
    """A `CredentialSource`. Without a uid of the account there is nothing to ask for yet."""

    def __init__(self, cluster: str, account: str, account_uid: str, seconds: int, clock: Clock) -> None:
        self._cluster = cluster
        self._account = account
        self._account_uid = account_uid
        self._seconds = max(seconds or DEFAULT_SECONDS, SHORTEST_SECONDS)
        self._clock = clock

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> Progress:
        if not self._account_uid:
            return Progress()
        rest = self._until_renewal(stored.get(TOKEN_ENTRY, b""))
        if rest > 0:
            return Progress(again=min(rest, LONGEST_SLEEP))
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": self._seconds},
        }
        answer = await hub.create(SERVICE_ACCOUNTS, request, self._cluster, name=self._account, subresource="token")
        token = str((answer.get("status") or {}).get("token") or "").encode()
        if lifetime_of(token) is None:
            raise OSError("the hub has answered with something that is no token")
        rest = max(self._until_renewal(token), SHORTEST_PAUSE)
        return Progress(credential={TOKEN_ENTRY: token}, again=min(rest, LONGEST_SLEEP), report=refreshed(token))

    def _until_renewal(self, token: bytes) -> float:
        lifetime = lifetime_of(token)
        return 0.0 if lifetime is None else (lifetime.renewal - self._clock.now()).total_seconds()
