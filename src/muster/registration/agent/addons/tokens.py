"""A service account token of the hub as an addon's credential: requested, and renewed when a fifth of its lifetime is left.

The lifetime is read from the token itself, so nothing else is stored. A recreated service account has another uid, by which a
stored credential is recognized as outdated (`WantedCredential.digest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from muster.api.resource import Document
from muster.kube.token_claims import read_claims
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_time
from muster.registration.agent.addons.registrations import TOKEN_ENTRY
from muster.registration.drivers.certificates.certificate_manager import LONGEST_SLEEP
from muster.registration.drivers.interfaces import CredentialReport, StepResult
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


def token_problem(token: bytes, now: datetime) -> str:
    """Why a stored token cannot be used; empty when it can."""
    claims = read_claims(token)
    if claims is None:
        return "there is no token"
    return "" if now < claims.expires else f"the token expired at {format_time(claims.expires)}"


def refreshed(token: bytes) -> CredentialReport | None:
    """What is told of a token that is in use."""
    claims = read_claims(token)
    if claims is None:
        return None
    return CredentialReport(True, REFRESHED, f"Addon token refreshed, expires at {format_time(claims.expires)}")


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
    ) -> StepResult:
        if not self._account_uid:
            return StepResult()
        rest = self._until_renewal(stored.get(TOKEN_ENTRY, b""))
        if rest > 0:
            return StepResult(again=min(rest, LONGEST_SLEEP))
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": self._seconds},
        }
        answer = await hub.create(SERVICE_ACCOUNTS, request, self._cluster, name=self._account, subresource="token")
        token = str((answer.get("status") or {}).get("token") or "").encode()
        if read_claims(token) is None:
            raise OSError("the hub has answered with something that is no token")
        rest = max(self._until_renewal(token), SHORTEST_PAUSE)
        return StepResult(credential={TOKEN_ENTRY: token}, again=min(rest, LONGEST_SLEEP), report=refreshed(token))

    def _until_renewal(self, token: bytes) -> float:
        claims = read_claims(token)
        return 0.0 if claims is None else (claims.after(1 - RENEWAL) - self._clock.now()).total_seconds()
