"""Tokens of an identity provider, verified with the keys that its issuer publishes.

The issuer's discovery document has the URL of its keys; both are fetched over TLS. AWS publishes them for EKS clusters; here a
registered cluster is called at its own endpoint, which is verified with the CA that it was registered with, and anonymous users
must be allowed to read them there (`system:service-account-issuer-discovery`). Any other issuer is called at its URL, verified with
the system's CAs. A token is accepted if one of those keys signed it, with the key's algorithm, and if its audience is one of the
provider and its time is valid. Keys are cached for a while; a token with an unknown key triggers another fetch, but not every time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.model import OidcProvider
from muster.fleet.aws.world import World
from muster.http import UpstreamError, UpstreamPool
from muster.http.tls import client_context
from muster.http.upstream import encode_request
from muster.machinery.logs import get_logger

log = get_logger(__name__)

ALGORITHMS: Final = {"EC": "ES256", "RSA": "RS256"}
"""By the type of the key."""
LEEWAY: Final = 10.0
KEEP: Final = 300.0
FETCH_AGAIN: Final = 2.0
"""Seconds between two fetches for unknown keys."""
FETCH_TIMEOUT: Final = 5.0
LONGEST: Final = 1024 * 1024
DISCOVERY: Final = "/.well-known/openid-configuration"

Fetch = Callable[[str, bytes | None], Awaitable[bytes]]
"""The document at a URL; the CA that verifies its server, None for the system's. Raises OSError."""


@dataclass(frozen=True)
class WebIdentity:
    provider: OidcProvider
    subject: str
    audiences: tuple[str, ...]


@dataclass(frozen=True)
class _Keys:
    fetched: float
    keys: Mapping[str, Mapping[str, Any]]
    """By key id."""


class WebIdentities:
    def __init__(self, world: World, fetch: Fetch | None = None) -> None:
        self._world = world
        self._fetch = fetch or fetch_document
        self._known: dict[str, _Keys] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def verify(self, account: str, token: str) -> WebIdentity:
        """The verified identity of a token, by a provider of this account. Raises AwsRefusal."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _invalid("The ID Token provided is not a valid JWT.") from None
        issuer = claims.get("iss")
        known = self._world.account(account)
        provider = known.providers.get(str(issuer).removeprefix("https://")) if known is not None else None
        if provider is None or issuer != f"https://{provider.url}":
            raise _invalid(f"No OpenIDConnect provider found in your account for {str(issuer)[:200]}")
        key = await self._key(str(issuer), str(header.get("kid", "")))
        algorithm = ALGORITHMS.get(str(key.get("kty")))
        if algorithm is None or header.get("alg") != algorithm:
            raise _invalid("The token is signed by an algorithm that its key is not for.")
        try:
            public = jwt.PyJWK(dict(key), algorithm).key
            claims = jwt.decode(token, public, algorithms=[algorithm], options=_SIGNATURE_ONLY)
        except (jwt.PyJWTError, ValueError):
            raise _invalid("Provided token's signature does not verify.") from None
        self._check_times(claims)
        return WebIdentity(provider, str(claims["sub"]), _audiences(claims, provider))

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._world.clock.now().timestamp()
        if not all(isinstance(claims.get(name, 0), int | float) for name in ("exp", "iat", "nbf")):
            raise _invalid("The token's times are no numbers.")
        if now > claims["exp"] + LEEWAY:
            raise AwsRefusal("ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time")
        if now < max(claims.get("nbf", 0), claims["iat"]) - LEEWAY:
            raise _invalid("The token is not valid yet.")

    async def _key(self, issuer: str, key_id: str) -> Mapping[str, Any]:
        async with self._locks.setdefault(issuer, asyncio.Lock()):
            known = self._known.get(issuer)
            age = self._world.clock.monotonic() - known.fetched if known is not None else 0.0
            if known is None or age > KEEP or (key_id not in known.keys and age > FETCH_AGAIN):
                known = self._known[issuer] = _Keys(self._world.clock.monotonic(), await self._published(issuer))
        found = known.keys.get(key_id) if key_id else None
        if found is None:
            raise _invalid("Couldn't retrieve verification key from your identity provider: it publishes no key of this id.")
        return found

    async def _published(self, issuer: str) -> Mapping[str, Mapping[str, Any]]:
        published_at, authority = self._publisher(issuer)
        try:
            discovery = json.loads(await self._fetch(published_at + DISCOVERY, authority))
            if discovery["issuer"] != issuer or not str(discovery["jwks_uri"]).startswith("https://"):
                raise _invalid("The identity provider's discovery document is of another issuer.")
            keys = json.loads(await self._fetch(discovery["jwks_uri"], authority))["keys"]
            return {key["kid"]: key for key in keys if isinstance(key.get("kid"), str)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("keys of an issuer could not be fetched", issuer=issuer, error=f"{type(error).__name__}: {error}")
            text = "Couldn't retrieve verification key from your identity provider"
            raise AwsRefusal("IDPCommunicationError", f"{text}: {type(error).__name__}") from None

    def _publisher(self, issuer: str) -> tuple[str, bytes | None]:
        """The URL of the issuer's documents, and the CA of its server."""
        for cluster in self._world.state.clusters.values():
            if cluster.issuer == issuer:
                return cluster.endpoint.rstrip("/"), cluster.authority.encode() or None
        return issuer, None


_SIGNATURE_ONLY: Final[Any] = {
    "verify_aud": False,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["exp", "iat", "iss", "sub", "aud"],
}
"""Times are checked here with the injected clock."""


def _audiences(claims: Mapping[str, Any], provider: OidcProvider) -> tuple[str, ...]:
    given = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    audiences = tuple(map(str, given))
    if not set(audiences) & set(provider.audiences):
        raise _invalid("Incorrect token audience")
    return audiences


def _invalid(text: str) -> AwsRefusal:
    return AwsRefusal("InvalidIdentityToken", text)


async def fetch_document(url: str, authority: bytes | None) -> bytes:
    """Raises OSError. Redirects are not followed."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise OSError(f"{url[:200]} is no https:// URL")
    tls = await asyncio.to_thread(client_context, authority)
    pool = UpstreamPool(max_idle=0)
    fields = [("Host", parts.netloc), ("User-Agent", "muster-local-aws"), ("Accept", "application/json, */*")]
    request = encode_request("GET", parts.path or "/", fields)
    try:
        async with asyncio.timeout(FETCH_TIMEOUT):
            key = (parts.hostname, parts.port or 443, tls, None)
            head, content = await pool.request(key, request, timeout=FETCH_TIMEOUT, repeat=True, longest=LONGEST)
    except (UpstreamError, TimeoutError) as error:
        raise OSError(f"{url[:200]}: {error}") from error
    finally:
        pool.close()
    if head.status != 200:
        raise OSError(f"{url[:200]}: status {head.status}")
    return content
