"""Authentication of requests to a server behind the aggregator, by the rules of `k8s.io/apiserver`.

In this order: a front proxy, which has a certificate of the request-header CAs and an allowed name, sends the user in headers; a
client certificate of the client CAs names the user itself; a bearer token is reviewed by the cluster; without credentials, the user
is anonymous. An invalid credential is refused, unless another credential of the request is valid.

Certificates are verified against each set of CAs separately, because TLS accepts both sets: a user must not be able to act as a
front proxy. The result is cached per certificate, as long as every certificate of its chain is valid and the CAs are unchanged. So
a connection that was made with a removed CA is no longer authenticated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from cryptography import x509

from muster.http import Request
from muster.kube.certificates import CertificateAuthority, common_name
from muster.kube.client_certificates import Validity, certificate_user
from muster.kube.front_proxy import FrontProxyHeaders, RemoteUsers
from muster.kube.websocket_token import upgrade_token
from muster.machinery.authentication import ANONYMOUS, UserInfo, authenticated
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.runtime.auth.aggregation_trust import CONFIG_MAP, NAMESPACE, AggregationTrust, read_trust
from muster.runtime.auth.delegation import Authenticator
from muster.runtime.cache.informer import Informers
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import CONFIG_MAPS

log = get_logger("muster.runtime.auth")

_MEMO: Final = "muster.aggregated-caller"
_NO_TRUST: Final = AggregationTrust()
_REMEMBERED: Final = 256
"""Certificates."""


class Unauthenticated(Exception):
    """The credentials of a request are invalid: 401. The text is for the log, and contains no credentials."""


@dataclass(frozen=True, slots=True)
class _Certified:
    """The result for a certificate, with the CAs of that time: a user, or that it is a front proxy."""

    trust: AggregationTrust
    user: UserInfo | None = None
    user_validity: Validity | None = None
    proxy_validity: Validity | None = None


class CallerAuthentication:
    """Reads the cluster's ConfigMap through `informers`, which their owner runs. Without a ConfigMap no certificate is accepted."""

    def __init__(self, informers: Informers, *, tokens: Authenticator, clock: Clock = SYSTEM) -> None:
        self._tokens = tokens
        self._clock = clock
        self._trust = _NO_TRUST
        self._remote_users = RemoteUsers()
        self._certified: dict[tuple[bytes, ...], _Certified] = {}
        """By certificate with its chain: a front proxy makes many connections with one."""
        self._handlers: list[Callable[[], None]] = []
        # TLS requests client certificates from the first connection on or never, so there must be a CA from the start, though it
        # has issued nothing.
        self._placeholder = CertificateAuthority.create("nobody", clock.now(), timedelta(days=1)).pem
        self._informer = informers.of(CONFIG_MAPS, NAMESPACE, field_selector=f"metadata.name={CONFIG_MAP}")
        self._informer.on_change(self._changed)

    @property
    def ready(self) -> bool:
        """Whether the ConfigMap has been read."""
        return self._informer.has_synced

    def client_cas(self) -> bytes:
        """The CAs for the server's TLS (PEM), never empty."""
        return self._trust.authorities or self._placeholder

    def on_rotation(self, handler: Callable[[], None]) -> None:
        """Called after `client_cas` has changed; must be quick."""
        self._handlers.append(handler)

    @property
    def headers(self) -> FrontProxyHeaders:
        """The headers in which front proxies send users; headers with its `names` and `prefixes` must not be forwarded."""
        return self._trust.headers

    async def authenticate(self, request: Request) -> UserInfo:
        """Raises Unauthenticated, and KubeError if a token cannot be reviewed."""
        connection = request.connection
        user = self._by_certificate(request)
        if user is not None:
            return user
        shown = False
        for read in (_authorization_token, _websocket_token):
            token = read(request)
            if not token:
                continue
            shown = True
            found = await self._tokens.authenticate(token)
            if found is not None and found.name:
                connection.owner = found.name
                return authenticated(found)
        if shown:
            raise Unauthenticated("the bearer token is not known")
        if connection.peer_certificate is not None or connection.foreign_certificate is not None:
            raise Unauthenticated("no authority vouches for the certificate, or not at this time")
        return ANONYMOUS

    def _by_certificate(self, request: Request) -> UserInfo | None:
        connection = request.connection
        if connection.peer_certificate is None:
            return None
        certified: _Certified | None = connection.memo.get(_MEMO)
        if certified is None or certified.trust is not self._trust:
            certified = connection.memo[_MEMO] = self._prove(connection.peer_chain or (connection.peer_certificate,))
        now = self._clock.now()
        if certified.proxy_validity is not None and certified.proxy_validity.holds(now):
            remote = self._remote_users.find(request.headers.raw)
            if remote is not None:
                return authenticated(remote)
        if certified.user_validity is not None and certified.user_validity.holds(now):
            return certified.user
        return None

    def _prove(self, shown: Sequence[bytes]) -> _Certified:
        """Verify a certificate chain, leaf first; TLS has verified that the peer has the leaf's private key."""
        certified = self._certified.get(tuple(shown))
        if certified is None:
            certified = self._inspect(shown)
            if len(self._certified) >= _REMEMBERED:
                self._certified.clear()
            self._certified[tuple(shown)] = certified
        return certified

    def _inspect(self, shown: Sequence[bytes]) -> _Certified:
        trust = self._trust
        try:
            chain = [x509.load_der_x509_certificate(der) for der in shown]
            proxy = None if trust.proxies is None else trust.proxies.validity(chain)
            if proxy is not None and trust.proxy_names and common_name(chain[0].subject) not in trust.proxy_names:
                log.warning("a front proxy's name is not allowed", name=common_name(chain[0].subject))
                proxy = None
            validity = None if trust.clients is None else trust.clients.validity(chain)
            user = None if validity is None else certificate_user(chain[0])
        except ValueError as error:
            log.warning("client certificate cannot be read", error=str(error))
            return _Certified(trust)
        return _Certified(trust, None if user is None else authenticated(user), None if user is None else validity, proxy)

    def _changed(self, _: Snapshot | None, new: Snapshot | None) -> None:
        try:
            trust = _NO_TRUST if new is None else read_trust(_data(new))
        except ValueError as error:
            log.error("callers are known by what was there before", error=str(error))
            return
        rotated = trust.authorities != self._trust.authorities
        self._trust = trust
        self._remote_users = RemoteUsers(trust.headers)
        self._certified.clear()
        log.info("callers are known anew", front_proxy=trust.proxies is not None, certificates=trust.clients is not None)
        if rotated:
            for handler in self._handlers:
                handler()


def _data(config_map: Snapshot) -> dict[str, Any]:
    data = config_map.decode().get("data")
    return data if isinstance(data, dict) else {}


def _authorization_token(request: Request) -> str:
    scheme, _, rest = (request.headers.get("authorization") or "").strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _websocket_token(request: Request) -> str:
    if not request.upgrade:
        return ""
    try:
        return upgrade_token(request.headers.get("upgrade"), request.headers.getall("sec-websocket-protocol"))
    except ValueError as error:
        raise Unauthenticated(str(error)) from None
