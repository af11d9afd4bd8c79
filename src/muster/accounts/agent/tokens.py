"""Tokens of the ServiceAccounts: their validity, when they are replaced, and the requests for them.

A token is judged by its own claims, so no state is needed beside it and a restart changes nothing: it is kept while it belongs to
the right ServiceAccount and less than `ROTATION_SHARE` of its actual lifetime is over, which may be shorter than requested.
Whether the cluster still accepts it is checked by a TokenReview: for every token that is new to this process, for every token
whose ServiceAccount was created again, and otherwise once in `REVIEW_INTERVAL`, because no watch reports that a signing key was
removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from muster.api.authentication.v1beta1 import ManagedServiceAccount, Rotation
from muster.kube.token_claims import TokenClaims, read_claims
from muster.machinery.clock import Clock
from muster.machinery.golang.durations import SECOND, parse_duration
from muster.machinery.golang.errors import GoError
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import SERVICE_ACCOUNTS, TOKEN_REVIEWS

ROTATION_SHARE: Final = 0.8
"""Share of a token's lifetime after which it is replaced."""
REVIEW_INTERVAL: Final = 3600.0
MIN_ROTATION_INTERVAL: Final = 10.0
"""Seconds between two rotations by age, however short tokens live and however much clocks differ."""
MIN_VALIDITY: Final = 600
MAX_VALIDITY: Final = 1 << 32
"""Seconds; the range that an API server accepts."""
_FIELD: Final = "spec.rotation.validity"


class AccountError(Exception):
    """Why an account has no token on the hub: the problem, the object or field, and the remedy."""


def validity_of(account: ManagedServiceAccount) -> int:
    """Seconds. Raises AccountError."""
    text = (account.spec.rotation if account.spec is not None else Rotation()).validity
    try:
        seconds = parse_duration(text) // SECOND
    except GoError as error:
        raise AccountError(f"{_FIELD}: {error}; expected a duration such as 24h0m0s") from None
    if not MIN_VALIDITY <= seconds <= MAX_VALIDITY:
        raise AccountError(f"{_FIELD}: {text} is not between 10m and 2^32 seconds, as API servers require; choose another")
    return seconds


@dataclass(frozen=True, slots=True)
class IssuedToken:
    token: bytes
    claims: TokenClaims

    def __repr__(self) -> str:
        return f"IssuedToken({self.claims!r})"


@dataclass(frozen=True, slots=True)
class _Review:
    digest: bytes
    account_uid: str
    due: float


class AccountTokens:
    """Tokens of ServiceAccounts in one namespace of the managed cluster."""

    def __init__(self, spoke: KubeClient, namespace: str, clock: Clock) -> None:
        self._spoke = spoke
        self._namespace = namespace
        self._clock = clock
        self._reviews: dict[str, _Review] = {}
        self._rotated: dict[str, float] = {}

    def subject(self, name: str) -> str:
        return f"system:serviceaccount:{self._namespace}:{name}"

    def forget(self, name: str) -> None:
        self._reviews.pop(name, None)
        self._rotated.pop(name, None)

    async def request(self, name: str, uid: str, validity: int) -> IssuedToken:
        """Request a new token. Raises AccountError and KubeError."""
        spec = {"expirationSeconds": validity}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._spoke.create(SERVICE_ACCOUNTS, body, self._namespace, name=name, subresource="token")
        token = str((answer.get("status") or {}).get("token") or "").encode()
        claims = read_claims(token)
        if claims is None or claims.subject != self.subject(name):
            raise AccountError(f"the managed cluster's answer to the TokenRequest has no token of {self.subject(name)}")
        self._rotated[name] = self._clock.monotonic()
        self._accepted(name, token, uid)
        return IssuedToken(token, claims)

    async def replacement_reason(self, name: str, uid: str, token: bytes, longest: float | None) -> str:
        """Why a new token is needed; empty if this one is to be kept. `longest` is the lifetime above which a token is replaced,
        if any. Raises KubeError."""
        claims = read_claims(token)
        if claims is None:
            return "it is missing or malformed"
        if claims.subject != self.subject(name):
            return "it belongs to another account"
        if longest is not None and claims.seconds > longest:
            return "its lifetime is longer than the requested validity"
        if self._until_rotation(name, claims) <= 0:
            return "most of its lifetime is over"
        return "" if await self._review(name, token, uid) else "the managed cluster does not accept it"

    def recheck_delay(self, name: str, claims: TokenClaims) -> float:
        """Seconds until the token has to be checked again."""
        review = self._reviews.get(name)
        reviewed = REVIEW_INTERVAL if review is None else max(review.due - self._clock.monotonic(), 0.0)
        return min(self._until_rotation(name, claims), reviewed)

    def _until_rotation(self, name: str, claims: TokenClaims) -> float:
        remaining = (claims.after(ROTATION_SHARE) - self._clock.now()).total_seconds()
        rotated = self._rotated.get(name)
        return remaining if rotated is None else max(remaining, rotated + MIN_ROTATION_INTERVAL - self._clock.monotonic())

    async def _review(self, name: str, token: bytes, uid: str) -> bool:
        known = self._reviews.get(name)
        digest = sha256(token).digest()
        if known is not None and (known.digest, known.account_uid) == (digest, uid) and self._clock.monotonic() < known.due:
            return True
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token.decode("ascii", "replace")},
        }
        status = (await self._spoke.create(TOKEN_REVIEWS, body)).get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated") or user.get("username") != self.subject(name):
            return False
        self._accepted(name, token, uid)
        return True

    def _accepted(self, name: str, token: bytes, uid: str) -> None:
        self._reviews[name] = _Review(sha256(token).digest(), uid, self._clock.monotonic() + REVIEW_INTERVAL)
