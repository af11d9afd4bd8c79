"""One cluster's front door: from credentials to an identity, and from an identity to a decision.

Order and results follow kube-apiserver: front-proxy headers, client certificate, bearer token, anonymous. A bad credential is a
401; only a request without any credential is anonymous. Certificates are checked against the addressed cluster's own CA, because
TLS happens before the cluster is known. Results are cached per connection (certificates) and per token for a short while.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from urllib.parse import unquote

from cryptography import x509

from muster.apiserver import errors
from muster.apiserver.auth.identity import ANONYMOUS, authenticated, from_header
from muster.apiserver.auth.impersonation import impersonated
from muster.apiserver.auth.outgoing import WebhookIdentity
from muster.apiserver.auth.rbac import Rbac
from muster.apiserver.auth.serviceaccounts import API_AUDIENCES, BoundObjectGone, InvalidToken, TokenIssuer
from muster.apiserver.auth.vault import ClusterKeys, Vault
from muster.apiserver.cluster import Cluster
from muster.http import Request
from muster.kube.certificates import CertificateAuthority, common_name, organizations
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision
from muster.machinery.logs import get_logger

log = get_logger(__name__)

TokenAuthenticator = Callable[[str, Sequence[str]], Awaitable[tuple[UserInfo, list[str]] | None]]
"""(token, wanted audiences) → (identity, accepted audiences), or None if the token is not of its kind. Raises ApiError 401."""

_Inspected = tuple[ClusterKeys | None, UserInfo | None, bool, datetime]
"""What a certificate is to a cluster: the keys it was judged by, the identity if their client CA signed it, whether it is an
allowed front proxy, and how long it is valid."""
_TOKEN_CACHE = 4096
_TOKEN_SECONDS = 10.0
_FRONT_PROXY_PREFIX = "x-remote-"
_MEMO = "muster.user"
_EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


class TokenRefused(errors.ApiError):
    """A token of ours that does not serve; only a TokenReview is told why."""

    def __init__(self, problem: str) -> None:
        refusal = errors.unauthorized()
        super().__init__(refusal.code, refusal.reason, refusal.message)
        self.problem = problem


class Access:
    def __init__(
        self,
        cluster: Cluster,
        vault: Vault,
        tokens: Sequence[TokenAuthenticator],
        issuer_url: Callable[[], str],
        proxy_names: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self.vault = vault
        self.webhook_identity = WebhookIdentity(vault, cluster.clock)
        self.rbac = Rbac(cluster)
        self._issuer_url = issuer_url
        self._issuer: TokenIssuer | None = None
        self._tokens = [*tokens, self._service_account]
        self._proxy_names = frozenset(proxy_names)
        self._cache: OrderedDict[bytes, tuple[float, UserInfo]] = OrderedDict()

    @property
    def audiences(self) -> Sequence[str]:
        """What tokens for this API server itself are made out to."""
        return API_AUDIENCES

    async def token_issuer(self) -> TokenIssuer:
        if self._issuer is None:
            keys = await self.vault.keys(self._cluster.clock())
            self._issuer = TokenIssuer(self._cluster, keys.signing_key, self._issuer_url())
        return self._issuer

    async def _service_account(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
        if token.count(".") != 2:
            return None
        issuer = await self.token_issuer()
        try:
            try:
                return issuer.verify(token, audiences)
            except BoundObjectGone:  # another server on the same database may have made it a moment ago
                if not await self._cluster.caught_up():
                    raise
                return issuer.verify(token, audiences)
        except InvalidToken as problem:
            log.debug("token refused", cluster=self._cluster.name, reason=str(problem))
            raise TokenRefused(str(problem)) from None

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if MASTERS in user.groups:
            return ALLOWED
        return self.rbac.authorize(user, attributes)

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        return impersonated(user, request, self.authorize)

    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        """Who sends the request; what is odd about its credentials is added to `warnings`."""
        certificate = request.connection.peer_certificate
        if certificate is not None:
            user = self._by_certificate(request, certificate)
            if user is not None:
                return user
        header = request.headers.get("authorization")
        if header is not None:
            scheme, *rest = header.strip().split(" ", 2)
            if scheme.lower() == "bearer" and rest and rest[0]:
                return await self._by_token(rest[0])
            if scheme.lower() == "bearer" and len(rest) == 2:
                warnings.append(_EXTRA_SPACE)
        if certificate is not None or request.connection.foreign_certificate is not None:
            raise errors.unauthorized()
        return ANONYMOUS

    async def token_identity(self, token: str, audiences: Sequence[str] = ()) -> tuple[UserInfo, list[str]] | None:
        """Who a bearer token stands for, asked of every authenticator in turn (also what TokenReview answers)."""
        for authenticator in self._tokens:
            found = await authenticator(token, audiences)
            if found is not None:
                return authenticated(found[0]), found[1]
        return None

    def forget_tokens(self) -> None:
        """Something that tokens are bound to, or their time, has ended: each is verified again when it next comes."""
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
        self._cache[digest] = (now + _TOKEN_SECONDS, found[0])
        self._cache.move_to_end(digest)
        while len(self._cache) > _TOKEN_CACHE:
            self._cache.popitem(last=False)
        return found[0]

    def _by_certificate(self, request: Request, der: bytes) -> UserInfo | None:
        """The certificate's identity, or, for a front proxy, that of the user it speaks for."""
        memo: dict[str, _Inspected] = request.connection.memo.setdefault(_MEMO, {})
        known, keys = memo.get(self._cluster.name), self.vault.existing()
        if known is None or known[0] is not keys:  # a cluster that was removed and made anew has other keys under its name
            known = memo[self._cluster.name] = self._inspect(der, keys)
        _, user, is_proxy, until = known
        if self._cluster.clock() > until:
            return None
        if is_proxy:
            remote = request.headers.get("x-remote-user")
            if remote:
                return self._remote_user(request, remote)
        return user

    def _inspect(self, der: bytes, keys: ClusterKeys | None) -> _Inspected:
        certificate = x509.load_der_x509_certificate(der)
        until = certificate.not_valid_after_utc
        if keys is None:
            return keys, None, False, until
        name = common_name(certificate.subject)
        if _issued_by(keys.proxy_ca, certificate):
            return keys, None, not self._proxy_names or name in self._proxy_names, until
        if not _issued_by(keys.client_ca, certificate) or not name:
            return keys, None, False, until
        groups = tuple(organizations(certificate.subject))
        digest = hashlib.sha256(der).hexdigest()
        extra = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)}
        return keys, authenticated(UserInfo(name, groups=groups, extra=extra)), False, until

    @staticmethod
    def _remote_user(request: Request, name: str) -> UserInfo:
        extra: dict[str, tuple[str, ...]] = {}
        for header, value in request.headers.items():
            lowered = header.lower()
            if lowered.startswith("x-remote-extra-"):
                key = unquote(lowered[len("x-remote-extra-") :])
                extra[key] = (*extra.get(key, ()), from_header(value))
        groups = tuple(from_header(group) for group in request.headers.getall("x-remote-group"))
        uid = from_header(request.headers.get("x-remote-uid") or "")
        return authenticated(UserInfo(from_header(name), uid, groups, extra))


def _issued_by(authority: CertificateAuthority, certificate: x509.Certificate) -> bool:
    return certificate.issuer == authority.certificate.subject and authority.signed(certificate)


def refusal(user: UserInfo, attributes: AccessAttributes, reason: str = "") -> errors.ApiError:
    """The refusal of an authorizer in the words every client knows."""
    if not attributes.is_resource:
        return errors.forbidden_path(user.name, attributes.verb, attributes.path)
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
    text = f'User "{user.name}" cannot {attributes.verb} {what} {where}'
    if reason:
        text = f"{text}: {reason}"
    return errors.forbidden(attributes.group, attributes.resource, attributes.name, text)
