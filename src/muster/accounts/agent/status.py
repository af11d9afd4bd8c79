"""What an agent says of a ManagedServiceAccount: a function of the token that lies on the hub, or of why none does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from muster.api import Condition
from muster.api.authentication.v1beta1 import SECRET_CREATED, TOKEN_REPORTED, ManagedServiceAccount, TokenSecretRef
from muster.kube.token_claims import TokenClaims
from muster.machinery.golang.timestamps import format_time
from muster.machinery.printable import one_line
from muster.runtime.controller import with_condition

FAILED: Final = "TokenReportFailed"
NO_SECRET: Final = "SecretNotCreated"
_LONGEST: Final = 1024


def with_token(account: ManagedServiceAccount, claims: TokenClaims, now: datetime) -> ManagedServiceAccount:
    account = _with(account, SECRET_CREATED, True, SECRET_CREATED, "The Secret with the token is there", now)
    account = _with(account, TOKEN_REPORTED, True, TOKEN_REPORTED, "The token lies on the hub", now)
    status = msgspec.structs.replace(
        account.status,
        expiration_timestamp=format_time(claims.expires),
        token_secret_ref=TokenSecretRef(name=account.metadata.name, last_refresh_timestamp=format_time(claims.issued)),
    )
    return msgspec.structs.replace(account, status=status)


def with_failure(account: ManagedServiceAccount, problem: str, now: datetime, *, secret: bool) -> ManagedServiceAccount:
    """`secret`: whether the Secret is there. What was said of an earlier token stays: it may still serve."""
    message = one_line(problem)[:_LONGEST]
    if not secret:
        account = _with(account, SECRET_CREATED, False, NO_SECRET, message, now)
    return _with(account, TOKEN_REPORTED, False, FAILED, message, now)


def _with(
    account: ManagedServiceAccount, kind: str, status: bool, reason: str, message: str, now: datetime
) -> ManagedServiceAccount:
    generation = account.metadata.generation
    said = Condition(type=kind, status=str(status), reason=reason, message=message, observed_generation=generation)
    return with_condition(account, said, now)
