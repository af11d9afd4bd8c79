"""Who calls, by the credential alone, found out on a call's head: a client certificate that TLS has verified, else a bearer token.

A certificate's common name is the user, its organizations are the groups, as everywhere in Kubernetes; it is read once per
connection. It counts only while it is valid, at each call anew, and a caller remembers its end, so that whoever keeps streams open
can end them then. A token is reviewed by the cluster, and good or bad answers are remembered for seconds
(`muster.runtime.auth.TokenReviewer`), so that a stranger who tries one token again and again costs next to nothing; who tries many
waits in a line of its address's own, and takes few of the requests that others need too. Whoever proves
nothing is refused in the same words, whatever was wrong: what is wrong with a credential is told to the log only, and never the
credential itself.
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
"""Of tokens, which anybody can send: in all, of one address, and waiting of one address, which may be a load balancer's."""
REVIEWS_EACH: Final = 4
REVIEWS_WAITING: Final = 1_024


@dataclass(frozen=True)
class Identity:
    """Who calls. `cluster` is the one whose agent this is; empty where the name is no agent's."""

    user: UserInfo
    cluster: str = ""
    not_after: datetime | None = None
    """When the certificate ends; a token has no end that we know of."""

    @property
    def is_agent(self) -> bool:
        return bool(self.cluster)


def identity(user: UserInfo, not_after: datetime | None = None) -> Identity:
    agent = parse_common_name(user.name)
    return Identity(user, agent.cluster if agent is not None else "", not_after)


class CallerAuthentication:
    """An `Authenticate` of the wire. Whoever is known owns the connection from then on, which limits are counted by."""

    def __init__(
        self, tokens: Authenticator, *, trusts: Callable[[bytes], bool] = lambda authority: True, clock: Clock = SYSTEM
    ) -> None:
        """`tokens` may ask the cluster. `trusts` says whether a certificate of an authority (DER) still counts: authorities may
        be taken away while a connection that one of them vouched for lives.
        """
        self._tokens = tokens
        self._trusts = trusts
        self._clock = clock
        self._turns = FairTurns(in_all=REVIEWS_AT_ONCE, each=REVIEWS_EACH, longest_line=REVIEWS_WAITING)

    async def __call__(self, head: CallHead) -> Identity:
        """Raises RpcError: UNAUTHENTICATED, and UNAVAILABLE where the cluster cannot be asked."""
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
