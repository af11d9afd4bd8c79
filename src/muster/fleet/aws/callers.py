"""Authentication of callers by signature (SigV4): a user by an access key, a session of a role by temporary credentials.

A signature is accepted in the headers or in the query, never in both. It has to be for the called service, cover the host and every
`x-amz-` header, and be made within minutes of now; in a query, within a quarter of an hour, whatever `X-Amz-Expires` has, as STS
does. A request that does not verify is refused before anything else of it is checked.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.aws.sigv4 import ALGORITHM, TERMINATOR, TIME_FORMAT, Canonical, Scope, payload_hash
from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.sessions import INVALID, Sessions
from muster.fleet.aws.world import Identity, World

SKEW: Final = timedelta(minutes=5)
PRESIGNED_FOR: Final = timedelta(minutes=15)
_AUTHORIZATION: Final = re.compile(
    rf"{ALGORITHM} +Credential=(?P<credential>[^\s,]+)[, ]+SignedHeaders=(?P<headers>[^\s,]+)"
    r"[, ]+Signature=(?P<signature>[0-9a-f]{64})"
)
_IN_QUERY: Final = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature")
_TOKEN: Final = "X-Amz-Security-Token"
PROOF: Final = frozenset((*_IN_QUERY, _TOKEN))
"""Parameters of a query that belong to its signature."""


@dataclass(frozen=True)
class Caller:
    identity: Identity
    """The identity as IAM has it now."""
    arn: str
    """The ARN in the answer of GetCallerIdentity: of a session, not of the role."""
    user_id: str
    access_key: str
    session: str = ""
    """The name of the session; empty for users."""

    @property
    def account(self) -> str:
        return self.identity.account


@dataclass(frozen=True)
class SignedRequest:
    """The parts of a received request that a signature may cover."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in order, with duplicates."""
    body: bytes

    def header(self, name: str) -> str:
        return ",".join(value for one, value in self.headers if one == name)

    @property
    def is_presigned(self) -> bool:
        return any(name in PROOF for name, _ in self.query)

    @property
    def is_signed(self) -> bool:
        return self.is_presigned or bool(self.header("authorization"))


@dataclass(frozen=True)
class _Proof:
    access_key: str
    scope: Scope
    time: str
    signed_headers: tuple[str, ...]
    signature: str
    token: str


class Callers:
    def __init__(self, world: World, sessions: Sessions) -> None:
        self._world = world
        self._sessions = sessions

    def authenticate(self, request: SignedRequest, service: str) -> tuple[Caller, str]:
        """The caller, and the region that the request is signed for. Raises AwsRefusal."""
        proof = _query_proof(request) if request.is_presigned else _header_proof(request)
        self._check_time(proof, PRESIGNED_FOR if request.is_presigned else SKEW)
        if proof.scope.service != service:
            raise _mismatch(f"Credential should be scoped to correct service: '{service}'.")
        _check_signed(request, proof)
        secret, caller = self._owner(proof)
        query = tuple(pair for pair in request.query if pair[0] != "X-Amz-Signature")
        headers = tuple(pair for pair in request.headers if pair[0] in proof.signed_headers)
        canonical = Canonical(request.method, request.path, query, headers, payload_hash(request.body))
        # As bytes: compare_digest takes no texts with letters beyond ASCII.
        if not hmac.compare_digest(canonical.signature(secret, proof.time, proof.scope).encode(), proof.signature.encode()):
            raise _mismatch("The request signature we calculated does not match the signature you provided.")
        return caller, proof.scope.region

    def _owner(self, proof: _Proof) -> tuple[str, Caller]:
        """The secret of the key, and its owner."""
        if proof.token:
            session, secret = self._sessions.read(proof.access_key, proof.token)
            identity = self._world.identity_of(session.account, "role", session.role_name)
            if identity is None or identity.unique_id != session.role_id:
                raise INVALID
            resource = f"assumed-role/{session.role_name}/{session.name}"
            arn = f"arn:{self._world.partition}:sts::{session.account}:{resource}"
            user_id = f"{session.role_id}:{session.name}"
            return secret, Caller(identity, arn, user_id, proof.access_key, session.name)
        for number, account in self._world.state.accounts.items():
            key = account.keys.get(proof.access_key)
            user = self._world.identity_of(number, "user", key.user) if key is not None else None
            if key is not None and user is not None:
                return key.secret, Caller(user, user.arn, user.unique_id, key.key_id)
        raise INVALID

    def _check_time(self, proof: _Proof, valid: timedelta) -> None:
        try:
            signed = datetime.strptime(proof.time, TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            raise _incomplete("Date must be in ISO-8601 'basic format'.") from None
        if proof.scope.date != proof.time[:8]:
            raise _mismatch("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.")
        now = self._world.clock.now()
        if signed + valid < now:
            raise _mismatch(f"Signature expired: {proof.time} is now earlier than {(now - valid).strftime(TIME_FORMAT)}")
        if signed - SKEW > now:
            raise _mismatch(f"Signature not yet current: {proof.time} is still later than {(now + SKEW).strftime(TIME_FORMAT)}")


def _header_proof(request: SignedRequest) -> _Proof:
    header = request.header("authorization")
    if not header:
        raise AwsRefusal("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    found = _AUTHORIZATION.fullmatch(header)
    if found is None:
        raise _incomplete("Authorization header must have Credential, SignedHeaders and Signature of AWS4-HMAC-SHA256.")
    access_key, scope = _credential(found["credential"])
    names = tuple(found["headers"].split(";"))
    return _Proof(
        access_key, scope, request.header("x-amz-date"), names, found["signature"], request.header("x-amz-security-token")
    )


def _query_proof(request: SignedRequest) -> _Proof:
    if request.header("authorization"):
        raise _incomplete("Only one of Authorization header and query-string authentication may be used.")
    given: Mapping[str, str] = dict(request.query)
    missing = [name for name in _IN_QUERY if name not in given]
    if missing or given["X-Amz-Algorithm"] != ALGORITHM:
        raise _incomplete(f"AWS query-string parameters must include: {', '.join(_IN_QUERY)}.")
    access_key, scope = _credential(given["X-Amz-Credential"])
    names = tuple(given["X-Amz-SignedHeaders"].split(";"))
    return _Proof(access_key, scope, given["X-Amz-Date"], names, given["X-Amz-Signature"], given.get(_TOKEN, ""))


def _credential(text: str) -> tuple[str, Scope]:
    parts = text.split("/")
    if len(parts) != 5 or parts[4] != TERMINATOR:
        raise _incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/aws4_request.")
    return parts[0], Scope(parts[1], parts[2], parts[3])


def _check_signed(request: SignedRequest, proof: _Proof) -> None:
    """Check that the signature covers what must not be modified in transit."""
    if "host" not in proof.signed_headers:
        raise _mismatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    there = {name for name, _ in request.headers}
    for name in there:
        if name.startswith("x-amz-") and name not in proof.signed_headers:
            raise _mismatch(f"There were headers present in the request which were not signed: {name[:100]}")
    for name in proof.signed_headers:
        if name not in there:
            raise _mismatch("A signed header is not in the request.")


def _mismatch(message: str) -> AwsRefusal:
    return AwsRefusal("SignatureDoesNotMatch", message, 403)


def _incomplete(message: str) -> AwsRefusal:
    return AwsRefusal("IncompleteSignature", message, 403)
