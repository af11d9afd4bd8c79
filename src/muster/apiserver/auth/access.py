"""Authentication and authorization of one cluster: from the credentials of a request to a user, and from a user to a decision.

Authenticators run in kube-apiserver's order: front-proxy headers, client certificate, bearer token (from the Authorization header,
then from a WebSocket's subprotocols), anonymous. An invalid credential results in 401 unless a later one is valid; only a request
without any credential is anonymous. Certificates are verified with the CA of the addressed cluster here, because the cluster is not
known during the TLS handshake. Results are cached per connection (certificates) and for a short time per token.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from cryptography import x509

from muster.apiserver import errors
from muster.apiserver.auth.cluster_keys import ClusterKeys, ClusterKeyStore
from muster.apiserver.auth.impersonation import impersonated
from muster.apiserver.auth.rbac import Rbac
from muster.apiserver.auth.serviceaccounts import API_AUDIENCES, BoundObjectGone, InvalidToken, TokenIssuer
from muster.apiserver.auth.webhook_identity import WebhookIdentity
from muster.apiserver.cluster import Cluster
from muster.http import Request
from muster.kube.certificates import common_name
from muster.kube.client_certificates import certificate_user
from muster.kube.front_proxy import remote_user
from muster.kube.websocket_token import upgrade_token
from muster.machinery.authentication import ANONYMOUS, MASTERS, UserInfo, authenticated
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision
from muster.machinery.logs import get_logger

log = get_logger(__name__)

TokenAuthenticator = Callable[[str, Sequence[str]], Awaitable[tuple[UserInfo, list[str]] | None]]
"""(token, requested audiences) → (user, accepted audiences), or None if another authenticator may know the token. Raises ApiError
401."""

_CertificateIdentity = tuple[ClusterKeys | None, UserInfo | None, bool, datetime]
"""The result of verifying a certificate for a cluster: the keys that were used, the user if the client CA has signed it, whether it
is that of a front proxy, and its notAfter."""
_TOKEN_CACHE_SIZE = 4096
_TOKEN_CACHE_TTL = 10.0
_MEMO = "muster.user"
_EXTRA_SPACE_WARNING = "the provided Authorization header contains extra space before the bearer token, and is ignored"


class TokenRefused(errors.ApiError):
    """A service account token that is not accepted. Only a TokenReview shows the reason."""

    def __init__(self, problem: str) -> None:
        refusal = errors.unauthorized()
        super().__init__(refusal.code, refusal.reason, refusal.message)
        self.problem = problem


class Access:
    def __init__(
        self,
        cluster: Cluster,
        key_store: ClusterKeyStore,
        tokens: Sequence[TokenAuthenticator],
        issuer_url: Callable[[], str],
        proxy_names: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self.key_store = key_store
        self.webhook_identity = WebhookIdentity(key_store, cluster.clock)
        self.rbac = Rbac(cluster)
        self._issuer_url = issuer_url
        self._issuer: TokenIssuer | None = None
        self._tokens = [*tokens, self._service_account]
        self._proxy_names = frozenset(proxy_names)
        self._cache: OrderedDict[bytes, tuple[float, UserInfo]] = OrderedDict()

    @property
    def audiences(self) -> Sequence[str]:
        """The audiences of this API server."""
        return API_AUDIENCES

    async def token_issuer(self) -> TokenIssuer:
        if self._issuer is None:
            keys = await self.key_store.keys(self._cluster.clock())
            self._issuer = TokenIssuer(self._cluster, keys.signing_key, self._issuer_url())
        return self._issuer

    async def _service_account(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
        if token.count(".") != 2:
            return None
        issuer = await self.token_issuer()
        try:
            try:
                return issuer.verify(token, audiences)
            except BoundObjectGone:  # another server on the same database may just have created it
                if not await self._cluster.catch_up():
                    raise
                return issuer.verify(token, audiences)
        except InvalidToken as problem:
            log.debug("token rejected", cluster=self._cluster.name, reason=str(problem))
            raise TokenRefused(str(problem)) from None

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if MASTERS in user.groups:
            return ALLOWED
        return self.rbac.authorize(user, attributes)

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        return impersonated(user, request, self.authorize)

    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        """The user who sends the request; warnings about its credentials are added to `warnings`."""
        certificate = request.connection.peer_certificate
        if certificate is not None:
            user = self._by_certificate(request, certificate)
            if user is not None:
                return user
        refusal: errors.ApiError | None = None
        header = request.headers.get("authorization")
        if header is not None:
            scheme, *rest = header.strip().split(" ", 2)
            if scheme.lower() == "bearer" and rest and rest[0]:
                try:
                    return await self._by_token(rest[0])
                except errors.ApiError as error:
                    refusal = error
            elif scheme.lower() == "bearer" and len(rest) == 2:
                warnings.append(_EXTRA_SPACE_WARNING)
        if request.upgrade and (token := _websocket_token(request)):
            return await self._by_token(token)
        if refusal is not None:
            raise refusal
        if certificate is not None or request.connection.foreign_certificate is not None:
            raise errors.unauthorized()
        return ANONYMOUS

    async def token_identity(self, token: str, audiences: Sequence[str] = ()) -> tuple[UserInfo, list[str]] | None:
        """The user of a bearer token, from the first authenticator that knows it; also used by TokenReview."""
        for authenticator in self._tokens:
            found = await authenticator(token, audiences)
            if found is not None:
                return authenticated(found[0]), found[1]
        return None

    def invalidate_tokens(self) -> None:
        """Verify every token again when it is used next, because an object that tokens are bound to is gone or a token has
        expired."""
        self._cache.clear()

    async def _by_token(self, token: str) -> UserInfo:
        digest = hashlib.sha256(token.encode()).digest()
        cached = self._cache.get(digest)
        now = time.monotonic()
        if cached is not None and cached[0] > now:
            return cached[1]
        found = await self.token_identity(token)
        if found is None:
            raise errors.unauthorized()
        self._cache[digest] = (now + _TOKEN_CACHE_TTL, found[0])
        self._cache.move_to_end(digest)
        while len(self._cache) > _TOKEN_CACHE_SIZE:
            self._cache.popitem(last=False)
        return found[0]

    def _by_certificate(self, request: Request, der: bytes) -> UserInfo | None:
        """The user of a client certificate; for a front proxy, the user in its headers."""
        memo: dict[str, _CertificateIdentity] = request.connection.memo.setdefault(_MEMO, {})
        known, keys = memo.get(self._cluster.name), self.key_store.existing()
        if known is None or known[0] is not keys:  # a cluster that was removed and created again has other keys
            known = memo[self._cluster.name] = self._certificate_identity(der, keys)
        _, user, is_proxy, until = known
        if self._cluster.clock() > until:
            return None
        if is_proxy:
            remote = remote_user(request.headers.items())
            if remote is not None:
                return authenticated(remote)
        return user

    def _certificate_identity(self, der: bytes, keys: ClusterKeys | None) -> _CertificateIdentity:
        certificate = x509.load_der_x509_certificate(der)
        until = certificate.not_valid_after_utc
        if keys is None:
            return keys, None, False, until
        if keys.proxy_ca.signed(certificate):
            return keys, None, not self._proxy_names or common_name(certificate.subject) in self._proxy_names, until
        user = certificate_user(certificate) if keys.client_ca.signed(certificate) else None
        return keys, None if user is None else authenticated(user), False, until


def _websocket_token(request: Request) -> str:
    """Raises ApiError 401."""
    try:
        return upgrade_token(request.headers.get("upgrade"), request.headers.getall("sec-websocket-protocol"))
    except ValueError as problem:
        log.debug("token rejected", reason=str(problem))
        raise errors.unauthorized() from None
