"""Authentication by the head of a call: a client certificate that TLS has verified, else a bearer token.

A certificate's common name is the user, its organizations are the groups, as in Kubernetes; it is parsed once per connection. Its
validity is checked at each call, and the caller has its expiration, so that open streams can be ended then. A token is reviewed by
the cluster, and results are cached for seconds (`muster.runtime.auth.TokenReviewer`), so repeated attempts with one invalid token
cost little; many different tokens wait in a queue per address, and use few of the concurrent requests. All failed authentications
get the same message: the cause is only logged, and never the credential itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509

from muster.api.agents import parse_common_name
from muster.kube.client_certificates import certificate_user
from muster.machinery.authentication import UserInfo, authenticated
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.runtime.auth import MAX_TOKEN, Authenticator
from muster.runtime.client import KubeError
from muster.transport.rpc.interfaces import CallHead
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.turns import FairTurns

log = get_logger("muster.transport.server")

_MEMO: Final = "muster.identity"
_BEARER: Final = "Bearer "
REVIEWS_AT_ONCE: Final = 16
"""Concurrent token reviews in all, per address, and waiting per address, which may be a load balancer's: unauthenticated callers
cause them.
"""
REVIEWS_EACH: Final = 4
REVIEWS_WAITING: Final = 1_024


@dataclass(frozen=True)
class Identity:
    """The caller. `cluster` is that of an agent; empty for other users."""

    user: UserInfo
    cluster: str = ""
    not_after: datetime | None = None
    """The expiration of the certificate; that of a token is not known."""

    @property
    def is_agent(self) -> bool:
        return bool(self.cluster)


def identity(user: UserInfo, not_after: datetime | None = None) -> Identity:
    agent = parse_common_name(user.name)
    return Identity(user, agent.cluster if agent is not None else "", not_after)


class CallerAuthentication:
    """The `Authenticate` of the gRPC server. An authenticated user owns the connection from then on, by which limits are
    counted."""

    def __init__(
        self, tokens: Authenticator, *, trusts: Callable[[bytes], bool] = lambda authority: True, clock: Clock = SYSTEM
    ) -> None:
        """`tokens` may send reviews. `trusts` is whether a CA (DER) is still trusted: CAs may be removed while a connection with
        one of their certificates is open."""
        self._tokens = tokens
        self._trusts = trusts
        self._clock = clock
        self._turns = FairTurns(in_all=REVIEWS_AT_ONCE, each=REVIEWS_EACH, longest_line=REVIEWS_WAITING)

    async def __call__(self, head: CallHead) -> Identity:
        """Raises RpcError: UNAUTHENTICATED, and UNAVAILABLE if the cluster cannot be reached."""
        certified = self._by_certificate(head)
        if certified is not None:
            head.connection.owner = certified.user.name
            return certified
        token = head.metadata.get("authorization", "").removeprefix(_BEARER).strip()
        if token and len(token) <= MAX_TOKEN:
            try:
                async with self._turns.turn(head.connection.remote[0]):
                    user = await self._tokens.authenticate(token)
            except KubeError as error:
                log.warning("cannot review a token", error=str(error))
                raise RpcError(Code.UNAVAILABLE, "the hub cannot find out who calls; try again") from None
            if user is not None and user.name:
                head.connection.owner = user.name
                return identity(user)
        log.debug("caller is unknown", remote=head.connection.remote[0], has_token=bool(token))
        raise RpcError(Code.UNAUTHENTICATED, "give a valid client certificate or bearer token")

    def _by_certificate(self, head: CallHead) -> Identity | None:
        connection = head.connection
        if connection.peer_certificate is None:
            return None
        found: Identity | None = connection.memo.get(_MEMO)
        if found is None:
            found = connection.memo[_MEMO] = read_certificate(connection.peer_certificate)
        assert found.not_after is not None, "of a certificate"
        if not found.user.name or found.not_after <= self._clock.now():
            return None
        return found if self._trusts((connection.peer_chain or (connection.peer_certificate,))[-1]) else None


def read_certificate(der: bytes) -> Identity:
    certificate = x509.load_der_x509_certificate(der)
    user = certificate_user(certificate)
    return identity(UserInfo("") if user is None else authenticated(user), certificate.not_valid_after_utc)
